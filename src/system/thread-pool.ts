// Threads of Node's pool, on which the addon prepares requests. Used by engine/gateway for an engine
// process, and by engine/prompts to know how much long work may run.

/** Of an engine process: slow requests of some clients leave threads to others. */
const ofEngine = 8;
const ofNode = 4;

/** The variable that sets it for a new process; a value that the user set wins. */
export function poolSize(): Record<string, string> {
  return process.env['UV_THREADPOOL_SIZE'] ? {} : { UV_THREADPOOL_SIZE: String(ofEngine) };
}

/** Of this process. */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE']) || ofNode;
}
