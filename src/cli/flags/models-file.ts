// The file of `recua api --models`, and `models` of the config file: the models of a server by the
// names that clients use, how to load each, and its request defaults. Its keys are those of the
// settings, with their ranges. The whole file is checked before anything is loaded.
import { dirname, resolve } from 'node:path';
import { answerSettings, samplerSettings } from '../../settings/answer.js';
import type { Settings } from '../../settings/kinds.js';
import { RecuaError } from '../../errors.js';
import { nearest } from '../../models/names/nearest.js';
import { isServedName, servedNameRule } from '../../models/names/served-name.js';
import type { OwnSettings } from '../../models/served/catalogue.js';
import { Fields } from '../../request/fields.js';
import { readSettings } from '../../request/setting-fields.js';
import { readTextFile } from '../../system/given-file.js';
import { parseJson } from './json-file.js';
import { loadingKeys, meantKey, modelKeys } from './models-file-keys.js';
import { configPath } from './settings.js';

/** What the file says about a model. */
export interface ModelSettings extends OwnSettings {
  /** A path, or a name in the store. */
  model: string;
  aliases: readonly string[];
}

export interface ModelsFile {
  path: string;
  /** The folder that relative paths in the file start from. */
  folder: string;
  /** It is the config file: the store is served besides its models. */
  isConfig: boolean;
  /** The model for requests that name none: by default the first one. */
  default: string;
  models: ReadonlyMap<string, ModelSettings>;
}

/**
 * If the path is the config file, only its `models` is read.
 * @throws RecuaError `file_unreadable`, `invalid_config`
 */
export async function readModelsFile(path: string, configFile = configPath()): Promise<ModelsFile> {
  const text = await readTextFile(path);
  let content: unknown;
  try {
    content = parseJson(text);
  } catch (cause) {
    throw new RecuaError('invalid_config', `The models file ${path} is not valid JSON: ${(cause as Error).message}.`, { cause });
  }
  const isConfig = resolve(path) === configFile;
  const read = object(content, path);
  const whole: Record<string, unknown> = isConfig ? { models: read['models'] } : read;
  allow(whole, ['default', 'models'], path);
  const given = object(whole['models'], `${path}, key "models"`);
  const folder = dirname(resolve(path));
  const models = new Map<string, ModelSettings>();
  for (const [name, value] of Object.entries(given)) {
    models.set(checkName(name, `${path}, key "models"`), readModel(value, `${path}, model ${JSON.stringify(name)}`, folder));
  }
  if (models.size === 0) throw bad(path, 'expected at least one model in "models"', given);
  refuseTwice(models, path);
  refusePinnedTwice(models, path);
  const [first] = models.keys();
  const chosen = whole['default'] ?? first;
  if (typeof chosen !== 'string' || !models.has(chosen)) {
    throw bad(`${path}, key "default"`, `expected one of ${[...models.keys()].join(', ')}`, chosen);
  }
  return { path, folder, isConfig, default: chosen, models };
}

/** The settings of the model with this name or alias, and its name in the file. */
export function findSettings(file: ModelsFile, name: string): [id: string, own: ModelSettings] | undefined {
  const same = (one: string) => one.toLowerCase() === name.toLowerCase();
  return [...file.models].find(([id, { aliases }]) => [id, ...aliases].some(same));
}

function readModel(value: unknown, where: string, folder: string): ModelSettings {
  const given = object(value, where);
  allow(given, modelKeys, where, meantKey);
  const { model, aliases = [], pinned = false } = given;
  if (typeof model !== 'string' || model === '') throw bad(place(where, 'model'), 'expected the path of a GGUF file, a name that recua list shows, or builtin', model);
  if (!Array.isArray(aliases)) throw bad(place(where, 'aliases'), 'expected a list of names', aliases);
  if (typeof pinned !== 'boolean') throw bad(place(where, 'pinned'), 'expected true or false', pinned);
  const group = given['group'] === undefined ? undefined : checkName(given['group'], place(where, 'group'));
  const { context, template, keepAlive, ...config } = settings(given, loadingKeys, where);
  return {
    model,
    aliases: aliases.map((alias) => checkName(alias, place(where, 'aliases'))),
    config: {
      ...config,
      ...(context === undefined ? {} : { contextSize: context }),
      ...(keepAlive === undefined ? {} : { keepAliveMs: keepAlive * 1_000 }),
    },
    defaults: { ...settings(given, answerSettings, where), sampling: settings(given, samplerSettings, where) },
    pinned,
    ...(template === undefined ? {} : { templatePath: resolve(folder, template) }),
    ...(group === undefined ? {} : { group }),
  };
}

function settings<T extends Settings>(given: object, table: T, where: string): ReturnType<typeof readSettings<T>> {
  try {
    return readSettings(Fields.of(given), table);
  } catch (cause) {
    throw new RecuaError('invalid_config', `${where}: ${(cause as Error).message}`, { cause });
  }
}

/** A name may stand for only one model. */
function refuseTwice(models: ReadonlyMap<string, ModelSettings>, path: string): void {
  const owners = new Map<string, string>();
  for (const [name, { aliases }] of models) {
    for (const one of [name, ...aliases]) {
      const owner = owners.get(one.toLowerCase());
      if (owner !== undefined) throw new RecuaError('invalid_config', `${path}: expected each name once, got ${JSON.stringify(one)} for ${owner} and for ${name}.`);
      owners.set(one.toLowerCase(), name);
    }
  }
}

/** Two pinned models of a group would keep each other from being loaded. */
function refusePinnedTwice(models: ReadonlyMap<string, ModelSettings>, path: string): void {
  const owners = new Map<string, string>();
  for (const [name, { pinned, group }] of models) {
    if (!pinned || group === undefined) continue;
    const owner = owners.get(group);
    if (owner !== undefined) throw new RecuaError('invalid_config', `${path}: expected one pinned model at most in the group ${JSON.stringify(group)}, got ${owner} and ${name}.`);
    owners.set(group, name);
  }
}

function checkName(name: unknown, where: string): string {
  if (!isServedName(name)) throw bad(where, `expected ${servedNameRule}`, name);
  if (name.toLowerCase() === 'default') throw bad(where, 'expected a name other than "default", which means the default model', name);
  return name;
}

function allow(
  given: Record<string, unknown>,
  known: readonly string[],
  where: string,
  meant = (key: string) => nearest(key, known),
): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue;
    const near = meant(key);
    throw new RecuaError(
      'invalid_config',
      `${where}: there is no key ${JSON.stringify(key)}.${near === undefined ? ` There are ${known.join(', ')}.` : ` Did you mean ${near}?`}`,
    );
  }
}

function object(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad(where, 'expected an object', value);
  return value as Record<string, unknown>;
}

function place(where: string, key: string): string {
  return `${where}, key ${JSON.stringify(key)}`;
}

function bad(where: string, expected: string, value: unknown): RecuaError {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return new RecuaError('invalid_config', `${where}: ${expected}, got ${text.length > 60 ? `${text.slice(0, 60)}…` : text}.`);
}
