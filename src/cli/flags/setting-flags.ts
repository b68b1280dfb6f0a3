// Flags from the tables of settings/, and what their values come to there.
import { readFile } from 'node:fs/promises';
import { RecuaError } from '../../errors.js';
import type { FlagWords, Setting, Settings, ValueOf, ValuesOf } from '../../settings/kinds.js';
import { choice, integer, integerOr, off, on, real, text } from './flags.js';
import type { Flag } from './flags.js';

type WithFlag = { readonly flag: FlagWords };

/** The key of a setting's flag among a command's; of one without a flag there is none. */
type FlagKey<S, K> = S extends WithFlag ? (S extends { flag: { key: infer Own extends string } } ? Own : K) : never;

export type SettingFlags<T> = { readonly [K in keyof T as FlagKey<T[K], K>]: Flag<ValueOf<T[K]>> };

/** The values of these flags, as a command has them. */
export type FlagValues<T> = { readonly [K in keyof T as FlagKey<T[K], K>]: ValueOf<T[K]> };

/** Where a command differs from the table. */
type Own<T> = Partial<FlagWords> & { fallback?: T };

/** The flag of a setting, with its default in the flag's unit. */
export function settingFlag<S extends Setting & WithFlag>(setting: S, own: Own<ValueOf<S>> = {}): Flag<ValueOf<S>> {
  return describe(setting, { ...setting.flag, fallback: setting.fallback, ...own }) as Flag<ValueOf<S>>;
}

function describe(setting: Setting, { names, help, value, unit = 1, min, max, ...own }: FlagWords & { fallback: unknown }): Flag<unknown> {
  switch (setting.kind) {
    case 'integer':
    case 'number': {
      const range = { fallback: own.fallback as number / unit, min: min ?? setting.min / unit, max: max ?? setting.max / unit };
      if (setting.kind === 'number') return real(names, value ?? 'x', help, range);
      return setting.words ? integerOr(names, help, { ...range, words: setting.words }) : integer(names, value ?? 'n', help, range);
    }
    case 'text': return text(names, value ?? 'text', help, own.fallback as string);
    case 'choice': return choice(names, help, setting.choices, own.fallback as string);
    case 'switch': return own.fallback === true ? off(names, help) : on(names, help);
  }
}

/** The flags of a table, in its order. */
export function settingFlags<T extends Settings>(table: T): SettingFlags<T> {
  const flags = flagged(table).map(({ key, setting }) => [setting.flag.key ?? key, settingFlag(setting)]);
  return Object.fromEntries(flags) as SettingFlags<T>;
}

/** What the flags' values are to the settings: in their units, and with the texts of the files that are named. */
export async function settingValues<T extends Settings>(table: T, values: FlagValues<T>): Promise<ValuesOf<T>> {
  const given = values as Readonly<Record<string, unknown>>;
  return Object.fromEntries(await Promise.all(flagged(table).map(async ({ key, setting: { flag } }) => {
    const value = given[flag.key ?? key];
    if (flag.file) return [key, value === '' ? '' : await readTextFile(value as string)];
    return [key, flag.unit === undefined ? value : value as number * flag.unit];
  }))) as ValuesOf<T>;
}

function flagged(table: Settings): { key: string; setting: Setting & WithFlag }[] {
  return Object.entries(table).flatMap(([key, setting]) => (hasFlag(setting) ? [{ key, setting }] : []));
}

function hasFlag(setting: Setting): setting is Setting & WithFlag {
  return setting.flag !== undefined;
}

/** A text file named by a flag. */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new RecuaError('file_unreadable', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
