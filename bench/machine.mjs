// The machine that figures belong to: saved with each result and printed above it.
import { readFileSync } from 'node:fs';
import os from 'node:os';

/** Instruction sets that matter to kernels, as Linux names them. */
const features = ['avx2', 'avx_vnni', 'avx512f', 'avx512_vnni', 'avx512_bf16', 'avx512_fp16', 'amx_int8', 'amx_bf16', 'asimddp', 'i8mm', 'sve'];

function cpuInfo() {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8').split('\n\n')[0];
  } catch {
    // Not Linux.
    return '';
  }
}

/** @param {string} name a line of /proc/cpuinfo */
const value = (text, name) => new RegExp(`^${name}\\s*: (.*)$`, 'm').exec(text)?.[1];

export function machine() {
  const text = cpuInfo();
  const has = new Set((value(text, 'flags') ?? value(text, 'Features') ?? '').split(' '));
  const family = value(text, 'cpu family');
  const model = os.cpus()[0]?.model.trim() ?? process.arch;
  return {
    processor: family ? `${model} (family ${family}, model ${value(text, 'model')})` : model,
    features: features.filter((feature) => has.has(feature)),
    cores: os.availableParallelism(),
    memoryGib: Math.round(os.totalmem() / 2 ** 30),
    system: `${os.type()} ${os.release()}`,
    node: process.version,
  };
}

/** One line of it. */
export function describeMachine({ processor, features, cores, memoryGib, system, node }) {
  return `${processor}, ${cores} cores, ${memoryGib} GiB, ${features.join(' ') || 'no features known'}; ${system}, Node ${node.slice(1)}`;
}
