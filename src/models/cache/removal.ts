// Removes models from the store: first plans exactly what to delete and how much that frees, then
// does it. Deletes only links, blobs and partial downloads inside a repository's folder, never the
// target of a link. Called by `recua rm` and by imports that replace a model.
import { lstat, readdir, realpath, rmdir, unlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError } from '../../errors.js';
import { isFree, lockHolder, tryLock } from '../../system/lock-file.js';
import { removeAliases } from '../aliases.js';
import { sidecarsOf } from './cached-models.js';
import type { CachedModel } from './cached-models.js';
import { partialPlaces, unwritable } from './hub-cache.js';
import { commitOf, scanRepo } from './hub-scan.js';
import type { CachedRepo, PartialDownload, SnapshotFile } from './hub-scan.js';
import { ambiguous, aliasesOf, lookUp, notFound } from '../lookup.js';
import type { Inventory } from '../lookup.js';
import { isGgufFile, isSidecar } from '../names/model-names.js';
import { forgetUsage, usageKey } from './usage-times.js';

export interface RepoRemoval {
  repo: CachedRepo;
  models: readonly CachedModel[];
  /** Snapshot files to delete: links, or contents on systems without links. */
  entries: readonly SnapshotFile[];
  /** Blobs that nothing else refers to. */
  blobs: readonly string[];
  partials: readonly PartialDownload[];
  freedBytes: number;
  /** Bytes that are not freed: files that stay are hard links to the same contents. */
  linkedBytes: number;
  /** Files of the repository that stay, models or not. */
  staying: number;
}

export interface RemovalPlan {
  removals: readonly RepoRemoval[];
  aliases: readonly string[];
  /** Models that stay although their alias was named: they were there before it. */
  adopted: readonly CachedModel[];
  /** Names that match the removed model only because they resemble its name. */
  guessed: readonly { name: string; meant: string }[];
  freedBytes: number;
  linkedBytes: number;
}

/** How long a running pull may take to notice that it must end. */
const patienceMs = 10_000;
/** Pulls check for the cancel file about four times a second. */
const noticeMs = 600;
/** A lock's draft exists for a few system calls; an older one is a leftover. */
const freshMs = 60_000;
/** A Python download that was written to this recently is probably running. */
const foreignRestMs = 10 * 60_000;

/**
 * `takesPaths`: a name may be the path of a model's file. Throws `model_not_found`,
 * `ambiguous_model` or `invalid_usage` for a name that selects nothing to remove.
 */
export async function planRemoval(inventory: Inventory, names: readonly string[], { takesPaths = true } = {}): Promise<RemovalPlan> {
  const models = new Set<CachedModel>();
  const whole = new Set<string>();
  const extra = new Set<SnapshotFile>();
  const aliases = new Set<string>();
  const adopted = new Set<CachedModel>();
  const guessed: { name: string; meant: string }[] = [];
  for (const name of names) {
    if (name === 'builtin') throw new RecuaError('invalid_usage', 'The built-in model builtin is part of Recua and cannot be removed.');
    const found = await lookUp(inventory, name);
    const repo = inventory.repos.find((one) => one.repo === found.repoName?.repo);
    const { revision, word, file: path } = found.repoName ?? {};
    const commit = repo && revision !== undefined ? commitOf(repo, revision) : undefined;
    const inRevision = repo?.files.filter((file) => revision === undefined || file.commit === commit) ?? [];
    const sidecar = inRevision.filter((file) => isGgufFile(file.file) && file.file === path);
    const [first] = found.models;
    if (first && found.by !== 'alias' && first.repo !== found.repoName?.repo && ![first.name, first.file, `${first.repo}/${first.file}`].includes(name)) {
      guessed.push({ name, meant: found.by === 'repo' ? first.repo : first.name });
    }
    if (found.by === 'alias' && inventory.aliases.get(name)?.adopted) {
      aliases.add(name);
      for (const model of found.models) adopted.add(model);
    } else if (found.by === 'repo') {
      for (const model of found.models) models.add(model);
      if (revision === undefined) whole.add(found.models[0]!.repo);
      // Sidecars are deleted with the models of their revision.
      else for (const file of inRevision) if (isGgufFile(file.file) && isSidecar(file.file)) extra.add(file);
    } else if (found.models.length > 1) throw ambiguous(name, found.models);
    else if (found.models.length === 1) models.add(found.models[0]!);
    else if (found.by === 'alias') aliases.add(name);
    else if (sidecar.length > 0) for (const file of sidecar) extra.add(file);
    else if (repo && path === undefined && word === undefined && revision === undefined) whole.add(repo.repo);
    else
      models.add(
        (takesPaths ? await byPath(inventory, name) : undefined) ??
          throwing(notFound(name, found, inventory, { takesPaths, takesBuiltin: false })),
      );
  }
  for (const model of goingOf(inventory.models, models)) for (const alias of aliasesOf(model, inventory)) aliases.add(alias);
  const removals: RepoRemoval[] = [];
  for (const repo of inventory.repos) {
    const own = [...models].filter((model) => model.repo === repo.repo);
    const beside = [...extra].filter((file) => repo.files.includes(file));
    if (own.length > 0 || beside.length > 0 || whole.has(repo.repo))
      removals.push(await planRepo(repo, own, beside, inventory, whole.has(repo.repo)));
  }
  const total = (key: 'freedBytes' | 'linkedBytes') => removals.reduce((sum, one) => sum + one[key], 0);
  return {
    removals, aliases: [...aliases].sort(), guessed, adopted: [...adopted].filter((model) => !models.has(model)), freedBytes: total('freedBytes'), linkedBytes: total('linkedBytes'),
  };
}

