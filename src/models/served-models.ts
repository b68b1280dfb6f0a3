// The models of a server with several, and which of them a request's `model` means. Answers from
// memory; rereads the store after a moment, when an alias changes, and for an unknown name. Called
// by servers' catalogues.
import { RecuaError } from '../errors.js';
import { aliasesVersion, lastingAliases } from './aliases.js';
import { lastingScan } from './cache/hub-scan.js';
import { readInventory, someOf } from './lookup.js';
import type { Inventory } from './lookup.js';
import { nearestOnes } from './names/nearest.js';
import { findPlaces } from './places.js';
import type { Places } from './places.js';
import { asItIsNow, findRunnable, runnableModels } from './store.js';
import type { StoredModel } from './store.js';

/** How long a reading of the store stays valid. */
const freshMs = 5_000;
/** From then on, it is read again while requests still get what was read before. */
const aheadMs = 4_000;
/** An unknown name triggers a reread, at most this often. */
const unknownMs = 500;
/** These times are those of a reading of 500 ms, and grow with what thousands of models take. */
const usualMs = 500;
const mostNearNames = 3;

/** Counts the changes that this process made to the store. */
let changes = 0;

/** Invalidates earlier readings: this process changed the store. */
export function storeChanged(): void {
  changes++;
}

export interface ServedModels {
  list(): Promise<readonly StoredModel[]>;
  /**
   * @throws RecuaError `model_not_found` with the nearest names, `ambiguous_model`, or
   *   `invalid_type` if there is neither a name nor a default
   */
  find(name: string | undefined): Promise<StoredModel>;
}

/** What errors name as the place to see the models, unless told otherwise. */
const httpList = 'GET /v1/models';

/** Serves exactly these models; `defaultId` is for requests that name none. */
export function chosenModels(chosen: readonly StoredModel[], defaultId?: string, listedBy = httpList): ServedModels {
  const index = new NameIndex(withOwnKeys(chosen), listedBy);
  return {
    list: () => Promise.resolve(index.models),
    find: async (name) => {
      if (!isDefault(name)) return index.find(name) ?? index.refuse(name);
      return index.models.find(({ id }) => id === defaultId) ?? (name ? index.find(name) : undefined) ?? index.refuseNone();
    },
  };
}

export interface StoreOptions {
  places?: Places;
  now?: () => number;
  /** Listed before the store's models, and replacing those with the same file. */
  first?: readonly StoredModel[];
  /** The model for requests that name none. */
  defaultId?: string | undefined;
  /** What errors name as the place to see the models. */
  listedBy?: string;
  /** Takes words about a store that is damaged in part. */
  warn?: (text: string) => void;
}

/**
 * Serves every runnable model that `recua list` shows, including models pulled or removed while the
 * server runs.
 */
export function storeModels({
  places = findPlaces(),
  now = () => performance.now(),
  first = [],
  defaultId,
  listedBy = httpList,
  warn = () => undefined,
}: StoreOptions = {}): ServedModels {
  let read:
    { inventory: Inventory; index: NameIndex; atMs: number; tookMs: number; changes: number; aliases: string } | undefined;
  let reading: Promise<NonNullable<typeof read>> | undefined;
  const aliasesOf = lastingAliases(warn);
  const reposOf = lastingScan(warn);
  const byDefault = withOwnKeys(first).find(({ id }) => id === defaultId);
  const scan = async () => {
    const before = changes;
    const beganMs = now();
    const aliases = await aliasesVersion(places);
    const inventory = await readInventory(places, aliasesOf, reposOf);
    const named = withOwnKeys(await Promise.all(first.map(async (one) => await asItIsNow(one, inventory))));
    const names = new Set(named.map(({ id }) => id.toLowerCase()));
    const others = (await runnableModels(inventory)).filter(
      ({ id, path }) => !names.has(id.toLowerCase()) && !named.some((one) => one.path === path),
    );
    const index = new NameIndex([...named, ...others], listedBy);
    return (read = { inventory, index, atMs: now(), tookMs: now() - beganMs, changes: before, aliases });
  };
  const readAgain = async () => {
    const least = changes;
    const next = (): NonNullable<typeof reading> => (reading ??= scan().finally(() => (reading = undefined)));
    const last = await next();
    // It may have begun before the change.
    return last.changes < least ? await next() : last;
  };
  const notOlderThan = async (ms: number) => {
    if (!read || read.changes !== changes) return await readAgain();
    // A name must not mean its former model: a key may be limited to it.
    const version = await aliasesVersion(places);
    if (read.aliases !== version) {
      const last = await readAgain();
      return last.aliases === version ? last : await readAgain();
    }
    const ageMs = (now() - read.atMs) / Math.max(1, read.tookMs / usualMs);
    if (ageMs >= ms) return await readAgain();
    if (ageMs >= aheadMs) void readAgain().catch(() => undefined);
    return read;
  };
  return {
    list: async () => (await notOlderThan(freshMs)).index.models,
    find: async (name) => {
      if (byDefault && isDefault(name)) return byDefault;
      const known = name === undefined ? undefined : (await notOlderThan(freshMs)).index.find(name);
      if (known) return known;
      const { inventory, index } = await notOlderThan(unknownMs);
      if (name !== undefined && name !== '') {
        const found = index.find(name) ?? (await findRunnable(inventory, name).catch(aboutModel));
        if (found) return index.models.find(({ path }) => path === found.path) ?? found;
      }
      return isDefault(name) ? index.refuseNone() : index.refuse(name);
    },
  };
}

