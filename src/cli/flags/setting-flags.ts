// Builds flags from the tables of settings/, and converts flag values to settings.
import { RecuaError } from '../../errors.js';
import { readFilledFile } from '../../system/given-file.js';
import type { FlagWords, Setting, Settings, ValueOf, ValuesOf } from '../../settings/kinds.js';
import { choice, integer, integerOr, misuse, off, on, real, text } from './flags.js';
import type { Flag } from './flags.js';

type WithFlag = { readonly flag: FlagWords };

/** The key of a setting's flag among a command's flags; never, if the setting has no flag. */
type FlagKey<S, K> =
  S extends { flag: { key: infer Own extends string } } ? Own
    : S extends WithFlag ? K
    : never;

export type SettingFlags<T> = { readonly [K in keyof T as FlagKey<T[K], K>]: Flag<ValueOf<T[K]>> };

/** The values of these flags, as a command gets them. */
export type FlagValues<T> = { readonly [K in keyof T as FlagKey<T[K], K>]: ValueOf<T[K]> };

/** Overrides of a command. */
type Own<T> = Partial<FlagWords> & { fallback?: T };

/** The flag of a setting, with its default in the flag's unit. */
export function settingFlag<S extends Setting & WithFlag>(
  setting: S, own: Own<ValueOf<S>> = {},
): Flag<ValueOf<S>> {
  const words = { ...setting.flag, fallback: setting.fallback, ...own };
  return describe(setting, words) as Flag<ValueOf<S>>;
}

function describe(setting: Setting, words: FlagWords & { fallback: unknown }): Flag<unknown> {
  const { names, help, value, unit = 1, fallback } = words;
  switch (setting.kind) {
    case 'integer':
    case 'number': {
      const range = {
        fallback: fallback as number / unit,
        min: words.min ?? setting.min / unit,
        max: words.max ?? setting.max / unit,
      };
      if (setting.kind === 'number') return real(names, value ?? 'x', help, range);
      if (setting.words) return integerOr(names, help, { ...range, words: setting.words });
      return integer(names, value ?? 'n', help, range);
    }
    case 'text': {
      const flag = text(names, value ?? 'text', help, fallback as string);
      return {
        ...flag,
        ...(words.inline ? { inline: true } : {}),
        ...(words.secret ? { secret: true, read: (given) => full(flag, given) } : {}),
      };
    }
    case 'choice': return choice(names, help, setting.choices, fallback as string);
    case 'switch': return fallback === true ? off(names, help) : on(names, help);
  }
}

/** The flags of a table, in its order. */
export function settingFlags<T extends Settings>(table: T): SettingFlags<T> {
  const flags = flagged(table)
    .map(([key, setting]) => [setting.flag.key ?? key, settingFlag(setting)]);
  return Object.fromEntries(flags) as SettingFlags<T>;
}

/** The variable behind `--api-key "$KEY"` may be unset: nobody means a server without keys. */
function full({ names: [name], value }: Flag<string>, given: string): string {
  if (given.trim() === '') throw misuse(`Expected a ${value} behind ${name}, got an empty text.`);
  if (/^(true|false)$/i.test(given.trim())) throw misuse(`Expected a ${value} behind ${name}, got ${given.trim()}. A server without keys is one that was started without ${name}.`);
  return given;
}

/** Converts flag values to settings: in the settings' units, with file names replaced by texts. */
export async function settingValues<T extends Settings>(
  table: T, values: FlagValues<T>,
): Promise<ValuesOf<T>> {
  const given = values as Readonly<Record<string, unknown>>;
  const own = flagged(table).map(async ([key, { flag }]) => {
    const value = given[flag.key ?? key];
    if (flag.file) {
      return [key, value === '' ? '' : await readFilledFile(value as string).catch((thrown: unknown) => {
        const { code, message } = RecuaError.from(thrown);
        throw new RecuaError(code, `${flag.names[0]}: ${message}`, { cause: thrown });
      })];
    }
    return [key, flag.unit === undefined ? value : value as number * flag.unit];
  });
  return Object.fromEntries(await Promise.all(own)) as ValuesOf<T>;
}

function flagged(table: Settings): [key: string, setting: Setting & WithFlag][] {
  type Flagged = [string, Setting & WithFlag];
  return Object.entries(table).filter((entry): entry is Flagged => entry[1].flag !== undefined);
}
