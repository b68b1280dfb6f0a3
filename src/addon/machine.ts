// Why a native library cannot run on this machine: processor, C library, file format.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { GLIBC, familySync, versionSync } from 'detect-libc';
import type { MachineFacts } from '../system/machine-text.js';

let facts: MachineFacts | undefined;

/** Takes some milliseconds the first time, so call it only when something failed. */
export function machineFacts(): MachineFacts {
  return facts ??= { platform: process.platform, arch: process.arch, glibc: familySync() === GLIBC ? versionSync() ?? '' : '' };
}

/** Node's architecture names by the e_machine of ELF files. */
const elfMachines: Readonly<Record<number, string>> = { 3: 'ia32', 21: 'ppc64', 22: 's390x', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64', 258: 'loong64' };
const headerBytes = 64;

/**
 * What is wrong with a Linux library, as far as visible without loading it; '' if nothing. A
 * truncated file must never be loaded: its missing pages would end the process.
 */
export function fileFault(path: string, { platform, arch }: Pick<MachineFacts, 'platform' | 'arch'>): string {
  if (platform !== 'linux') return '';
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    return `it cannot be read: ${(error as Error).message}`;
  }
  try {
    const header = Buffer.alloc(headerBytes);
    const read = readSync(file, header, 0, headerBytes, 0);
    if (read < headerBytes || header.readUInt32BE(0) !== 0x7f454c46) return 'it is damaged: it has no ELF header';
    const little = header[5] === 1;
    const machine = elfMachines[little ? header.readUInt16LE(18) : header.readUInt16BE(18)] ?? 'another processor';
    if (machine !== arch) return `it is built for ${machine}, this is ${arch}`;
    // The section table is at the end of the file.
    const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
    const { size } = fstatSync(file);
    return header[4] === 2 && little && size < end ? `it is cut off: ${size} bytes of at least ${end}` : '';
  } finally {
    closeSync(file);
  }
}

/** System libraries that backends need, and what provides them. */
const suppliers: readonly (readonly [library: RegExp, who: string])[] = [
  [/^libcuda\.so|^nvcuda/, 'the NVIDIA driver brings it'],
  [/^libvulkan\.so|^vulkan-1/, 'the Vulkan loader brings it (Debian and Ubuntu: apt install libvulkan1)'],
  [/^libgomp\.so/, 'the GNU OpenMP runtime brings it (Debian and Ubuntu: apt install libgomp1)'],
  [/^libstdc\+\+\.so/, 'the C++ runtime brings it (Debian and Ubuntu: apt install libstdc++6)'],
  [/^lib(cudart|cublas|cublasLt|nvrtc)\b/, 'NVIDIA\'s CUDA 12 libraries bring it'],
];

/** The linker's error message as a reason: what is needed, what is there. */
export function explainFault(words: string, needs: { glibc: string }, facts: MachineFacts): string {
  const line = firstLine(words);
  if (facts.platform !== 'linux') return line;
  if (facts.glibc === '') return `it is built for glibc${needs.glibc === '' ? '' : ` ${needs.glibc} or newer`}, but this system uses musl (${line})`;
  const glibc = /version [`']GLIBC_([\d.]+)' not found/.exec(line)?.[1];
  if (glibc !== undefined) return `it needs glibc ${newest(glibc, needs.glibc)} or newer, this system has ${facts.glibc}`;
  const cxx = /version [`']((?:GLIBCXX|CXXABI)_[\d.]+)' not found/.exec(line)?.[1];
  if (cxx !== undefined) return `it needs a newer C++ runtime: libstdc++ with ${cxx}`;
  const library = /(?:^|: )([^\s:]+\.so[^\s:]*): cannot open shared object file: No such file/.exec(line)?.[1];
  if (library !== undefined) return `the library ${library} is missing${supplier(library)}`;
  const symbol = /undefined symbol: (\S+)/.exec(line)?.[1];
  if (symbol !== undefined) return `it does not fit the libraries beside it: ${symbol.replace(/,$/, '')} is in none of them`;
  return line;
}

function supplier(library: string): string {
  const name = library.split('/').at(-1)!;
  const who = suppliers.find(([pattern]) => pattern.test(name))?.[1];
  return who === undefined ? '' : `; ${who}`;
}

function firstLine(words: string): string {
  return words.split('\n')[0]!.replace(/^load_backend: failed to load \S+: /, '').trim();
}

function newest(a: string, b: string): string {
  return b !== '' && compareVersions(b, a) > 0 ? b : a;
}

/** Compares dotted numeric versions: negative if `a` is older. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const difference = (left[at] ?? 0) - (right[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
