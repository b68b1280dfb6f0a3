// What was found to compute wrongly and is not to be used: engine/proof finds it out, and each
// process that opens the addon is told by a variable, because it may do so before it hears of
// anything else.

/** Paths of CPU libraries, and `attention KERNEL` for kernels of ours; each with its reason. */
export type Refused = Readonly<Record<string, string>>;

export const refusedVariable = 'RECUA_CPU_REFUSED';
const kernelMark = 'attention ';

type Environment = Readonly<Record<string, string | undefined>>;

export function refusedIn(environment: Environment = process.env): Refused {
  const text = environment[refusedVariable];
  if (!text) return {};
  const value = JSON.parse(text) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(value).map(([name, reason]) => [name, String(reason)]));
}

/** The variable for a process that shall know of these; it hides one that this process has. */
export function refusedEnvironment(refused: Refused): { [refusedVariable]: string } {
  return { [refusedVariable]: Object.keys(refused).length === 0 ? '' : JSON.stringify(refused) };
}

export function refusedKernel(name: string): string {
  return `${kernelMark}${name}`;
}

/** The kernels among them, by name. */
export function kernelsAmong(refused: Refused): string[] {
  return Object.keys(refused).filter((name) => name.startsWith(kernelMark)).map((name) => name.slice(kernelMark.length));
}
