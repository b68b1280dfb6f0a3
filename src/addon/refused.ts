// CPU libraries and kernels not to use, because engine/proof found that they compute wrongly. An
// environment variable passes them to each process that opens the addon, since a process may open
// it before it receives any message.

/**
 * Paths of CPU libraries, and `attention KERNEL` or `matmul KERNEL` for Recua's kernels; each with
 * its reason.
 */
export type Refused = Readonly<Record<string, string>>;

export const refusedVariable = 'RECUA_CPU_REFUSED';

type Environment = Readonly<Record<string, string | undefined>>;

export function refusedIn(environment: Environment = process.env): Refused {
  const text = environment[refusedVariable];
  if (!text) return {};
  const value = JSON.parse(text) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(value).map(([name, reason]) => [name, String(reason)]));
}

/** The variable for a child process; it overrides the one of this process. */
export function refusedEnvironment(refused: Refused): { [refusedVariable]: string } {
  return { [refusedVariable]: Object.keys(refused).length === 0 ? '' : JSON.stringify(refused) };
}

/** The names of the refused kernels of one kind. */
export function kernelsAmong(refused: Refused, kind: 'attention' | 'matmul'): string[] {
  return Object.keys(refused).filter((name) => name.startsWith(`${kind} `)).map((name) => name.slice(kind.length + 1));
}
