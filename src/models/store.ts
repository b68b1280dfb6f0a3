// Maps names to files and back: what a model argument means, and which models exist. `builtin` is
// the built-in model; existing files come next; then aliases, repositories and files of the store.
// Called by every command that takes a model.
import { access, stat } from 'node:fs/promises';
import { basename, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RecuaError, unreadable, type PlainError } from '../errors.js';
import { isWhole } from './cache/cached-models.js';
import type { CachedModel } from './cache/cached-models.js';
import { isReserved } from './aliases.js';
import { aliasesOf, chooseOne, headerQuantization, lookUp, namesOf, notFound, readInventory, sharedInventory } from './lookup.js';
import type { Inventory } from './lookup.js';
import { partOf, stemOf } from './names/model-names.js';
import { findPlaces } from './places.js';
import type { Places } from './places.js';
import { readUsage, usageKey, writeUsage } from './cache/usage-times.js';

export interface StoredModel {
  /** Absolute path. */
  path: string;
  /** The name that clients see. */
  id: string;
  /** Stays the same when the store gives the model other names. */
  key: string;
  /** All other names that requests may use. */
  aliases: readonly string[];
  /**
   * Names that requests may use but nobody is shown: paths, which reveal where files are on this
   * machine.
   */
  unlisted: readonly string[];
  /** When the file last changed, in seconds since 1970. */
  createdSeconds: number;
  /** Size of its files; absent if unknown. */
  fileBytes?: number;
  /** Undefined for the built-in model and files outside the store. */
  repo: string | undefined;
  /** Path inside the repository; for a split model, its first part. */
  file: string | undefined;
  /** It was named by a path or a revision, and means no other version. */
  isFixed?: boolean;
  /** Why it could not be used when the server started; it has no path then. */
  problem?: PlainError | undefined;
}

export interface ListedModel extends CachedModel {
  aliases: readonly string[];
  /** In milliseconds since 1970; undefined if never. */
  lastUsedMs: number | undefined;
}

const builtinKey = 'builtin';
/** Files that a list reads at once: a process may have only some hundreds open. */
const mostOpen = 16;

interface Lookup {
  /** Base of relative paths. */
  folder?: string;
  places?: Places;
  /** Reads the store; for many models, it is read once. */
  read?: (places: Places) => Promise<Inventory>;
}

/** The built-in model's file. */
export const builtinPath = fileURLToPath(new URL('../../builtin/builtin.gguf', import.meta.url));

/**
 * Finds the file of a model argument. Throws `model_not_found` with suggestions, `ambiguous_model`
 * with the candidates, and `file_unreadable` for a folder.
 */
export async function findModel(
  name: string,
  { folder = process.cwd(), places = findPlaces(), read = readInventory }: Lookup = {},
): Promise<StoredModel> {
  if (name === '')
    throw new RecuaError(
      'model_not_found',
      'Expected a model: the path of a GGUF file, a model of the store (recua list), or builtin for the built-in one.',
    );
  if (name === 'builtin') return await findBuiltin();
  const path = resolve(folder, name);
  const folders: string[] = [];
  const fileAt = async (at: string): Promise<StoredModel | undefined> => {
    const found = await stat(at).catch(() => undefined);
    if (found && !found.isDirectory()) return alsoBy(name, await describeFile(at, statOf(found), places));
    if (found) folders.push(at);
    else await refuseUnreadable(at);
    return undefined;
  };
  const file = await fileAt(path);
  if (file) return file;
  const inventory = await read(places);
  const found = await lookUp(inventory, name);
  if (found.models.length === 0) {
    const longer = /\.gguf$/i.test(path) ? undefined : await fileAt(`${path}.gguf`);
    if (longer) return longer;
    if (folders.length > 0) throw new RecuaError('file_unreadable', `${folders.at(-1)} is a folder; expected a GGUF file.`);
    throw notFound(name, found, inventory);
  }
  const model = chooseOne(name, found.models);
  return alsoBy(name, describeCached(model, inventory, found.by === 'alias' ? name : model.name));
}

/**
 * All runnable models: the store's, by the names that `list` shows, and the built-in one. Paths do
 * not find them.
 */
export async function runnableModels(inventory: Inventory): Promise<StoredModel[]> {
  const stored = inventory.models.filter(isWhole).map((model) => withoutPath(describeCached(model, inventory, model.name)));
  return [...stored, withoutPath(await findBuiltin())];
}

/**
 * The store's model that a request names, found like `findModel` but without files elsewhere;
 * undefined if there is none. Throws `ambiguous_model` with the candidates, `model_not_found` for
 * an incomplete model.
 */
export async function findRunnable(inventory: Inventory, name: string): Promise<StoredModel | undefined> {
  const { models } = await lookUp(inventory, name);
  if (models.length === 0) return undefined;
  const chosen = chooseOne(name, models);
  // A revision may be the one that is used without it.
  const model = inventory.models.find((one) => isWhole(one) && one.parts[0]!.path === chosen.parts[0]!.path) ?? chosen;
  return withoutPath(describeCached(model, inventory, model.name));
}

function withoutPath(model: StoredModel): StoredModel {
  return { ...model, unlisted: [] };
}

/** Requests may use the name from the command line. */
function alsoBy(name: string, model: StoredModel): StoredModel {
  return { ...model, unlisted: [...new Set([name, ...model.unlisted])] };
}

/**
 * The model as it is in the store now. Each version has its own path there, so a model that was
 * pulled or imported again is at another one, though the older version may still be there. If the
 * store cannot be read, the model as it was.
 */
