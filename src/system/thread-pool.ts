// Threads of Node's pool, on which the addon prepares requests. Used by engine/gateway for an
// engine process, and by engine/prompts to know how much long work may run.

/** Of an engine process: slow requests of some clients leave threads to others. */
const ofEngine = 6;
const ofNode = 4;

/**
 * Variables of a new process; values that the user set win. glibc gives each thread a heap of
 * 64 MiB of addresses, so threads share heaps: else a process with few addresses (ulimit -v) has
 * none left for a growing stack.
 */
export function poolSize(): Record<string, string> {
  const { env } = process;
  return {
    ...(env['UV_THREADPOOL_SIZE'] ? {} : { UV_THREADPOOL_SIZE: String(ofEngine) }),
    ...(env['MALLOC_ARENA_MAX'] ? {} : { MALLOC_ARENA_MAX: String(ofEngine) }),
  };
}

/** Of this process. */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE']) || ofNode;
}