/** The models that are gone completely: a model named by its revision may have copies in others. */
function goingOf(all: readonly CachedModel[], chosen: Iterable<CachedModel>): CachedModel[] {
  const copies = new Set([...chosen].flatMap((model) => model.copies));
  const partials = new Set([...chosen].flatMap((model) => model.partials));
  return all.filter((model) => model.copies.every((copy) => copies.has(copy)) && model.partials.every((partial) => partials.has(partial)));
}

function throwing(error: Error): never {
  throw error;
}

/** Finds a model by a path in the cache. Files elsewhere are left to their owner. */
async function byPath({ models, places }: Inventory, name: string): Promise<CachedModel | undefined> {
  const path = resolve(name);
  const found = models.find((model) => model.copies.some((copy) => copy.path === path));
  if (!found && (await lstat(path).catch(() => undefined))?.isFile()) {
    throw new RecuaError('invalid_usage', `${path} is no model of the store ${places.hub}. recua rm only removes models from the store; delete the file yourself.`);
  }
  return found;
}

async function planRepo(
  repo: CachedRepo,
  models: readonly CachedModel[],
  beside: readonly SnapshotFile[],
  { models: all }: Inventory,
  whole: boolean,
): Promise<RepoRemoval> {
  const going = new Set(goingOf(all, models));
  const staying = all.filter((model) => model.repo === repo.repo && !going.has(model));
  // Sidecars are deleted with the last model that they accompany.
  const sidecars = staying.length === 0 && (models.length > 0 || whole) ? sidecarsOf(repo) : beside;
  const entries = [...new Set([...models.flatMap((model) => model.copies), ...sidecars])];
  const etags = new Set(models.flatMap((model) => model.partials.map((partial) => partial.etag)));
  // Also delete the partial download that a pull --force of a complete model left.
  const names = new Set(models.filter((model) => model.revision === undefined).flatMap((model) => model.copies.map((copy) => copy.file)));
  const partials = repo.partials.filter(
    (partial) =>
      etags.has(partial.etag) ||
      (partial.file !== undefined && names.has(partial.file)) ||
      (staying.length === 0 && (whole || isSidecarPartial(partial))),
  );
  const resting = partials.filter((partial) => !partial.foreign || Date.now() - partial.changedMs > foreignRestMs);
  return await planEntries(repo, entries, { models, partials: resting, orphans: whole && staying.length === 0 });
}

/**
 * Plans the removal of some of a repository's files; `orphans` are unreferenced blobs, to delete
 * with the last of them.
 */
export async function planEntries(
  repo: CachedRepo, entries: readonly SnapshotFile[], { models, partials, orphans }: Pick<RepoRemoval, 'models' | 'partials'> & { orphans: boolean },
): Promise<RepoRemoval> {
  const remaining = repo.files.filter((file) => !entries.includes(file));
  const blobs = (await blobsOf(repo))
    .filter(
      (blob) =>
        !remaining.some((file) => refersTo(file, blob)) &&
        (entries.some((file) => refersTo(file, blob)) || (orphans && remaining.length === 0)),
    )
    .map((blob) => blob.path);
  const contents = entries.filter((file) => file.kind === 'plain').map((file) => file.path);
  return {
    repo,
    models,
    entries,
    partials,
    blobs,
    ...(await spaceOf([...blobs, ...contents, ...partials.map((one) => one.places.bytes)])),
    staying: remaining.length,
  };
}

