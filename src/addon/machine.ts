// What a native library needs of the machine and can be refused for: processor, C library, the
// format of the file.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { GLIBC, familySync, versionSync } from 'detect-libc';
import type { MachineFacts } from '../system/machine-text.js';

let facts: MachineFacts | undefined;

/** Costs some milliseconds the first time, so it is asked when something failed. */
export function machineFacts(): MachineFacts {
  return facts ??= { platform: process.platform, arch: process.arch, glibc: familySync() === GLIBC ? versionSync() ?? '' : '' };
}

/** e_machine of ELF files, by Node's names. */
const elfMachines: Readonly<Record<number, string>> = { 3: 'ia32', 21: 'ppc64', 22: 's390x', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64', 258: 'loong64' };
const headerBytes = 64;

/**
 * What can be seen to be wrong with a library of Linux without loading it; '' if nothing. A file
 * that was cut off must not be loaded at all: its missing pages end the process.
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
    if (read < headerBytes || header.readUInt32BE(0) !== 0x7f454c46) return 'it is damaged: no library of Linux begins like this';
    const little = header[5] === 1;
    const machine = elfMachines[little ? header.readUInt16LE(18) : header.readUInt16BE(18)] ?? 'another processor';
    if (machine !== arch) return `it is built for ${machine}, this is ${arch}`;
    // The table of sections comes last in the file.
    const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
    const { size } = fstatSync(file);
    return header[4] === 2 && little && size < end ? `it is cut off: ${size} bytes of at least ${end}` : '';
  } finally {
    closeSync(file);
  }
}

/** Libraries of the system that backends need, and who brings them. */
const suppliers: readonly (readonly [library: RegExp, who: string])[] = [
  [/^libcuda\.so|^nvcuda/, 'the NVIDIA driver brings it'],
  [/^libvulkan\.so|^vulkan-1/, 'the Vulkan loader brings it (Debian and Ubuntu: apt install libvulkan1)'],
  [/^libgomp\.so/, 'the GNU OpenMP runtime brings it (Debian and Ubuntu: apt install libgomp1)'],
  [/^libstdc\+\+\.so/, 'the C++ runtime brings it (Debian and Ubuntu: apt install libstdc++6)'],
  [/^lib(cudart|cublas|cublasLt|nvrtc)\b/, 'the CUDA package of Recua brings it; install that again'],
];

/** The linker's words as a reason: what is there, what is needed. */
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

/** Versions of numbers with dots: below 0 where `a` is older. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const difference = (left[at] ?? 0) - (right[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
