// What a setting is. Each is one entry of a table of this folder: engine.ts (how a model is
// loaded), server.ts, answer.ts (how an answer is made, which a request may say). From the entry
// derive its type and default (config.ts), what travels to the engine process, its flag with help,
// variable and key in the config file (cli/flags), and the library's option. The comment above an
// entry is the option's description in docs/api.md.

/**
 * How the command line gives a setting. The variable and the key in the config file follow from the
 * long names.
 */
export interface FlagWords {
  /** As typed, the long name first. */
  readonly names: readonly [string, ...string[]];
  readonly help: string;
  /** What its value is called in help; numbers have a name without it. */
  readonly value?: string;
  /** The flag's key among a command's values, where it says the setting in another way. */
  readonly key?: string;
  /** The flag counts in units of so many. */
  readonly unit?: number;
  /** Where the flag takes less than the setting does, in the flag's unit. */
  readonly min?: number;
  readonly max?: number;
  /** Never shown: neither by `recua config` nor in a list of processes. */
  readonly secret?: true;
  /** The flag names a file that holds the text. */
  readonly file?: true;
  /**
   * At the top of the config file, an object may say what the file would: the config file itself is
   * the value then.
   */
  readonly inline?: true;
}

interface Entry {
  readonly flag?: FlagWords;
  /** The field of an HTTP request; the first one that is present counts. */
  readonly fields?: readonly [string, ...string[]];
  /** Of a server's settings: programs that mount the HTTP API give it, too. */
  readonly library?: true;
}

interface Numeric extends Entry {
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
}

/** `words` mean a number, or themselves. */
interface IntegerSetting extends Numeric {
  readonly kind: 'integer';
  readonly words?: Readonly<Record<string, string | number>>;
}

interface NumberSetting extends Numeric {
  readonly kind: 'number';
}

interface TextSetting extends Entry {
  readonly kind: 'text';
  readonly fallback: string;
}

interface ChoiceSetting extends Entry {
  readonly kind: 'choice';
  readonly choices: readonly [string, ...string[]];
  readonly fallback: string;
}

/** What is on until then has a flag `--no-…`. */
interface SwitchSetting extends Entry {
  readonly kind: 'switch';
  readonly fallback: boolean;
}

export type Setting = IntegerSetting | NumberSetting | TextSetting | ChoiceSetting | SwitchSetting;
export type Settings = Readonly<Record<string, Setting>>;

/** A setting's type. */
export type ValueOf<S> =
  S extends { kind: 'integer'; words: infer Words } ? number | Extract<Words[keyof Words], string>
  : S extends { kind: 'integer' | 'number' } ? number
  : S extends { kind: 'choice'; choices: readonly (infer Choice)[] } ? Choice
  : S extends { kind: 'switch' } ? boolean
  : string;

/** A value for each setting of a table. */
export type ValuesOf<T> = { -readonly [K in keyof T]: ValueOf<T[K]> };

/** The same as options of the library. */
export type OptionsOf<T> = { -readonly [K in keyof T]?: ValueOf<T[K]> | undefined };

/** The settings of a table that have this in their entry. */
export type KeysWith<T, Has> = { [K in keyof T]: T[K] extends Has ? K : never }[keyof T];

export function defaultsOf<T extends Settings>(table: T): Readonly<ValuesOf<T>> {
  const values = Object.entries(table).map(([key, { fallback }]) => [key, fallback]);
  return Object.freeze(Object.fromEntries(values)) as ValuesOf<T>;
}

/** The values of a table's settings among others. */
export function valuesOf<T extends Settings>(table: T, values: Readonly<ValuesOf<T>>): ValuesOf<T> {
  const own = Object.keys(table).map((key) => [key, values[key as keyof T]]);
  return Object.fromEntries(own) as ValuesOf<T>;
}

/** Counts that llama.cpp keeps in 32 bits. */
export const secondMs = 1_000;
export const maxCount = 2 ** 31 - 1;
