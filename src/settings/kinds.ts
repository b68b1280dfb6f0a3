// What a setting is. Each setting is one entry of a table in this folder: engine.ts (how a model is
// loaded), server.ts, or answer.ts (how an answer is made, which a request may set). Its type and
// default (config.ts), its place in the engine's options, its flag with help, variable and config
// file key (cli/flags), and the library's option all derive from that entry. The comment above an
// entry becomes the option's description in docs/api.md.

/**
 * A setting's flag. The environment variable and the key in the config file derive from the long
 * names.
 */
export interface FlagWords {
  /** As typed, the long name first. */
  readonly names: readonly [string, ...string[]];
  readonly help: string;
  /** The value's name in help. Numbers have a default name. */
  readonly value?: string;
  /** The flag's key among a command's values, if the flag expresses the setting in another way. */
  readonly key?: string;
  /** The flag's unit, in the setting's unit. */
  readonly unit?: number;
  /** The flag's range, in the flag's unit, if it is narrower than the setting's. */
  readonly min?: number;
  readonly max?: number;
  /** Never shown, neither by `recua config` nor in a process list. */
  readonly secret?: true;
  /** The flag names a file that holds the text. */
  readonly file?: true;
  /**
   * The top level of the config file may hold an object in place of the file. The value is then the
   * path of the config file itself.
   */
  readonly inline?: true;
}

interface Entry {
  readonly flag?: FlagWords;
  /** The field of an HTTP request. If several are present, the first in this list counts. */
  readonly fields?: readonly [string, ...string[]];
  /** A server setting that programs which mount the HTTP API can set too. */
  readonly library?: true;
}

interface Numeric extends Entry {
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
}

/** `words` stand for a number or for themselves. */
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

/** A switch that is on by default has a flag `--no-…`. */
interface SwitchSetting extends Entry {
  readonly kind: 'switch';
  readonly fallback: boolean;
}

export type Setting = IntegerSetting | NumberSetting | TextSetting | ChoiceSetting | SwitchSetting;
export type Settings = Readonly<Record<string, Setting>>;

/** The type of a setting's value. */
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

/** The settings of a table whose entry has these properties. */
export type KeysWith<T, Has> = { [K in keyof T]: T[K] extends Has ? K : never }[keyof T];

export function defaultsOf<T extends Settings>(table: T): Readonly<ValuesOf<T>> {
  const values = Object.entries(table).map(([key, { fallback }]) => [key, fallback]);
  return Object.freeze(Object.fromEntries(values)) as ValuesOf<T>;
}

/** Picks the values of a table's settings from a larger object. */
export function valuesOf<T extends Settings>(table: T, values: Readonly<ValuesOf<T>>): ValuesOf<T> {
  const own = Object.keys(table).map((key) => [key, values[key as keyof T]]);
  return Object.fromEntries(own) as ValuesOf<T>;
}

export const secondMs = 1_000;
/** llama.cpp keeps counts as 32-bit signed integers. */
export const maxCount = 2 ** 31 - 1;
