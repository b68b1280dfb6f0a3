// Parses a command's arguments: `-ngl 5 model.gguf --temp=0` → values and operands. A flag that is
// not on the command line takes its value from the settings (environment and config file), else its
// default. Called by call.
import minimist from 'minimist';
import { misuse, quote } from './flags.js';
import type { Flags, Values } from './flags.js';
import { nearest } from '../../models/names/nearest.js';
import { samplerSettings } from '../../settings/answer.js';
import type { Setting } from '../../settings/kinds.js';
import type { SettingOrigin, FlagSettings } from './settings.js';

export interface Arguments<F extends Flags> {
  values: Values<F>;
  /** The arguments that are not flags, in order. */
  operands: string[];
  /** Keys of the flags that were set, by any origin: those that do not have their default. */
  given: ReadonlySet<keyof F>;
  /** Where each value comes from. */
  origins: Readonly<Record<keyof F, SettingOrigin>>;
}

/** A switch can be turned off (`--mlock=false`), for example if the config file turns it on. */
const onWords = ['true', '1'];
const offWords = ['false', '0'];
/** Letters of a flag's beginning, with its dashes, that may mean several flags. */
const leastPrefix = 3;
const mostMeant = 3;

/**
 * Reads `argv`, the words after the command. Throws `invalid_usage`, or `invalid_config` for an
 * unreadable setting.
 */
export function parseArguments<F extends Flags>(command: string, flags: F, argv: readonly string[], settings?: FlagSettings): Arguments<F> {
  const parsed = minimist(spellOut(command, flags, argv), {
    // Every value stays a string until its flag reads it. By default, minimist would turn even
    // operands into numbers.
    string: ['_', ...Object.keys(flags)],
  });
  const values: Record<string, unknown> = {};
  const origins: Record<string, SettingOrigin> = {};
  const given = new Set<keyof F>();
  for (const [key, flag] of Object.entries(flags)) {
    const found: unknown = parsed[key];
    if (found === undefined) {
      const setting = settings?.find(command, flag);
      values[key] = setting === undefined ? flag.fallback : setting.value;
      origins[key] = setting?.origin ?? { from: 'default' };
      if (setting) given.add(key);
      continue;
    }
    // If a flag is given twice, the last one counts, as in other tools.
    const word = String(Array.isArray(found) ? found.at(-1) : found);
    values[key] = flag.value === '' && offWords.includes(word) ? flag.fallback : flag.read(word);
    origins[key] = { from: 'flag' };
    given.add(key);
  }
  return { values: values as Values<F>, operands: parsed._.map(String), given, origins: origins as Record<keyof F, SettingOrigin> };
}

/**
 * Rewrites each flag as one word `--key=value`, which minimist cannot misread. It would take
 * `-ngl 5` for three flags, `-ngl -1` and `--system ''` for flags without a value, and `--no-json`
 * and `--constructor` for known flags. If told that a flag is a switch, it reports false for an
 * absent one, which could then not come from the settings.
 */
function spellOut(command: string, flags: Flags, argv: readonly string[]): string[] {
  const byName = new Map(Object.entries(flags).flatMap(([key, flag]) => flag.names.map((name) => [name, { key, flag }])));
  const words: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!;
    if (word === '--') return [...words, ...argv.slice(i)];
    // `--port=80`; a number may also follow the letter directly: `-p80`.
    const [, name, attached] = /^(-[a-z])(\d[^=]*)$/i.exec(word) ?? /^(-.[^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) {
      words.push(word);
      continue;
    }
    const found = byName.get(name);
    if (!found) throw unknownFlag(command, word.replace(/=.*/s, ''), [...byName.keys()]);
    const isSwitch = found.flag.value === '';
    if (isSwitch && attached !== undefined && ![...onWords, ...offWords].includes(attached)) {
      throw misuse(`The flag ${name} takes no value, or true or false, got ${quote(attached)}.`);
    }
    const value = attached ?? (isSwitch ? onWords[0] : argv[++i]);
    if (value === undefined || (attached === undefined && byName.has(value))) {
      throw misuse(`The flag ${name} needs a value: ${name} <${found.flag.value}>.${name === '-h' ? ` For help: recua ${command} --help` : ''}`);
    }
    words.push(`--${found.key}=${value}`);
  }
  return words;
}

/** Commands whose model is an operand, unlike in llama.cpp's programs and in recua api. */
const takeModels: ReadonlySet<string> = new Set(['run', 'chat', 'show', 'load', 'unload']);

/** Commands that start a server, and flags of other commands whose values requests choose. */
const serves: ReadonlySet<string> = new Set(['api', 'serve start', 'serve restart', 'serve install']);
const requestFlags: ReadonlySet<string> = new Set(Object.values(samplerSettings).flatMap(({ flag }: Setting) => flag?.names ?? []));

function unknownFlag(command: string, name: string, known: readonly string[]): Error {
  if (takeModels.has(command) && (name === '-m' || name === '--model')) return misuse(`recua ${command} has no flag ${name}: give the model without one, as in recua ${command} <model>`);
  const long = name.length === 2 ? known.filter((one) => one.startsWith(`-${name}`)) : [];
  if (long.length === 1) return misuse(`recua ${command} has no flag ${name}. Did you mean ${long[0]!}? All of them: recua ${command} --help`);
  if (serves.has(command) && requestFlags.has(name)) return misuse(`recua ${command} has no flag ${name}: requests set it, and for each model a models file (--models) or "models" in the config file can.`);
  // A name that breaks off, such as --ctx, is closer than any other.
  const whole = name.length > leastPrefix ? known.filter((one) => one.startsWith(name)) : [];
  const near = whole.length > 0 && whole.length <= mostMeant ? whole.join(' or ') : nearest(name, known);
  const text = /^--?[a-z][\w-]*$/i.test(name) ? '' : ` A text that begins with a dash goes last, after --: recua ${command} … -- <text>`;
  return misuse(`recua ${command} has no flag ${text === '' ? name : quote(name)}.${near ? ` Did you mean ${near}?` : ''} All of them: recua ${command} --help${text === '' ? '' : `.${text}`}`);
}
