// The words to describe a flag with. Parsing, validation, defaults and help all derive from these descriptions.
import { RecuaError } from '../errors.js';

export interface Flag<T> {
  /** As typed, the long name first: `['--port', '-p']`. */
  readonly names: readonly [string, ...string[]];
  /** What the value is called in help; '' for a switch, which takes none. */
  readonly value: string;
  readonly help: string;
  readonly fallback: T;
  /** Turns the text of a value into the value; throws what was expected. */
  read(text: string): T;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;
export type Values<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

type Names = readonly [string, ...string[]];

/** Something is wrong with how the program was called: exit code 2. */
export function misuse(message: string): RecuaError {
  return new RecuaError('invalid_usage', message);
}

export function integer(names: Names, value: string, help: string, { fallback, min, max }: { fallback: number; min: number; max: number }): Flag<number> {
  return { names, value, help, fallback, read: (text) => readNumber(names[0], text, min, max, true) };
}

export function real(names: Names, value: string, help: string, { fallback, min, max }: { fallback: number; min: number; max: number }): Flag<number> {
  return { names, value, help, fallback, read: (text) => readNumber(names[0], text, min, max, false) };
}

export function text(names: Names, value: string, help: string, fallback = ''): Flag<string> {
  return { names, value, help, fallback, read: (given) => given };
}

/** `choices` with the default first. */
export function choice<const C extends string>(names: Names, help: string, choices: readonly [C, ...C[]], fallback: C = choices[0]): Flag<C> {
  return {
    names, value: choices.join('|'), help, fallback,
    read(given) {
      const found = choices.find((one) => one === given);
      if (found === undefined) throw misuse(`Expected one of ${choices.join(', ')} for ${names[0]}, got ${quote(given)}.`);
      return found;
    },
  };
}

/** A switch that is off until it is named. */
export function on(names: Names, help: string): Flag<boolean> {
  return { names, value: '', help, fallback: false, read: () => true };
}

/** A switch named `--no-…` for what is on until then; its value is whether the thing is on. */
export function off(names: Names, help: string): Flag<boolean> {
  return { names, value: '', help, fallback: true, read: () => false };
}

function readNumber(name: string, given: string, min: number, max: number, whole: boolean): number {
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(given.trim()) ? Number(given) : NaN;
  if (!(number >= min && number <= max) || (whole && !Number.isInteger(number))) {
    throw misuse(`Expected a ${whole ? 'whole number' : 'number'} from ${min} to ${max} for ${name}, got ${quote(given)}.`);
  }
  return number;
}

export function quote(given: string): string {
  return JSON.stringify(given.length > 60 ? `${given.slice(0, 60)}…` : given);
}