function isSidecarPartial(partial: PartialDownload): boolean {
  return partial.file !== undefined && isGgufFile(partial.file) && isSidecar(partial.file);
}

interface Blob {
  path: string;
  inode: string;
}

/** Complete contents in the blobs folder: a file with an extension is work in progress. */
async function blobsOf(repo: CachedRepo): Promise<Blob[]> {
  const folder = join(repo.folder, 'blobs');
  const names = (await readdir(folder).catch(() => [])).filter((name) => !name.includes('.'));
  return await Promise.all(names.map(async (name) => {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    return { path, inode: found ? `${found.dev}:${found.ino}` : '' };
  }));
}

function refersTo(file: SnapshotFile, blob: Blob): boolean {
  return resolve(file.target) === blob.path || (file.inode !== '' && file.inode === blob.inode);
}

/** Contents are freed when their last name is deleted. */
async function spaceOf(paths: readonly string[]): Promise<Pick<RepoRemoval, 'freedBytes' | 'linkedBytes'>> {
  const contents = new Map<string, { links: number; going: number; bytes: number }>();
  for (const path of paths) {
    const found = await lstat(path).catch(() => undefined);
    if (!found?.isFile()) continue;
    const key = `${found.dev}:${found.ino}`;
    // A sparse file takes less space than its length.
    const bytes = found.blocks > 0 ? Math.min(found.size, found.blocks * 512) : process.platform === 'win32' ? found.size : 0;
    contents.set(key, { links: found.nlink, bytes, going: (contents.get(key)?.going ?? 0) + 1 });
  }
  const sum = (linked: boolean) =>
    [...contents.values()].filter(({ links, going }) => going < links === linked).reduce((total, { bytes }) => total + bytes, 0);
  return { freedBytes: sum(false), linkedBytes: sum(true) };
}

/** Throws `store_unwritable` if the plan leads out of the store. */
export async function checkRemoval({ removals }: Pick<RemovalPlan, 'removals'>, { places }: Inventory): Promise<void> {
  for (const { repo, entries, blobs } of removals) {
    await checkFolder(places.hub, repo.folder);
    for (const path of [...entries.map((entry) => entry.path), ...blobs]) await checkInside(repo.folder, path);
  }
}

/** Carries out the plan. Throws `store_unwritable` if something cannot be deleted. */
export async function carryOut(plan: Pick<RemovalPlan, 'removals' | 'aliases'>, inventory: Inventory): Promise<void> {
  const { places, models } = inventory;
  // Check everything first, so that a refused removal changes nothing.
  await checkRemoval(plan, inventory);
  for (const removal of plan.removals) {
    for (const partial of removal.partials) await removePartial(removal.repo, partial);
    for (const entry of removal.entries) await removeFile(removal.repo.folder, entry.path);
    // Another snapshot may have started to use a blob since the plan was made.
    const now = await scanRepo(removal.repo.repo, removal.repo.folder);
    for (const blob of await blobsOf(removal.repo)) {
      if (removal.blobs.includes(blob.path) && !now.files.some((file) => refersTo(file, blob)))
        await removeFile(removal.repo.folder, blob.path);
    }
    await sweep(removal.repo.folder);
    await pruneFolder(removal.repo.folder, removal.entries.map((entry) => entry.commit));
  }
  const removed = goingOf(models, plan.removals.flatMap((removal) => removal.models));
  for (const model of removed) await forgetUsage(places, usageKey(model));
  await removeAliases(
    places,
    (name, target) => plan.aliases.includes(name) || removed.some((model) => model.repo === target.repo && model.file === target.file),
  );
}

/** Refuses a folder that is a link: its contents are outside the store. */
async function checkFolder(hub: string, folder: string): Promise<void> {
  const found = await lstat(folder).catch(() => undefined);
  if (found && (!found.isDirectory() || dirname(resolve(folder)) !== resolve(hub))) {
    throw new RecuaError('store_unwritable', `${folder} is a link to a place outside the model store, where Recua deletes nothing. Delete the link or its target yourself.`);
  }
}

async function checkInside(folder: string, path: string): Promise<void> {
  const [home, parent] = await Promise.all([folder, dirname(path)].map((one) => realpath(one).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw unwritable(path, cause);
  })));
  // Without a folder there is nothing to delete.
  if (home === undefined || parent === undefined) return;
  if (parent !== home && !parent.startsWith(home + sep)) {
    throw new RecuaError('store_unwritable', `${path} lies outside the model store, in ${parent}, where Recua deletes nothing. Delete it yourself.`);
  }
}

/**
 * Deletes one name, never the target of a link. Refuses a name that folder links redirect outside
 * its repository.
 */
