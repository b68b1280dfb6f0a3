// Flag values set outside the command line: by `RECUA_*` variables, else by the command's section
// of the config file, else by the file's general part. call reads them for each command with flags;
// `recua config` shows them.
import { readGivenFile } from '../../system/given-file.js';
import { homeFolder } from '../../system/home-folder.js';
import { join } from 'node:path';
import { RecuaError } from '../../errors.js';
import type { AnyCommand } from '../command.js';
import { allPlaces } from '../command-tree.js';
import { quote, settingNames, variableNames } from './flags.js';
import type { Flag } from './flags.js';
import { pathIn, standardFolder } from '../../models/places.js';
import { nearest } from '../../models/names/nearest.js';
import { otherVariables } from './environment.js';
import { parseJson } from './json-file.js';

export type SettingOrigin =
  | { from: 'default' }
  | { from: 'flag' }
  | { from: 'variable'; name: string }
  /** `section` is the command's, or '' for the general part. */
  | { from: 'file'; path: string; section: string; key: string };

export interface Setting {
  value: unknown;
  origin: SettingOrigin;
}

type Environment = Readonly<Record<string, string | undefined>>;
type Section = ReadonlyMap<string, unknown>;

const prefix = 'RECUA_';
/** Kubernetes and Docker set these beside a service named recua, and RECUA_PORT to an address. */
const linked = /^RECUA_(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$/;
const isAddress = (name: string, text: string): boolean => name === 'RECUA_PORT' && /^(?:tcp|udp|sctp):\/\/\S+:\d+$/.test(text);
const booleans: ReadonlyMap<string, boolean> = new Map([['true', true], ['1', true], ['on', true], ['false', false], ['0', false], ['off', false]]);

/** The path of the config file, whether or not it exists. */
export function configPath(environment: Environment = process.env): string {
  return pathIn('RECUA_CONFIG', environment)
    ?? join(standardFolder('XDG_CONFIG_HOME', environment) ?? join(homeFolder(environment), '.config'), 'recua', 'config.json');
}

export class FlagSettings {
  readonly path: string;
  readonly #environment: Environment;
  readonly #general: Section;
  readonly #sections: ReadonlyMap<string, Section>;
  /** Names of settings that at least one command takes. Other variables may be refused. */
  readonly #settable: ReadonlySet<string>;

  private constructor(
    path: string,
    environment: Environment,
    commands: readonly AnyCommand[],
    general: Section,
    sections: ReadonlyMap<string, Section>,
  ) {
    this.path = path;
    this.#environment = environment;
    this.#general = general;
    this.#sections = sections;
    this.#settable = new Set(
      allFlags(commands)
        .filter((flag) => !flag.perCall)
        .flatMap(settingNames),
    );
  }

  /**
   * Reads the config file and checks all its keys. Throws `invalid_config`. A missing file counts
   * as empty, unless RECUA_CONFIG names it. `whole` loads every command; it is called only if
   * something is set, so that most calls do not import all commands.
   */
  static async read(whole: () => Promise<readonly AnyCommand[]>, environment: Environment = process.env): Promise<FlagSettings> {
    const path = configPath(environment);
    const content = await contents(path, Boolean(environment['RECUA_CONFIG']));
    const commands = Object.keys(content).length > 0 || setsFlags(environment) ? await whole() : [];
    const general = new Map<string, unknown>();
    const sections = new Map<string, Section>();
    const places = new Map(
      allPlaces(commands)
        .filter(({ command }) => Object.keys(command.flags).length > 0)
        .map(({ path: name, command }) => [name, command]),
    );
    for (const [key, value] of Object.entries(content)) {
      if (!isObject(value)) {
        if (places.has(key) && !allFlags(commands).some((flag) => settingNames(flag).includes(key))) {
          throw badConfig(
            `${place(path, '', key)}: expected an object with the settings of recua ${key}, as {"${key}": {…}}, got ${shown(value)}.`,
          );
        }
        checkKey(path, '', key, allFlags(commands), [...places.keys()]);
        general.set(key, value);
        continue;
      }
      const command = places.get(key);
      if (!command) {
        if (allFlags(commands).some((flag) => flag.inline && settingNames(flag).includes(key))) {
          general.set(key, path);
          continue;
        }
        const flag = allFlags(commands).find((one) => !one.perCall && settingNames(one).includes(key));
        if (flag) readJson(flag, value, place(path, '', key));
      }
      const inner = [...places.keys()].find((place) => place.startsWith(`${key} `));
      if (!command)
        throw badConfig(
          `${path}: the section ${quote(key)} is not named after a command with flags.${inner === undefined ? suggestion(key, [...places.keys()]) : ` Did you mean ${quote(inner)}?`}`,
        );
      for (const inner of Object.keys(value)) checkKey(path, key, inner, Object.values(command.flags), []);
      sections.set(key, new Map(Object.entries(value)));
    }
    return new FlagSettings(path, environment, commands, general, sections);
  }

  /**
   * The setting for this flag of this command (`serve start`); undefined means its default. Throws
   * `invalid_config`.
   */
  find(command: string, flag: Flag<unknown>): Setting | undefined {
    if (flag.perCall) {
      this.#refusePerCall(flag);
      return undefined;
    }
    return (
      this.#fromVariable(flag) ??
      this.#fromSection(command, this.#sections.get(command), flag) ??
      this.#fromSection('', this.#general, flag)
    );
  }

  /** What is wrong with the values in the file and the variables, each once. */
  problems(commands: readonly AnyCommand[]): string[] {
    const found = new Set<string>();
    for (const { command, path } of allPlaces(commands)) {
      for (const flag of Object.values(command.flags)) {
        try {
          this.find(path, flag);
        } catch (thrown) {
          found.add(RecuaError.from(thrown).message);
        }
      }
    }
    return [...found];
  }

  /** Variables with our prefix that set nothing, each with the reason. */
  strayVariables(commands: readonly AnyCommand[]): string[] {
    const known = this.#knownVariables();
    const perCall = new Map(
      allFlags(commands)
        .filter((flag) => flag.perCall)
        .flatMap((flag) => variableNames(flag).map((name) => [name, flag.names[0]])),
    );
    const strays = this.#others(known).map((name) => {
      const flag = perCall.get(name);
      return flag === undefined
        ? `${name} sets nothing.${suggestion(name, [...known])}`
        : `${name} sets nothing: ${flag} is for one call.`;
    });
    return [...this.#addresses(), ...strays];
  }

  /**
   * Those that resemble a known variable, each with its name, and RECUA_PORT with the address of a
   * service. Others with our prefix belong to scripts and tests.
   */
  mistypedVariables(): string[] {
    const known = this.#knownVariables();
    const bare = (name: string) => name.slice(prefix.length);
    const names = [...known].filter((name) => name.startsWith(prefix)).map(bare);
    const mistyped = this.#others(known).filter((name) => !name.startsWith(`${prefix}TEST_`)).flatMap((name) => {
      const near = nearest(bare(name), names);
      return near === undefined ? [] : [`${name} sets nothing. Did you mean ${prefix}${near}?`];
    });
    return [...this.#addresses(), ...mistyped];
  }

  /** Names with our prefix that are not known, except those of a service. */
  #others(known: ReadonlySet<string>): string[] {
    return Object.keys(this.#environment).filter((name) => name.startsWith(prefix) && !known.has(name) && !linked.test(name)).sort();
  }

  #addresses(): string[] {
    const names = Object.keys(this.#environment).filter((name) => isAddress(name, this.#environment[name]!));
    return names.map((name) => `${name} sets nothing: Kubernetes or Docker gave it the address of a service named recua.`);
  }

  #knownVariables(): Set<string> {
    return new Set([...[...this.#settable].map(variableOf), ...otherVariables.map(([name]) => name)]);
  }

  #refusePerCall(flag: Flag<unknown>): void {
    for (const [at, name] of variableNames(flag).entries()) {
      if (!this.#environment[name] || this.#settable.has(settingNames(flag)[at]!)) continue;
      throw badConfig(`The variable ${name} cannot be used: ${flag.names[0]} is for one call. Give the flag, and unset the variable.`);
    }
  }

  #fromVariable(flag: Flag<unknown>): Setting | undefined {
    // An empty variable counts as unset, and so does the address of a service.
    const [name, other] = variableNames(flag).filter((one) => Boolean(this.#environment[one]) && !isAddress(one, this.#environment[one]!));
    if (name === undefined) return undefined;
    if (other !== undefined) throw badConfig(`The variable ${name}: the same setting is given as ${other} too. Unset one of them.`);
    return { value: readText(flag, this.#environment[name]!, `The variable ${name}`), origin: { from: 'variable', name } };
  }

  #fromSection(name: string, section: Section | undefined, flag: Flag<unknown>): Setting | undefined {
    const found = settingNames(flag).filter((key) => section?.has(key));
    const [key, other] = found;
    if (section === undefined || key === undefined) return undefined;
    const where = place(this.path, name, key);
    if (other !== undefined) throw badConfig(`${where}: the same setting is given as ${quote(other)} too. Keep one of them.`);
    return { value: readJson(flag, section.get(key), where), origin: { from: 'file', path: this.path, section: name, key } };
  }
}

/** Whether any variable is, or was meant to be, a flag's. */
function setsFlags(environment: Environment): boolean {
  return Object.keys(environment).some((name) => name.startsWith('RECUA_') && !otherVariables.some(([other]) => other === name));
}

function allFlags(commands: readonly AnyCommand[]): Flag<unknown>[] {
  return allPlaces(commands).flatMap(({ command }) => Object.values(command.flags));
}

function variableOf(name: string): string {
  return `RECUA_${name.toUpperCase().replaceAll('-', '_')}`;
}

/** Throws unless this key sets one of the flags. */
function checkKey(path: string, section: string, key: string, flags: readonly Flag<unknown>[], sections: readonly string[]): void {
  const named = flags.filter((flag) => settingNames(flag).includes(key));
  if (named.some((flag) => !flag.perCall)) return;
  const where = place(path, section, key);
  if (named.length > 0) throw badConfig(`${where}: --${key} is for one call and cannot be set in a file.`);
  const known = [...flags.filter((flag) => !flag.perCall).flatMap(settingNames), ...sections];
  const bare = key.replace(/^-+/, '');
  const off = /^no-/.test(bare) && known.includes(bare.slice(3)) ? ` Write ${JSON.stringify(bare.slice(3))}: false.` : suggestion(bare, known);
  throw badConfig(`${where}: expected the long name of a flag${section === '' ? '' : ` of recua ${section}`} without its dashes${section === '' ? ', or the name of a command' : ''}.${off}`);
}

function suggestion(word: string, known: readonly string[]): string {
  const near = known.includes(word) ? word : nearest(word, [...new Set(known)]);
  return near === undefined ? '' : ` Did you mean ${near}?`;
}

function place(path: string, section: string, key: string): string {
  return `${path}, ${section === '' ? '' : `section ${quote(section)}, `}key ${quote(key)}`;
}

/** Like `flag.read`, but error messages begin with the origin of the text. */
function readText(flag: Flag<unknown>, text: string, who: string): unknown {
  if (flag.value === '') {
    const set = booleans.get(text.toLowerCase());
    if (set === undefined) throw badConfig(`${who}: expected true or false (1 or 0), got ${quote(text)}.`);
    return set;
  }
  try {
    return flag.read(text);
  } catch (cause) {
    if (!(cause instanceof RecuaError)) throw cause;
    throw new RecuaError('invalid_config', `${who}: ${cause.message}`, { cause });
  }
}

function readJson(flag: Flag<unknown>, value: unknown, where: string): unknown {
  const expected = flag.value === '' ? 'true or false' : flag.words ? `a number or one of ${flag.words.join(', ')}` : typeof flag.fallback === 'number' ? 'a number' : 'a text in quotes';
  const wrong = badConfig(`${where}: expected ${expected}, got ${flag.secret ? 'something else' : shown(value)}.`);
  if (flag.value === '') {
    if (typeof value !== 'boolean') throw wrong;
    return value;
  }
  if (flag.words) {
    if (typeof value !== 'number' && !flag.words.includes(String(value))) throw wrong;
  } else if (typeof flag.fallback === 'number') {
    // Some numbers have a unit, which makes them strings: "10M".
    const bare = typeof value === 'string' && value.trim() !== '' && Number.isNaN(Number(value));
    if (typeof value !== 'number' && !bare) throw wrong;
  } else if (typeof value !== 'string' && !(typeof value === 'number' && typeof flag.fallback !== 'string')) {
    throw wrong;
  }
  return readText(flag, String(value), where);
}

async function contents(path: string, named: boolean): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = await readGivenFile(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (!named && (code === 'ENOENT' || code === 'ENOTDIR')) return {};
    throw new RecuaError('invalid_config', `The config file ${path} cannot be read: ${(cause as Error).message}.${named ? ' RECUA_CONFIG names it.' : ''}`, { cause });
  }
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (cause) {
    const { message } = cause as Error;
    // The message may quote the file, and so a key in it.
    const why = text.includes('api-key') ? /line \d+,? column \d+/.exec(message)?.[0] ?? 'something is missing, left over or without quotes' : message;
    throw new RecuaError('invalid_config', `The config file ${path} is not valid JSON: ${why}.`, { cause });
  }
  if (!isObject(value)) throw badConfig(`${path}: expected a JSON object, got ${shown(value)}.`);
  return value;
}

/** The value as written in the file, shortened. */
function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function badConfig(message: string): RecuaError {
  return new RecuaError('invalid_config', message);
}
