// The words to describe a flag with. Parsing, validation, defaults and help all derive from these
// descriptions.
import { RecuaError } from '../../errors.js';

export interface Flag<T> {
  /** As typed, the long name first: `['--port', '-p']`. */
  readonly names: readonly [string, ...string[]];
  /** What the value is called in help; '' for a switch, which takes none. */
  readonly value: string;
  readonly help: string;
  readonly fallback: T;
  /** The values there are, where there are only these. */
  readonly choices?: readonly string[];
  /** Words that may stand for a number, which is what other values are. */
  readonly words?: readonly string[];
  /** A switch `--no-x`: its value is whether x is on. */
  readonly off?: boolean;
  /**
   * Says something about one call (`--prompt`, `--json`): neither the config file nor a variable
   * may set it.
   */
  readonly perCall?: boolean;
  /** Its value is shown to nobody. */
  readonly secret?: boolean;
  /** At the top of the config file an object may stand for the file that it names. */
  readonly inline?: boolean;
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

/** A whole number, or a word that means something else or a number: `{ auto: 'auto', all: -1 }`. */
export function integerOr<const W extends string>(
  names: Names, help: string, { fallback, min, max, words }: { fallback: W | number; min: number; max: number; words: Readonly<Record<string, W | number>> },
): Flag<W | number> {
  const known = Object.keys(words);
  return {
    names, value: ['n', ...known].join('|'), help, fallback, words: known,
    read(given) {
      const word = given.trim().toLowerCase();
      if (Object.hasOwn(words, word)) return words[word]!;
      if (/^[a-z]/.test(word)) throw misuse(`Expected a whole number from ${min} to ${max}, or one of ${known.join(', ')}, for ${names[0]}, got ${quote(given)}.`);
      return readNumber(names[0], given, min, max, true);
    },
  };
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
    names, value: choices.join('|'), help, fallback, choices,
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
  return { names, value: '', help, fallback: true, off: true, read: () => false };
}

/** The same flag for the command line only: a default that is kept would make no sense for it. */
export function perCall<T>(flag: Flag<T>): Flag<T> {
  return { ...flag, perCall: true };
}

/**
 * Its long names as keys of the config file; a switch `--no-x` is the key `x`, whose value says
 * whether x is on.
 */
export function settingNames(flag: Flag<unknown>): string[] {
  const names = flag.names.filter((name) => name.startsWith('--')).map((name) => name.slice(2));
  return flag.off ? names.map((name) => name.replace(/^no-/, '')) : names;
}

/** The environment variables that set it, the one to tell first. */
export function variableNames(flag: Flag<unknown>): string[] {
  return settingNames(flag).map((name) => `RECUA_${name.toUpperCase().replaceAll('-', '_')}`);
}

/** A value as it may be seen. */
export function shownValue(flag: Flag<unknown>, value: unknown): unknown {
  return flag.secret && value !== '' ? '(hidden)' : value;
}

/** A value as the word of a command line that gives it: the opposite of reading. */
export function flagWord(flag: Flag<unknown>, value: unknown): string {
  const [name] = flag.names;
  return flag.value === '' ? `${name}=${value !== flag.fallback}` : `${name}=${String(value)}`;
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