async function removeFile(folder: string, path: string): Promise<void> {
  try {
    await checkInside(folder, path);
    await unlink(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw unwritable(path, cause);
  }
}

/** Ends a running download, then deletes its leftovers. */
async function removePartial(repo: CachedRepo, { places, foreign, file, etag }: PartialDownload): Promise<void> {
  if (foreign) {
    await removeFile(repo.folder, places.bytes);
    return;
  }
  const name = `${repo.repo}/${file ?? etag}`;
  const take = async () => await tryLock(places.lock).catch((cause: unknown) => throwing(unwritable(places.lock, cause)));
  let lock = await take().catch(async (thrown: unknown) => {
    // On a full disk no process can create a lock, and removing something is the way out.
    if (!(thrown instanceof RecuaError && thrown.code === 'disk_full') || await lockHolder(places.lock)) throw thrown;
    await removeFile(repo.folder, places.bytes);
    return await take();
  });
  if (!lock) {
    // Create it anew, for a fresh time, and without following a link in its place.
    await removeFile(repo.folder, places.cancel);
    await writeFile(places.cancel, '', { flag: 'wx' }).catch((cause: unknown) => throwing(unwritable(places.cancel, cause)));
    const end = performance.now() + patienceMs;
    while (!lock && performance.now() < end) {
      await wait(50);
      lock = await take();
    }
    // Pulls that waited to resume the same download check for the file as often as the one that
    // ran.
    if (lock) await wait(noticeMs);
  }
  try {
    if (!lock) {
      const holder = await lockHolder(places.lock);
      throw new RecuaError('store_unwritable', `The pull of ${name}${holder ? ` by process ${holder.pid}` : ''} did not end within ${patienceMs / 1000} seconds. End it yourself, then try again.`);
    }
    for (const path of [places.bytes, places.journal, `${places.journal}.new`]) await removeFile(repo.folder, path);
  } finally {
    await removeFile(repo.folder, places.cancel);
    await lock?.release();
  }
}

/**
 * Leftovers of killed imports and pulls beside blobs: drafts, stop requests, and unheld locks with
 * their drafts.
 */
async function sweep(folder: string): Promise<void> {
  const blobs = join(folder, 'blobs');
  for (const name of await readdir(blobs).catch(() => [])) {
    const left = /^([^.]+)\.recua-(import|cancel|lock(\.[0-9a-f-]+)?|partial\.json\.new)$/.exec(name);
    if (!left || !await isFree(partialPlaces(join(blobs, left[1]!)).lock)) continue;
    // A process may be about to turn it into a lock.
    if (left[3] !== undefined && await isFresh(join(blobs, name))) continue;
    await removeFile(folder, join(blobs, name));
  }
}

async function isFresh(path: string): Promise<boolean> {
  return await lstat(path).then(({ mtimeMs }) => Date.now() - mtimeMs < freshMs, () => false);
}

/** Removes a repository's empty folders and refs. */
export async function pruneFolder(folder: string, commits: readonly string[]): Promise<void> {
  const empty = new Set<string>();
  for (const commit of new Set(commits)) {
    if (await removeEmpty(join(folder, 'snapshots', commit))) empty.add(commit);
  }
  const { refs } = await scanRepo('', folder);
  for (const [revision, commit] of refs) {
    if (empty.has(commit)) await removeFile(folder, join(folder, 'refs', ...revision.split('/')));
  }
  for (const part of ['snapshots', 'refs', 'blobs']) await removeEmpty(join(folder, part));
  const left = await readdir(folder).catch(() => []);
  // Python's empty markers of files that the hub does not have.
  if (left.length === 1 && left[0] === '.no_exist') await removeMarks(join(folder, '.no_exist'));
  await rmdir(folder).catch(() => { /* Something is left in it. */ });
}

/** Removes a folder that holds only empty folders; false if it stays. */
async function removeEmpty(folder: string): Promise<boolean> {
  if (await isLink(folder)) return false;
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    if (entry.isDirectory()) await removeEmpty(join(folder, entry.name));
  }
  return await rmdir(folder).then(() => true, (error: NodeJS.ErrnoException) => error.code === 'ENOENT');
}

/** What a link leads to is not the store's. */
async function isLink(path: string): Promise<boolean> {
  return await lstat(path).then((found) => found.isSymbolicLink(), () => false);
}

async function removeMarks(folder: string): Promise<void> {
  if (await isLink(folder)) return;
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && (await lstat(path)).size === 0) await unlink(path);
  }
  await removeEmpty(folder);
}
