// Builds of the native code that look for mistakes while they run (cmake/sanitize.cmake), and what
// a program needs to run with one. Linux with clang.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cmakeBuild } from './cmake-build.mjs';
import { root } from './place.mjs';
import { capture, cleanEnv, Failure } from './process.mjs';
import { step } from './progress.mjs';

const runtimes = { address: 'asan', thread: 'tsan' };

export const folderOf = (kind) => join(root, `build-${kind}`);

/** The library that has to be the first in a process. */
function runtimeOf(kind) {
  if (process.platform !== 'linux') throw new Failure(`Builds for the ${kind} sanitizer are made on Linux, not on ${process.platform}.`);
  const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch];
  const path = capture('clang', [`-print-file-name=libclang_rt.${runtimes[kind]}-${machine}.so`]);
  if (path === undefined) throw new Failure('clang is not installed: on Debian, apt-get install clang.');
  if (!existsSync(path)) throw new Failure(`clang has no runtime of the ${kind} sanitizer: on Debian, apt-get install the libclang-rt-…-dev of your clang.`);
  return path;
}

/** Builds a target of the CMake tree, `recua` or `fuzz`, for a sanitizer: `address` or `thread`. */
export async function buildSanitized(kind, target, product) {
  runtimeOf(kind);
  const folder = folderOf(kind);
  const options = [`RECUA_SANITIZE=${kind}`, 'CMAKE_C_COMPILER=clang', 'CMAKE_CXX_COMPILER=clang++'];
  const { build } = cmakeBuild({ folder, options, product: join(folder, product), target });
  await step(`Building ${target} for the ${kind} sanitizer`, (report) => build(report));
}

/**
 * The environment of a program that runs such a build. Each process that finds a mistake writes
 * a file whose name begins with `reports`, a path.
 */
export function sanitizedEnv(kind, reports) {
  const runtime = runtimeOf(kind);
  const symbolizer = capture('clang', ['-print-prog-name=llvm-symbolizer']);
  // Leaks: V8 keeps what it holds to the end. Stacks of node's own threads are not ours to judge.
  const common = [`log_path=${reports}`, 'detect_leaks=0', `external_symbolizer_path=${symbolizer}`];
  const env = { ...cleanEnv(), LD_PRELOAD: runtime, LD_LIBRARY_PATH: [dirname(runtime), process.env.LD_LIBRARY_PATH].filter(Boolean).join(':') };
  if (kind === 'address') {
    // Node has a handler of its own, and tests raise these signals on purpose.
    env.ASAN_OPTIONS = [...common, 'handle_segv=0', 'handle_abort=0', 'allocator_may_return_null=1'].join(':');
    env.UBSAN_OPTIONS = [...common, 'print_stacktrace=1'].join(':');
  } else {
    env.TSAN_OPTIONS = [...common, `suppressions=${join(root, 'native', 'fuzz', 'thread.supp')}`, 'history_size=4', 'report_signal_unsafe=0'].join(':');
  }
  return env;
}
