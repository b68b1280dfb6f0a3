// Builds of the native code with sanitizers (cmake/sanitize.cmake), and the environment to run
// them. Linux only.
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cmakeBuild } from './cmake-build.mjs';
import { root } from './place.mjs';
import { capture, cleanEnv, Failure } from './process.mjs';
import { step } from './progress.mjs';

const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch];
const kinds = {
  address: { c: 'clang', cxx: 'clang++', runtime: `libclang_rt.asan-${machine}.so`, from: 'apt-get install clang and the libclang-rt-…-dev of its version' },
  thread: { c: 'gcc', cxx: 'g++', runtime: 'libtsan.so', from: 'apt-get install g++' },
};

export const folderOf = (kind) => join(root, `build-${kind}`);

/** The library that a process must load first. */
function runtimeOf(kind) {
  if (process.platform !== 'linux') throw new Failure(`Builds for the ${kind} sanitizer are made on Linux, not on ${process.platform}.`);
  const { c, runtime, from } = kinds[kind];
  const path = capture(c, [`-print-file-name=${runtime}`]);
  if (path === undefined || !existsSync(path)) throw new Failure(`${c} with its runtime of the ${kind} sanitizer is not installed: on Debian, ${from}.`);
  return realpathSync(path);
}

/** Builds a target of the CMake tree, `recua` or `fuzz`, for a sanitizer: `address` or `thread`. */
export async function buildSanitized(kind, target, product) {
  runtimeOf(kind);
  const folder = folderOf(kind);
  const { c, cxx } = kinds[kind];
  const options = [`RECUA_SANITIZE=${kind}`, `CMAKE_C_COMPILER=${c}`, `CMAKE_CXX_COMPILER=${cxx}`];
  const { build } = cmakeBuild({ folder, options, product: join(folder, product), target });
  await step(`Building ${target} for the ${kind} sanitizer`, (report) => build(report));
}

/**
 * The environment of a program that runs such a build. Each process that finds an error writes a
 * file whose path begins with `reports`.
 */
export function sanitizedEnv(kind, reports) {
  const runtime = runtimeOf(kind);
  const symbolizer = capture('clang', ['-print-prog-name=llvm-symbolizer']) ?? 'llvm-symbolizer';
  // Leaks: V8 keeps what it holds to the end. Stacks of node's own threads are not ours to judge.
  const common = [`log_path=${reports}`, 'detect_leaks=0', `external_symbolizer_path=${symbolizer}`];
  const env = { ...cleanEnv(), LD_PRELOAD: runtime, LD_LIBRARY_PATH: [dirname(runtime), process.env.LD_LIBRARY_PATH].filter(Boolean).join(':') };
  if (kind === 'address') {
    // Node has its own handler, and tests raise these signals on purpose.
    env.ASAN_OPTIONS = [...common, 'handle_segv=0', 'handle_abort=0', 'allocator_may_return_null=1'].join(':');
    env.UBSAN_OPTIONS = [...common, 'print_stacktrace=1'].join(':');
  } else {
    env.TSAN_OPTIONS = [...common, `suppressions=${join(root, 'native', 'fuzz', 'thread.supp')}`, 'history_size=4', 'report_signal_unsafe=0', 'allocator_may_return_null=1'].join(':');
  }
  return env;
}
