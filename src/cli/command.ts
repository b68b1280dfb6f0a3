// The type of a command. Each command has its own file; table.ts lists them all.
import type { Arguments } from './flags/arguments.js';
import type { Flags } from './flags/flags.js';

export interface Command<F extends Flags> {
  readonly name: string;
  /** Other names: `['--version', '-v']`. */
  readonly aliases: readonly string[];
  /** The operands, as help shows them. */
  readonly operands: string;
  /** One line. */
  readonly summary: string;
  /** More text for the command's own help. */
  readonly details: string;
  /** Example command lines and what each does, for help and docs/cli.md. */
  readonly examples?: readonly (readonly [line: string, does: string])[];
  /**
   * Commands such as `serve start`; each gets the words after its name. A command with subcommands
   * has no flags and no work of its own.
   */
  readonly subcommands?: readonly AnyCommand[];
  /**
   * For a command with many flags: the keys of the most used ones, in order. Help shows these first
   * and the others in groups (flags/groups.ts).
   */
  readonly often?: readonly (keyof F & string)[];
  readonly flags: F;
  /** Runs the command and returns the exit code. Data goes to stdout, messages to stderr. */
  run(given: Arguments<F>): Promise<number>;
}

/** A command of any flags. */
export type AnyCommand = Omit<Command<Flags>, 'run' | 'often'> & { readonly often?: readonly string[] } & { run(given: never): Promise<number> };

export function command<F extends Flags>(definition: Command<F>): Command<F> {
  return definition;
}
