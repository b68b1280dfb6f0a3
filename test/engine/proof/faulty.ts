// Folders like those of the prebuilt packages: an addon without a CPU backend, and beside it CPU
// libraries of several levels, some of them faulty. Compiled files are kept for other tests.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { release, root } from '../../native/fake-backend.js';

const faults = { none: 0, illegal: 1, wrong: 2, hang: 3, load: 4, attention: 5, own: 6, q4_K: 7 } as const;
export type Fault = keyof typeof faults;

const ggml = join(root, 'vendor', 'llama.cpp', 'ggml');
const includes = [`-I${join(ggml, 'include')}`, `-I${join(ggml, 'src')}`];

function compiled(name: string, sources: readonly string[], options: readonly string[]): string {
  const hash = createHash('sha256').update(options.join(' '));
  for (const source of sources) hash.update(readFileSync(source));
  const folder = join(root, 'build', 'test-backends', hash.digest('hex').slice(0, 16));
  const library = join(folder, name);
  if (existsSync(library)) return library;
  mkdirSync(folder, { recursive: true });
  const begun = join(folder, `${process.pid}.so`);
  execFileSync(process.env['CXX'] || 'c++', ['-shared', '-fPIC', '-std=c++17', '-O1', ...includes, ...sources, ...options, '-o', begun], { stdio: ['ignore', 'inherit', 'inherit'] });
  renameSync(begun, library);
  return library;
}

const source = join(root, 'test', 'engine', 'proof', 'faulty-cpu.cpp');
const around = [`-L${release}`, '-Wl,--no-as-needed', '-lggml-cpu', '-lggml-base', `-Wl,-rpath,${release}`, '-Wl,--disable-new-dtags'];

/** A CPU library with a fault. */
export function faultyCpu(fault: Fault, points: number): string {
  return compiled('libggml-cpu-faulty.so', [source], [`-DFAULT=${faults[fault]}`, `-DPOINTS=${points}`, ...around]);
}

/** For LD_PRELOAD: gives this fault to the library that an addon is linked with. */
export function faultyLinked(t: Test, fault: Fault): string {
  const library = compiled('libfaulty-linked.so', [source], ['-DLINKED', `-DFAULT=${faults[fault]}`, ...around]);
  // A blank or a colon would end a path in LD_PRELOAD.
  if (!/[\s:]/.test(library)) return library;
  const folder = mkdtempSync(join(tmpdir(), 'recua-faulty-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const copy = join(folder, 'libfaulty-linked.so');
  copyFileSync(library, copy);
  return copy;
}

/** Puts the addon into a folder, with a library for each level: name, fault and points. */
export function packagedAddon(folder: string, levels: readonly (readonly [name: string, fault: Fault, points: number])[]): string {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(release)) {
    if (/^(recua\.node|recua-launch|lib(llama|llama-common|ggml-base)\.so\.\d+)$/.test(name)) copyFileSync(join(release, name), join(folder, name));
  }
  const registry = ['ggml-backend-reg.cpp', 'ggml-backend-dl.cpp'].map((name) => join(ggml, 'src', name));
  // The registry of ggml without its own backend, the only difference to the packages.
  copyFileSync(compiled('libggml.so.0', registry, ['-DGGML_BACKEND_SHARED', '-DGGML_BUILD', '-DGGML_SHARED', '-Wl,-soname,libggml.so.0', `-L${release}`, '-lggml-base', '-ldl']), join(folder, 'libggml.so.0'));
  for (const [name, fault, points] of levels) copyFileSync(faultyCpu(fault, points), join(folder, `libggml-cpu-${name}.so`));
  return join(folder, 'recua.node');
}
