// What a model's weights take when the CPU computes with them: which of them ggml-cpu copies into
// its own layout, and how large the copy is. Computed from the file and the processor, before
// anything is loaded. Called by memory.
import { readFileSync } from 'node:fs';
import type { Tensor } from '../gguf/gguf-tensors.js';

/**
 * Processor features that decide the layout, under Recua's names; each stands for what ggml-cpu
 * checks.
 */
export type ProcessorFeature = 'amx' | 'avx2' | 'avx512' | 'dotprod' | 'i8mm';
export type Processor = ReadonlySet<ProcessorFeature>;

/**
 * Bytes per block in addition to those in the file, for the types that AMX has kernels for
 * (ggml-cpu/amx/mmq.cpp, get_row_size).
 */
const amxExtra: ReadonlyMap<string, { elements: number; extraBytes: number }> = new Map([
  ['Q4_0', { elements: 32, extraBytes: 0 }], ['Q4_1', { elements: 32, extraBytes: 0 }], ['Q8_0', { elements: 32, extraBytes: 4 }],
  ['Q4_K', { elements: 256, extraBytes: 4 }], ['Q5_K', { elements: 256, extraBytes: 4 }], ['Q6_K', { elements: 256, extraBytes: 0 }],
  // Not repacked, but in AMX's buffer.
  ['IQ4_XS', { elements: 256, extraBytes: 2 }], ['F16', { elements: 16, extraBytes: 0 }],
]);

/**
 * Rows that are interleaved; their number must divide the matrix (ggml-cpu/repack.cpp,
 * ggml_repack_get_optimal_repack_type).
 */
const interleaved: readonly { feature: ProcessorFeature; types: readonly string[]; rows: number }[] = [
  { feature: 'avx2', types: ['Q4_0', 'Q4_K', 'IQ4_NL', 'MXFP4'], rows: 8 },
  { feature: 'avx512', types: ['Q2_K'], rows: 8 },
  { feature: 'i8mm', types: ['Q4_0', 'Q8_0', 'Q1_0'], rows: 4 },
  { feature: 'dotprod', types: ['Q4_0', 'Q8_0', 'Q1_0', 'IQ4_NL', 'MXFP4'], rows: 4 },
  { feature: 'i8mm', types: ['Q4_K', 'Q5_K', 'Q6_K'], rows: 8 },
  { feature: 'dotprod', types: ['Q4_K', 'Q5_K', 'Q6_K'], rows: 8 },
];

/**
 * Types that Recua's own products multiply with AVX2 (native/matmul). A model of which ggml-cpu
 * would copy only these is not copied (engine/process/load.ts).
 */
const multipliedByUs: ReadonlySet<string> = new Set(['Q8_0', 'Q4_K', 'Q5_K', 'Q6_K']);
const ofExperts = /_exps\.|_chexps\./;

/** Matrices for row lookups and convolutions, which are never multiplied with. */
const notMultiplied = /^(token_embd|per_layer_token_embd|position_embd|token_types)\.|conv|\.bias$|_norm\./;

/**
 * Weights that stay as they are in the file count once, mapped or read. Of copied weights only the
 * copy counts: the kernel can reclaim the file pages. `generates`: the token embeddings also serve
 * as output matrix if the file has none.
 */
export function weightsOnCpu(tensors: readonly Tensor[], processor: Processor, generates: boolean): number {
  const copied = tensors.filter((tensor) => !notMultiplied.test(tensor.name) && copyOf(tensor, processor) !== undefined);
  const takesAll = processor.has('avx2') && !processor.has('amx') && copied.every(({ name, type }) => multipliedByUs.has(type) && !ofExperts.test(name));
  if (takesAll) return tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let bytes = 0;
  for (const tensor of tensors)
    bytes += notMultiplied.test(tensor.name) ? tensor.sizeBytes : (copyOf(tensor, processor) ?? tensor.sizeBytes);
  const tied = generates && !tensors.some(({ name }) => name === 'output.weight');
  const embedding = tensors.find(({ name }) => name === 'token_embd.weight');
  return bytes + (tied && embedding ? (copyOf(embedding, processor) ?? 0) : 0);
}

/** Bytes of a matrix's copy; undefined if none is made. */
function copyOf({ name, shape, type, sizeBytes, elements }: Tensor, processor: Processor): number | undefined {
  const [columns = 0, rows = 1] = shape;
  const expert = ofExperts.test(name);
  if (shape.length < 2 || rows === 1) return undefined;
  const amx = processor.has('amx') && !expert ? amxExtra.get(type) : undefined;
  if (amx && rows % 32 === 0 && columns % amx.elements === 0) return sizeBytes + (elements / amx.elements) * amx.extraBytes;
  if (shape.length !== (expert ? 3 : 2)) return undefined;
  return interleaved.some((one) => processor.has(one.feature) && one.types.includes(type) && rows % one.rows === 0) ? sizeBytes : undefined;
}

let known: Processor | undefined;

/** This machine's features, as far as the system reports them. */
export function thisProcessor(): Processor {
  return (known ??= process.platform === 'linux' ? readProcessor(cpuinfo()) : usualOf(process.arch));
}

/** Parses the text of Linux's /proc/cpuinfo. */
export function readProcessor(text: string): Processor {
  const flags = new Set(/^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1]?.split(' '));
  const has: Record<ProcessorFeature, boolean> = {
    // ggml-cpu compiles AMX only together with VNNI.
    amx: flags.has('amx_int8') && flags.has('avx512_vnni'),
    avx2: flags.has('avx2'),
    avx512: flags.has('avx512f'),
    dotprod: flags.has('asimddp'),
    i8mm: flags.has('i8mm'),
  };
  return new Set((Object.keys(has) as ProcessorFeature[]).filter((feature) => has[feature]));
}

function cpuinfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return '';
  }
}

/** For systems that do not report them. */
function usualOf(arch: string): Processor {
  return new Set<ProcessorFeature>(arch === 'arm64' ? ['dotprod'] : arch === 'x64' ? ['avx2'] : []);
}