export async function asItIsNow(model: StoredModel, given?: Inventory): Promise<StoredModel> {
  const { repo, file, isFixed } = model;
  if (repo === undefined || isFixed) return model;
  const inventory = given ?? await sharedInventory().catch(() => undefined);
  const now = inventory?.models.find((one) => one.repo === repo && one.file === file && isWhole(one));
  return now ? { ...model, path: now.parts[0]!.path, createdSeconds: Math.floor(now.changedMs / 1000), fileBytes: now.sizeBytes } : model;
}

/**
 * Makes a path absolute; any other name already means the same in every folder, also beside a file
 * or a folder that is called like it.
 */
export function nameAnywhere(name: string, { path }: StoredModel): string {
  return name !== 'builtin' && [resolve(name), resolve(`${name}.gguf`)].includes(path) ? path : name;
}

/** Everything in the store, by name, including incomplete models. */
export async function scanStore(places: Places = findPlaces()): Promise<ListedModel[]> {
  return await listModels(await readInventory(places));
}

/** The names that `list` shows, aliases included, without reading models: for completion. */
export async function storedNames(places: Places): Promise<string[]> {
  const { models, aliases } = await readInventory(places);
  // An unnamed download has nothing to type.
  const named = models.filter(({ file }) => file !== '').map(({ name }) => name);
  return ['builtin', ...aliases.keys(), ...named].filter((name) => !/[\p{Cc}\s]/u.test(name));
}

/** Adds what `list` shows about an inventory's models; reads their headers. */
export async function listModels(inventory: Inventory): Promise<ListedModel[]> {
  const { places, models } = inventory;
  const listed: ListedModel[] = [];
  for (let at = 0; at < models.length; at += mostOpen) {
    listed.push(...await Promise.all(models.slice(at, at + mostOpen).map(async (model) => ({
      ...model,
      quantization: await headerQuantization(model) || model.quantization,
      aliases: aliasesOf(model, inventory),
      lastUsedMs: await readUsage(places, usageKey(model)),
    }))));
  }
  return listed;
}

/** Records that a model was used now, for `list`. Never fails. */
export async function markUsed(model: StoredModel, places: Places = findPlaces()): Promise<void> {
  if (model.path === builtinPath) await writeUsage(places, builtinKey);
  else if (model.repo !== undefined && model.file !== undefined) await writeUsage(places, usageKey({ repo: model.repo, file: model.file }));
}

/** When the built-in model was last used, in milliseconds since 1970. */
export async function builtinUsedMs(places: Places): Promise<number | undefined> {
  return await readUsage(places, builtinKey);
}

async function findBuiltin(): Promise<StoredModel> {
  const found = await stat(builtinPath).catch((cause: unknown) => {
    throw new RecuaError('model_not_found', `The built-in model is missing: there is no ${builtinPath}. Install Recua again, or get the file back from the repository.`, { cause });
  });
  return { path: builtinPath, id: 'builtin', key: 'builtin', aliases: [], unlisted: [], ...statOf(found), repo: undefined, file: undefined };
}

function statOf({ mtimeMs, size }: { mtimeMs: number; size: number }): { createdSeconds: number; fileBytes: number } {
  return { createdSeconds: Math.floor(mtimeMs / 1000), fileBytes: size };
}

/** Describes a file. A file of the store keeps its names there. */
async function describeFile(path: string, { createdSeconds, fileBytes }: ReturnType<typeof statOf>, places: Places): Promise<StoredModel> {
  if (path.startsWith(places.hub + sep)) {
    const inventory = await readInventory(places);
    const model = inventory.models.find(
      ({ parts, copies }) => parts[0]?.path === path || copies.some((copy) => copy.path === path && copy.file === parts[0]?.file),
    );
    if (model)
      return {
        ...describeCached(model, inventory, model.name),
        path,
        key: path,
        createdSeconds,
        ...(model.totalParts > 1 ? {} : { fileBytes }),
        isFixed: true,
      };
  }
  // Drop what does not describe the model: the extension and the part count of a split model. A
  // name that means another model keeps the extension.
  const id = path !== builtinPath && isReserved(stemOf(path)) ? `${stemOf(path)}.gguf` : stemOf(path);
  return {
    path,
    id,
    key: path,
    aliases: [basename(path)].filter((file) => file !== id && !isReserved(file)),
    unlisted: [path],
    createdSeconds,
    ...(partOf(path).total > 1 ? {} : { fileBytes }),
    repo: undefined,
    file: undefined,
  };
}

function describeCached(model: CachedModel, inventory: Inventory, id: string): StoredModel {
  const { path } = model.parts[0]!;
  // A file of an older revision keeps only its own name: the others mean another file.
  const other = model.revision !== undefined && !inventory.models.some((one) => one.parts[0]?.path === path);
  const names = new Set([...(other ? [] : namesOf(model, inventory)), model.name]);
  names.delete(id);
  return {
    path,
    id,
    // No name has a line break.
    key: model.revision === undefined ? `${model.repo}\n${model.file}` : path,
    aliases: [...names].filter((name) => !isReserved(name)),
    unlisted: [path],
    createdSeconds: Math.floor(model.changedMs / 1000),
    fileBytes: model.sizeBytes,
    repo: model.repo,
    file: model.file,
    ...(model.revision === undefined ? {} : { isFixed: true }),
  };
}

/** An unreadable file is not the same as a missing one. */
async function refuseUnreadable(path: string): Promise<void> {
  await access(path).catch((cause: NodeJS.ErrnoException) => {
    if (!['ENOENT', 'ENOTDIR', 'EINVAL', 'ENAMETOOLONG', 'ERR_INVALID_ARG_VALUE', 'ELOOP'].includes(cause.code ?? '')) {
      throw unreadable(`${path} cannot be read`, cause);
    }
  });
}
