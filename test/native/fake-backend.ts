// Compiles fake-backend.cpp: a fake GPU and unusable libraries, each kind once per machine and
// source, since several test files need them.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const release = join(root, 'build', 'Release');

const faults = { none: 0, abort: 1, hang: 2, null: 3, version: 4, symbol: 5, score: 6, exit: 7 } as const;

export interface FakeKind {
  fault?: keyof typeof faults;
  devices?: 0 | 1 | 2 | 3;
  memoryMib?: number;
}

/** Path of the library. */
export function fakeBackend({ fault = 'none', devices = 2, memoryMib = 8192 }: FakeKind = {}): string {
  const source = join(root, 'test', 'native', 'fake-backend.cpp');
  const vendor = join(root, 'vendor', 'llama.cpp', 'ggml');
  const words = ['-shared', '-fPIC', '-std=c++17', `-DFAULT=${faults[fault]}`, `-DDEVICES=${devices}`, `-DMEMORY_MIB=${memoryMib}`,
    `-I${join(vendor, 'include')}`, `-I${join(vendor, 'src')}`, source, `-L${release}`, '-lggml', '-lggml-base'];
  const version = createHash('sha256').update(readFileSync(source)).update(words.join(' ')).digest('hex').slice(0, 16);
  const folder = join(root, 'build', 'test-backends', version);
  const library = join(folder, 'libggml-fake.so');
  if (existsSync(library)) return library;
  mkdirSync(folder, { recursive: true });
  const begun = join(folder, `${process.pid}.so`);
  execFileSync(process.env['CXX'] || 'c++', [...words, '-o', begun], { stdio: ['ignore', 'inherit', 'inherit'] });
  renameSync(begun, library);
  return library;
}
