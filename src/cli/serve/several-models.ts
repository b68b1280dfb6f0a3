// What `recua api` serves if it is not a single fixed model: the whole store, the models of its
// operands, or those of a models file. Tells the pool which there are and how to load each. Called
// by api.
import { resolve as whole } from 'node:path';
import type { Device } from '../../addon/addon.js';
import { makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import type { Catalogue } from '../../engine/model-pool/catalogue.js';
import { findGpus } from '../../engine/gateway/survey.js';
import { RecuaError } from '../../errors.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { makeCatalogue, unusable } from '../../models/served/catalogue.js';
import { chosenModels, storeModels } from '../../models/served-models.js';
import { readInventory } from '../../models/lookup.js';
import { asItIsNow, findModel, nameAnywhere } from '../../models/store.js';
import type { StoredModel } from '../../models/store.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import { readFilledFile } from '../../system/given-file.js';
import { misuse } from '../flags/flags.js';
import { findSettings } from '../flags/models-file.js';
import type { ModelSettings, ModelsFile } from '../flags/models-file.js';
import type { ServedFiles } from './model-shelf.js';

export interface SeveralModels {
  catalogue: Catalogue;
  defaultsOf(id: string): Partial<RequestDefaults>;
  files: ServedFiles;
  /** The operands, in a form that means the same in any folder. */
  names: readonly string[];
  /** Ids of the models to load at start. */
  preload: readonly string[];
  /** The model, if it is the only one: `recua serve` identifies the server by it. */
  only: StoredModel | undefined;
  /** GPUs that at least one model may use. */
  devices: readonly Device[];
  /** Why the default model of the models file cannot be used; undefined if it can. */
  defaultFailure: Error | undefined;
  /** Says from now on what is wrong with single models, beginning with what is known already. */
  onWarning(warn: (text: string) => void): void;
}

export interface SeveralOptions {
  /** Operands: only these models, loaded at start. */
  names: readonly string[];
  file: ModelsFile | undefined;
  /** Defaults for models without own settings. */
  config: Config;
}

export async function severalModels({ names, file, config }: SeveralOptions): Promise<SeveralModels> {
  const settings = new Map<string, ModelSettings>();
  const chosen: StoredModel[] = [];
  const anywhere: string[] = [];
  const failures: unknown[] = [];
  let defaultFailure: Error | undefined;
  // There is no log yet.
  const early: string[] = [];
  let warn = (text: string): void => void early.push(text);
  let inventory: ReturnType<typeof readInventory> | undefined;
  for (const name of names.length > 0 ? names : file?.models.keys() ?? []) {
    const { model, own } = await check(name, file, (places) => (inventory ??= readInventory(places))).catch((thrown: unknown) => {
      if (names.length > 0 || !file) throw thrown;
      failures.push(thrown);
      if (name === file.default) defaultFailure = thrown as Error;
      warn(`${(thrown as Error).message} The model is not served until you fix this.`);
      return failedModel(thrown, name, file);
    });
    const other = chosen.find(({ id }) => id.toLowerCase() === model.id.toLowerCase());
    if (other) {
      throw misuse(other.path === model.path
        ? `Expected each model once, got ${model.id} twice.`
        : `Two models would be called ${model.id}: ${other.path} and ${model.path}. Name them in a file: recua api --models FILE`);
    }
    chosen.push(model);
    if (names.length > 0) anywhere.push(own ? name : nameAnywhere(name, model));
    if (own) settings.set(model.id, own);
  }
  if (file && !file.isConfig && settings.size === 0 && names.length > 0) {
    warn(`${file.path} has no effect: it names none of ${names.join(', ')}. Its models: ${[...file.models.keys()].join(', ')}.`);
  }
  const isWholeStore = names.length === 0 && (file?.isConfig ?? true);
  if (failures.length > 0 && failures.length === chosen.length && !isWholeStore) throw failures[0];
  const defaultId = names.length > 0 ? chosen[0]!.id : file?.default;
  const models = isWholeStore ? storeModels({ first: chosen, defaultId, warn: (text) => warn(text) }) : chosenModels(chosen, defaultId);
  const configs = [config, ...[...settings.values()].map((own) => makeConfig({ ...config, ...own.config }))];
  const devices = await findGpus(configs);
  return {
    catalogue: makeCatalogue({
      models,
      config,
      settings,
      devices,
      again: (id) =>
        resolve(id, file).then(
          ({ model }) => model,
          (thrown: unknown) => {
            throw unusableOf(thrown, id, file!);
          },
        ),
    }),
    devices,
    defaultsOf: (id) => settings.get(id)?.defaults ?? {},
    files: { pathOf: async (id) => (await asItIsNow(await models.find(id))).path, chosen },
    names: anywhere,
    only: chosen.length === 1 && !isWholeStore ? chosen[0] : undefined,
    preload:
      names.length > 0
        ? chosen.map(({ id }) => id)
        : chosen.filter(({ id, problem }) => settings.get(id)?.pinned && !problem).map(({ id }) => id),
    defaultFailure,
    onWarning(then) {
      for (const text of early.splice(0)) then(text);
      warn = then;
    },
  };
}

/**
 * A file that is not a model, or a template that cannot be read, is reported before the server
 * listens, and where it is named.
 */
async function check(name: string, file: ModelsFile | undefined, read: typeof readInventory): ReturnType<typeof resolve> {
  try {
    const found = await resolve(name, file, read);
    await readModelFile(found.model.path);
    if (found.own?.templatePath !== undefined) await readFilledFile(found.own.templatePath);
    return found;
  } catch (thrown) {
    if (!file || !findSettings(file, name)) throw thrown;
    const { code, message, param } = RecuaError.from(thrown);
    throw new RecuaError(code, `${file.path}, model ${JSON.stringify(name)}: ${message}`, { param, cause: thrown });
  }
}

/** A model of the models file that cannot be used now: the others are served nevertheless. */
function failedModel(thrown: unknown, name: string, file: ModelsFile): Awaited<ReturnType<typeof resolve>> {
  const [id, own] = findSettings(file, name)!;
  const problem = unusableOf((thrown as Error).cause, id, file).toPlain();
  return { model: { path: '', id, key: id, aliases: own.aliases, unlisted: [], createdSeconds: 0, repo: undefined, file: undefined, problem }, own };
}

/** For clients, as when the model is loaded. */
function unusableOf(thrown: unknown, name: string, file: ModelsFile): RecuaError {
  const [id, own] = findSettings(file, name)!;
  return unusable(thrown, id, whole(file.folder, own.model), ...(own.templatePath === undefined ? [] : [own.templatePath]));
}

/**
 * Names in the models file take precedence over all others. Its models are found only by the names
 * that it gives them.
 */
async function resolve(
  name: string,
  file: ModelsFile | undefined,
  read?: typeof readInventory,
): Promise<{ model: StoredModel; own: ModelSettings | undefined }> {
  const [id, own] = (file && findSettings(file, name)) ?? [];
  if (!file || id === undefined || !own) return { model: await findModel(name, { ...(read && { read }) }), own: undefined };
  const stored = await findModel(own.model, { folder: file.folder, ...(read && { read }) });
  // If the store is served too, the store's names for this model still find it.
  const unlisted = file.isConfig ? [stored.id, ...stored.aliases] : [];
  return { model: { ...stored, id, aliases: own.aliases, unlisted }, own };
}
