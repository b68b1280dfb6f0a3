// A command's arguments by its flags: `-ngl 5 model.gguf --temp=0` → values and operands. What the command line does not say
// comes from the settings (environment and config file), else it is the default. Called by main.
import minimist from 'minimist';
import { misuse, quote } from './flags.js';
import type { Flag, Flags, Values } from './flags.js';
import { nearest } from '../../models/names/nearest.js';
import type { SettingOrigin, FlagSettings } from './settings.js';

export interface Arguments<F extends Flags> {
  values: Values<F>;
  /** What is no flag, in order. */
  operands: string[];
  /** Keys of the flags that were given, by whatever origin: those whose value is not merely the default. */
  given: ReadonlySet<keyof F>;
  /** Where each value comes from. */
  origins: Readonly<Record<keyof F, SettingOrigin>>;
}

/** A switch may be taken back (`--mlock=false`), which a setting elsewhere can make necessary. */
const switchWords: ReadonlyMap<string, boolean> = new Map([['true', true], ['1', true], ['false', false], ['0', false]]);

/** Reads `argv`, the words after the command. Throws `invalid_usage`, or `invalid_config` for a setting that cannot be read. */
export function parseArguments<F extends Flags>(command: string, flags: F, argv: readonly string[], settings?: FlagSettings): Arguments<F> {
  const byName = new Map<string, [string, Flag<unknown>]>();
  for (const entry of Object.entries(flags)) for (const name of entry[1].names) byName.set(name, entry);
  const normal = normalise(command, byName, argv);
  const parsed = minimist(normal, {
    // Every value stays text until its flag has read it; minimist alone would make numbers of operands too.
    string: ['_', ...Object.keys(flags)],
    unknown: (word) => !word.startsWith('-') || word === '-',
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
    // Given twice: the last one counts, as in other tools.
    const word = String(Array.isArray(found) ? found.at(-1) : found);
    values[key] = flag.value === '' && word === 'off' ? flag.fallback : flag.read(word);
    origins[key] = { from: 'flag' };
    given.add(key);
  }
  return { values: values as Values<F>, operands: parsed._.map(String), given, origins: origins as Record<keyof F, SettingOrigin> };
}

/**
 * Rewrites every known flag as `--key=value`. minimist reads `-ngl 5` as three flags and `-ngl -1` as a flag without a value,
 * so by the time it sees them nothing is left to misread.
 */
function normalise(command: string, byName: ReadonlyMap<string, [string, Flag<unknown>]>, argv: readonly string[]): string[] {
  const normal: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!;
    if (word === '--') return [...normal, ...argv.slice(i)];
    if (!word.startsWith('-') || word === '-') {
      normal.push(word);
      continue;
    }
    const { name, attached } = split(word, byName);
    const entry = byName.get(name);
    if (!entry) throw unknownFlag(command, name, [...byName.keys()]);
    const [key, flag] = entry;
    if (flag.value === '') {
      const named = attached === undefined ? true : switchWords.get(attached);
      if (named === undefined) throw misuse(`The flag ${name} takes no value, or one of true and false, got ${quote(attached!)}.`);
      normal.push(`--${key}=${named ? 'on' : 'off'}`);
      continue;
    }
    const next = argv[i + 1];
    if (attached === undefined && (next === undefined || byName.has(next))) {
      throw misuse(`The flag ${name} needs a value: ${name} <${flag.value}>.${name === '-h' ? ` For help: recua ${command} --help` : ''}`);
    }
    normal.push(`--${key}=${attached ?? next!}`);
    if (attached === undefined) i++;
  }
  return normal;
}

/** `--port=80` and `-p80` carry their value in the same word. */
function split(word: string, byName: ReadonlyMap<string, [string, Flag<unknown>]>): { name: string; attached: string | undefined } {
  if (byName.has(word)) return { name: word, attached: undefined };
  const equals = word.indexOf('=');
  if (equals > 0) return { name: word.slice(0, equals), attached: word.slice(equals + 1) };
  const short = word.slice(0, 2);
  if (!word.startsWith('--') && /^\d/.test(word.slice(2)) && byName.has(short)) return { name: short, attached: word.slice(2) };
  return { name: word, attached: undefined };
}

function unknownFlag(command: string, name: string, known: readonly string[]): Error {
  const near = nearest(name, known);
  return misuse(`recua ${command} has no flag ${name}.${near ? ` Did you mean ${near}?` : ''} All of them: recua ${command} --help`);
}
