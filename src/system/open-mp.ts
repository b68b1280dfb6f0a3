// What GNU OpenMP, which computes for ggml, shall read from the environment when it is loaded. Used
// wherever that happens: by engine/gateway/child for an engine process, by engine/in-process/local
// for this one.

/**
 * How long llama.cpp's threads spin at a barrier before they sleep. GNU OpenMP's own default is
 * four times longer: longer than the system lets another program run, for which a thread that spins
 * then waits in vain. Beside two busy programs that halves the speed: docs/design/threads.md. It is
 * read once when the library is loaded; a choice of the user's own stands.
 */
export function spinCount(): Record<string, string> {
  const { env } = process;
  return env['GOMP_SPINCOUNT'] || env['OMP_WAIT_POLICY'] ? {} : { GOMP_SPINCOUNT: '80000' };
}

/**
 * Does the work with these variables set, for a library that is loaded meanwhile; then they are as
 * before.
 */
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
