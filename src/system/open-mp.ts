// Environment variables for GNU OpenMP, which computes for ggml and reads them when it is loaded.
// Used by engine/gateway/child for an engine process, and by engine/in-process/local for this one.

/**
 * How long llama.cpp's threads spin at a barrier before they sleep. GNU OpenMP's default is four
 * times longer, which exceeds the time slice that the system gives another program, so the spinning
 * thread waits in vain. Beside two busy programs that halves the speed: docs/design/threads.md. The
 * library reads the variable once, when it is loaded; a value that the user set wins.
 */
export function spinCount(): Record<string, string> {
  const { env } = process;
  return env['GOMP_SPINCOUNT'] || env['OMP_WAIT_POLICY'] ? {} : { GOMP_SPINCOUNT: '80000' };
}

/** Sets the variables during the work, in which the library is loaded, then restores them. */
export function withEnvironment<T>(variables: Record<string, string>, work: () => T): T {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  try {
    return work();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
