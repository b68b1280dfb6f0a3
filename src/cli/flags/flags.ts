// Flag descriptions, from which parsing, validation, defaults and help all derive.
import { RecuaError } from '../../errors.js';

export interface Flag<T> {
  /** The names as typed, the long name first: `['--port', '-p']`. */
  readonly names: readonly [string, ...string[]];
  /** The value's name in help; '' for a switch, which takes no value. */
  readonly value: string;
  readonly help: string;
  readonly fallback: T;
  /** The allowed values, if the flag takes a choice. */
  readonly choices?: readonly string[];
  /** Words that the flag accepts instead of a number. */
  readonly words?: readonly string[];
  /** A switch `--no-x`: its value says whether x is on. */
  readonly off?: boolean;
  /** Concerns a single call (`--prompt`, `--json`): no config file and no variable may set it. */
  readonly perCall?: boolean;
  /** Its value is never shown. */
  readonly secret?: boolean;
  /** The top level of the config file may hold an object in place of the file that it names. */
  readonly inline?: boolean;
  /** Parses the text of a value. Throws an error that says what was expected. */
  read(text: string): T;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;
export type Values<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

type Names = readonly [string, ...string[]];

/** The program was called wrongly: exit code 2. */
export function misuse(message: string): RecuaError {
  return new RecuaError('invalid_usage', message);
}

/** Runs a check of what was typed: what it refuses is a usage error. */
export function asTyped(check: () => unknown): void {
  try {
    check();
  } catch (thrown) {
    throw misuse((thrown as Error).message);
  }
}

export function integer(
  names: Names,
  value: string,
  help: string,
  { fallback, min, max }: { fallback: number; min: number; max: number },
): Flag<number> {
  return { names, value, help, fallback, read: (text) => readNumber(names[0], text, min, max, true) };
}

/** A whole number, or a word that stands for a value: `{ auto: 'auto', all: -1 }`. */
export function integerOr<const W extends string>(
  names: Names,
  help: string,
  { fallback, min, max, words }: { fallback: W | number; min: number; max: number; words: Readonly<Record<string, W | number>> },
): Flag<W | number> {
  const known = Object.keys(words);
  return {
    names,
    value: ['n', ...known].join('|'),
    help,
    fallback,
    words: known,
    read(given) {
      const word = given.trim().toLowerCase();
      if (Object.hasOwn(words, word)) return words[word]!;
      if (/^[a-z]/.test(word))
        throw misuse(`Expected a whole number from ${min} to ${max}, or one of ${known.join(', ')}, for ${names[0]}, got ${quote(given)}.`);
      return readNumber(names[0], given, min, max, true);
    },
  };
}

export function real(
  names: Names,
  value: string,
  help: string,
  { fallback, min, max }: { fallback: number; min: number; max: number },
): Flag<number> {
  return { names, value, help, fallback, read: (text) => readNumber(names[0], text, min, max, false) };
}

export function text(names: Names, value: string, help: string, fallback = ''): Flag<string> {
  return { names, value, help, fallback, read: (given) => given };
}

/** `choices` begins with the default. */
export function choice<const C extends string>(
  names: Names,
  help: string,
  choices: readonly [C, ...C[]],
  fallback: C = choices[0],
): Flag<C> {
  return {
    names,
    value: choices.join('|'),
    help,
    fallback,
    choices,
    read(given) {
      const found = choices.find((one) => one === given);
      if (found === undefined) throw misuse(`Expected one of ${choices.join(', ')} for ${names.join(', ')}, got ${quote(given)}.`);
      return found;
    },
  };
}

/** A switch that is off by default. */
export function on(names: Names, help: string): Flag<boolean> {
  return { names, value: '', help, fallback: false, read: () => true };
}

/** A switch `--no-…` for something that is on by default; its value says whether it is on. */
export function off(names: Names, help: string): Flag<boolean> {
  return { names, value: '', help, fallback: true, off: true, read: () => false };
}

/** The same flag for the command line only: a permanent setting would make no sense. */
export function perCall<T>(flag: Flag<T>): Flag<T> {
  return { ...flag, perCall: true };
}

/**
 * The long names as keys of the config file. A switch `--no-x` has the key `x`, whose value says
 * whether x is on.
 */
export function settingNames(flag: Flag<unknown>): string[] {
  const names = flag.names.filter((name) => name.startsWith('--')).map((name) => name.slice(2));
  return flag.off ? names.map((name) => name.replace(/^no-/, '')) : names;
}

/** The environment variables that set the flag; the first is the one shown to users. */
export function variableNames(flag: Flag<unknown>): string[] {
  return settingNames(flag).map((name) => `RECUA_${name.toUpperCase().replaceAll('-', '_')}`);
}

/** The variable as help shows it; for a switch `--no-x`, with the value that does the same. */
export function shownVariable(flag: Flag<unknown>): string {
  return `${variableNames(flag)[0]!}${flag.off ? '=0' : ''}`;
}

/** Whether the help describes the default, because `fallback` does not. */
export function describesDefault({ help }: Flag<unknown>): boolean {
  return /\bby default\b/.test(help);
}

/** A value as it may be shown: secrets are hidden. */
export function shownValue(flag: Flag<unknown>, value: unknown): unknown {
  return flag.secret && value !== '' ? '(hidden)' : value;
}

/** A value as a word on a command line: the opposite of `read`. */
export function flagWord(flag: Flag<unknown>, value: unknown): string {
  const [name] = flag.names;
  if (flag.value !== '') return `${name}=${String(value)}`;
  return value === flag.fallback ? `${name}=false` : name;
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
