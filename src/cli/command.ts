// What a command is: one file each, all of them in table.ts.
import type { Arguments } from './flags/arguments.js';
import type { Flags } from './flags/flags.js';

export interface Command<F extends Flags> {
  readonly name: string;
  /** Other ways to call it: `['--version', '-v']`. */
  readonly aliases: readonly string[];
  /** Its operands as help writes them. */
  readonly operands: string;
  /** One line. */
  readonly summary: string;
  /** More lines for its own help. */
  readonly details: string;
  /** Command lines to learn from, with what each does, for its help and docs/cli.md. */
  readonly examples?: readonly (readonly [line: string, does: string])[];
  /**
   * `serve start`: each is called with the words after its name. A command with subcommands has no
   * flags or work of its own.
   */
  readonly subcommands?: readonly AnyCommand[];
  /**
   * Keys of the flags that are used most, in order, of a command with many: its help shows them
   * first, the others in groups (flags/groups.ts).
   */
  readonly often?: readonly (keyof F & string)[];
  readonly flags: F;
  /** Does it and returns the exit code. stdout is data, stderr is talk. */
  run(given: Arguments<F>): Promise<number>;
}

/** A command whose flags are its own business. */
export type AnyCommand = Omit<Command<Flags>, 'run' | 'often'> & { readonly often?: readonly string[] } & { run(given: never): Promise<number> };

export function command<F extends Flags>(definition: Command<F>): Command<F> {
  return definition;
}
