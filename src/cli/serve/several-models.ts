// What `recua api` serves if it is not a single fixed model: the whole store, the models of its
// operands, or those of a models file. Tells the pool which there are and how to load each. Called
// by api.
import { resolve as whole } from 'node:path';
import type { Device } from '../../addon/addon.js';
import { makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import type { Catalogue } from '../../engine/gateway/catalogue.js';
import { findGpus } from '../../engine/gateway/survey.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { makeCatalogue } from '../../models/served/catalogue.js';
import { chosenModels, storeModels } from '../../models/served-models.js';
import { findModel } from '../../models/store.js';
import type { StoredModel } from '../../models/store.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import { misuse } from '../flags/flags.js';
import { findSettings } from '../flags/models-file.js';
import type { ModelSettings, ModelsFile } from '../flags/models-file.js';

export interface SeveralModels {
  catalogue: Catalogue;
  defaultsOf(id: string): Partial<RequestDefaults>;
  /** The operands, in a form that means the same in any folder. */
  names: readonly string[];
  /** Ids of the models to load at start. */
  preload: readonly string[];
  /** The model, if it is the only one: `recua serve` identifies the server by it. */
  only: StoredModel | undefined;
  /** GPUs that at least one model may use. */
  devices: readonly Device[];
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
  for (const name of names.length > 0 ? names : file?.models.keys() ?? []) {
    const { model, own } = await resolve(name, file);
    const other = chosen.find(({ id }) => id.toLowerCase() === model.id.toLowerCase());
    if (other) {
      throw misuse(other.path === model.path
        ? `Expected each model once, got ${model.id} twice.`
        : `Two models would be called ${model.id}: ${other.path} and ${model.path}. Name them in a file: recua api --models FILE`);
    }
    // A file that is not a model is reported before the server listens.
    await readModelFile(model.path);
    chosen.push(model);
    if (names.length > 0) anywhere.push(own ? name : nameAnywhere(name, model));
    if (own) settings.set(model.id, own);
  }
  const isWholeStore = names.length === 0 && (file?.isConfig ?? true);
  const defaultId = names.length > 0 ? chosen[0]!.id : file?.default;
  const models = isWholeStore ? storeModels({ first: chosen, defaultId }) : chosenModels(chosen, defaultId);
  const configs = [config, ...[...settings.values()].map((own) => makeConfig({ ...config, ...own.config }))];
  const devices = await findGpus(configs);
  return {
    catalogue: makeCatalogue({ models, config, settings, devices }),
    devices,
    defaultsOf: (id) => settings.get(id)?.defaults ?? {},
    names: anywhere,
    only: chosen.length === 1 && !isWholeStore ? chosen[0] : undefined,
    preload: names.length > 0 ? chosen.map(({ id }) => id) : chosen.filter(({ id }) => settings.get(id)?.pinned).map(({ id }) => id),
  };
}

/** Makes a path absolute; any other name already means the same in every folder. */
export function nameAnywhere(name: string, { path }: StoredModel): string {
  return [whole(name), whole(`${name}.gguf`)].includes(path) ? path : name;
}

/**
 * Names in the models file take precedence over all others. Its models are found only by the names
 * that it gives them.
 */
async function resolve(name: string, file: ModelsFile | undefined): Promise<{ model: StoredModel; own: ModelSettings | undefined }> {
  const [id, own] = (file && findSettings(file, name)) ?? [];
  if (!file || id === undefined || !own) return { model: await findModel(name), own: undefined };
  const stored = await findModel(own.model, { folder: file.folder });
  // If the store is served too, the store's names for this model still find it.
  const unlisted = file.isConfig ? [stored.id, ...stored.aliases] : [];
  return { model: { ...stored, id, aliases: own.aliases, unlisted }, own };
}
