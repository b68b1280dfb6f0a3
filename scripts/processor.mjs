// Which instructions the local build leaves out, because kernels that use them compute wrongly on
// this machine. processor-check.mjs chooses them; the choice is kept in the build folder and holds
// until the processor, the compiler or llama.cpp changes.
import { readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ownLlamaCpp, place, readPin } from './place.mjs';
import { capture } from './process.mjs';
import { readJson, writeJson } from './stamp.mjs';

export const choicePath = join(place.build, 'cpu-without.json');

/**
 * Levels to leave out one after another, newest first. `features`: what ggml reports for a library
 * that has the level; cmake/cpu-backend.cmake has the compiler options for each name.
 */
const levelsOf = {
  x64: [
    { name: 'amx', text: 'AMX', features: ['AMX_INT8'] },
    { name: 'avx512-extensions', text: "AVX-512's extensions (VNNI, BF16, VBMI)", features: ['AVX512_VNNI', 'AVX512_BF16', 'AVX512_VBMI', 'AVX_VNNI'] },
    { name: 'avx512', text: 'AVX-512', features: ['AVX512'] },
    { name: 'avx2', text: 'AVX2, FMA and F16C', features: ['AVX2', 'FMA', 'F16C'] },
  ],
  // On these platforms, compiler options cannot remove single features.
  others: [{ name: 'native', text: 'what this processor has beyond the least', features: [] }],
};

export function levels(arch = process.arch, platform = process.platform) {
  return arch === 'x64' && platform !== 'win32' ? levelsOf.x64 : levelsOf.others;
}

/**
 * What to leave out next, or undefined if nothing is left. `features`: those of the library that
 * failed, undefined if it failed before it could report them.
 */
export function nextWithout(features, without, all = levels()) {
  return all.find(({ name, features: own }) => !without.includes(name)
    && (features === undefined || own.length === 0 || own.some((feature) => Object.hasOwn(features, feature))));
}

/** What the choice depends on. */
export function choiceKey() {
  const compilers = [process.env.CC || 'cc', process.env.CXX || 'c++'].map((name) => (capture(name, ['--version']) ?? '').split('\n')[0]);
  return { processor: processorText(), compilers, llamaCpp: ownLlamaCpp() ?? readPin().tree };
}

function processorText() {
  if (process.platform !== 'linux') return `${process.arch} ${os.cpus()[0]?.model ?? ''}`;
  const lines = readFileSync('/proc/cpuinfo', 'utf8').split('\n\n')[0].split('\n');
  return lines.filter((line) => /^(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+|isa|uarch)\s*:/.test(line)).join('\n');
}

/** What the build leaves out, with reasons; empty if the choice is for another machine. */
export function readChoice(path = choicePath, key = choiceKey) {
  const found = readJson(path);
  return Array.isArray(found?.without) && JSON.stringify(found.key) === JSON.stringify(key()) ? found.without : [];
}

export function writeChoice(without, path = choicePath, key = choiceKey) {
  if (without.length === 0) rmSync(path, { force: true });
  else writeJson(path, { key: key(), without });
}

/** Options for cmake, without `-D`. */
export function withoutOptions(names = readChoice().map(({ name }) => name)) {
  if (names.includes('native')) return ['GGML_NATIVE=OFF', ...(process.platform === 'win32' ? ['GGML_AVX2=OFF', 'GGML_FMA=OFF', 'GGML_F16C=OFF', 'GGML_BMI2=OFF'] : [])];
  return names.length === 0 ? [] : [`RECUA_CPU_WITHOUT=${names.join(',')}`];
}