/** A server may have one file under several names, each with its own settings. */
function withOwnKeys(models: readonly StoredModel[]): StoredModel[] {
  const times = new Map<string, number>();
  for (const { key } of models) times.set(key, (times.get(key) ?? 0) + 1);
  return models.map((model) => (times.get(model.key) === 1 ? model : { ...model, key: model.id }));
}

/**
 * Takes from each model the aliases that also name another: requests that use them are ambiguous,
 * or mean the model with that id.
 */
function withOwnNames(models: readonly StoredModel[]): StoredModel[] {
  const times = new Map<string, number>();
  for (const { id, aliases } of models) for (const name of new Set([id, ...aliases])) times.set(name, (times.get(name) ?? 0) + 1);
  const isOwn = (name: string): boolean => times.get(name) === 1;
  return models.map((model) => (model.aliases.every(isOwn) ? model : { ...model, aliases: model.aliases.filter(isOwn) }));
}

function isDefault(name: string | undefined): name is undefined | '' {
  return name === undefined || name === '' || name.toLowerCase() === 'default';
}

class NameIndex {
  /** `aliases` has only names that mean the model here. */
  readonly models: readonly StoredModel[];
  /** By lowercase name, each with the name as written. */
  readonly #byName = new Map<string, { name: string; model: StoredModel }[]>();
  readonly #byRepository = new Map<string, StoredModel[]>();

  readonly #listedBy: string;

  constructor(models: readonly StoredModel[], listedBy: string) {
    this.#listedBy = listedBy;
    this.models = withOwnNames(models);
    for (const [at, { id, aliases, unlisted }] of models.entries()) {
      const model = this.models[at]!;
      if (model.repo !== undefined) this.#byRepository.set(model.repo, [...this.#byRepository.get(model.repo) ?? [], model]);
      for (const name of new Set([id, ...aliases, ...unlisted])) {
        const key = name.toLowerCase();
        const same = this.#byName.get(key);
        if (same) same.push({ name, model });
        else this.#byName.set(key, [{ name, model }]);
      }
    }
  }

  /** Ids win over aliases. Case counts only to break ties. @throws RecuaError `ambiguous_model` */
  find(name: string): StoredModel | undefined {
    const all = this.#byName.get(name.toLowerCase()) ?? [];
    const exact = all.filter((one) => one.name === name);
    const [id, alias, any] = [exact.filter((one) => one.model.id === name), exact, all].map((ones) => ones.map(({ model }) => model));
    // Repositories may differ only in case.
    const inRepository = any!.filter(({ repo }) => repo !== undefined && name.startsWith(`${repo}:`));
    for (const candidates of [id!, alias!, this.#byRepository.get(name) ?? [], inRepository, any!]) {
      const found = [...new Set(candidates)];
      if (found.length === 1) return found[0];
      if (found.length > 1) {
        const ids = someOf(found.map(({ id }) => id));
        throw new RecuaError('ambiguous_model', `${quoted(name)} means ${found.length} models of this server; give one of them: ${ids}.`, { param: 'model' });
      }
    }
    return undefined;
  }

  /** Never substitutes another model. */
  refuse(name: string): never {
    const known = new Set(this.models.flatMap(({ id, aliases }) => [id, ...aliases]));
    const wanted = name.slice(0, 200).toLowerCase();
    const near = [...known].filter((one) => one.toLowerCase().includes(wanted)).slice(0, mostNearNames);
    const others = new Map([...known].filter((one) => !near.includes(one)).map((one) => [one.toLowerCase(), one]));
    near.push(...nearestOnes(wanted, [...others.keys()], mostNearNames - near.length).map((one) => others.get(one)!));
    const meant = near.length > 0 ? ` Did you mean ${near.map((one) => quoted(one)).join(' or ')}?` : '';
    throw new RecuaError('model_not_found', `The model ${quoted(name)} does not exist here.${meant} ${this.#listedBy} lists those that do.`, { param: 'model' });
  }

  refuseNone(): never {
    const some = this.models.slice(0, mostNearNames).map(({ id }) => quoted(id)).join(', ');
    throw new RecuaError('invalid_type', `Expected the name of a model, and this server has no default one. `
      + `It has ${some}${this.models.length > mostNearNames ? ' and others' : ''}; ${this.#listedBy} lists them.`, { param: 'model' });
  }
}

/** Makes the store's error refer to the request's field. */
function aboutModel(thrown: unknown): never {
  if (!(thrown instanceof RecuaError)) throw thrown;
  throw new RecuaError(thrown.code, thrown.message, { param: 'model', cause: thrown });
}

function quoted(name: string): string {
  return name.length > 80 ? `a string of ${name.length} characters` : JSON.stringify(name);
}
