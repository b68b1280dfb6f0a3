// How to load each of a server's models, given its current file and settings. A pool asks before
// each load. Made by the command line and by the library's pool.
import type { Device } from '../../addon/addon.js';
import type { Catalogue, CatalogueModel } from '../../engine/model-pool/catalogue.js';
import { RecuaError } from '../../errors.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import { makeConfig, type Config } from '../../settings/config.js';
import { readFilledFile } from '../../system/given-file.js';
import { changeOf, checkedFiles, fingerprintOf, readModelFile, withoutFolders } from '../gguf/model-file.js';
import { engineOptions } from '../needs/engine-options.js';
import type { ServedModels } from '../served-models.js';
import { asItIsNow, markUsed, type StoredModel } from '../store.js';
import { foreseePlacement } from './placement.js';

/** One model's own settings, which override the server's. */
export interface OwnSettings {
  /** How it is loaded and how long it stays. */
  config: Partial<Config>;
  /** Request defaults. */
  defaults: Partial<RequestDefaults>;
  pinned: boolean;
  /** A file with the chat template, which is read before each load. */
  templatePath?: string;
  /** At most one model of a group is loaded. */
  group?: string | undefined;
}

export interface CatalogueParts {
  models: ServedModels;
  /** For models without own settings. */
  config: Config;
  /** By model id. */
  settings: ReadonlyMap<string, OwnSettings>;
  /** GPUs as they are without any of these models; empty if no model wants one. */
  devices: readonly Device[];
  /** Looks again for a model that could not be used when the server started. */
  again?: (id: string) => Promise<StoredModel>;
}

export function makeCatalogue({ models, config, settings, devices, again }: CatalogueParts): Catalogue {
  return {
    list: () => models.list(),
    find: (name) => models.find(name),
    changeOf: ({ options: { checked = [] } }) => changeOf(checked),
    async plan(model) {
      const { id } = model;
      const found = await presentOf(models, model);
      const stored = found.problem && again ? await again(id) : await asItIsNow(found);
      const file = await readModelFile(stored.path).catch((thrown: unknown) => { throw unusable(thrown, id, stored.path); });
      await markUsed(stored);
      const own = settings.get(id);
      const ownConfig = makeConfig({ ...config, ...own?.config, ...await templateOf(own, id), model: stored.path });
      const { keepAliveMs } = ownConfig;
      return {
        options: engineOptions(stored.path, ownConfig, file),
        ...foreseePlacement(file, ownConfig, devices),
        fingerprint: `${fingerprintOf(checkedFiles(file))} ${ownConfig.chatTemplate}`,
        keepAliveMs: keepAliveMs < 0 ? Infinity : keepAliveMs,
        pinned: own?.pinned ?? false,
        group: own?.group,
      };
    },
  };
}

/** The model as it is listed now: its name may be another's, and the store may have renamed it. */
async function presentOf(models: ServedModels, model: CatalogueModel): Promise<StoredModel> {
  const isSame = (one: StoredModel): boolean => one.key === model.key;
  const found = (await models.list()).find(isSame) ?? await models.find(model.id);
  if (isSame(found)) return found;
  throw new RecuaError('model_not_found', `The file of ${model.id} is gone, and another model has that name now; ask for it again.`, { param: 'model' });
}

async function templateOf(own: OwnSettings | undefined, id: string): Promise<Partial<Config>> {
  const path = own?.templatePath;
  if (path === undefined) return {};
  return { chatTemplate: await readFilledFile(path).catch((thrown: unknown) => { throw unusable(thrown, id, path); }) };
}

/** Tells a client what is wrong with a model's files, but not their paths on this machine. */
export function unusable(thrown: unknown, id: string, ...paths: string[]): RecuaError {
  return new RecuaError(RecuaError.from(thrown).code, `${id} cannot be loaded: ${withoutFolders(thrown, ...paths)}`, { param: 'model', cause: thrown });
}
