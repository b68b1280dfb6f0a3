// Imports a GGUF file of this machine into the store: checks and hashes it, then links or copies it
// under its sha256, where a download of the same file would be. Called by `recua import`. An abort
// leaves nothing behind.
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import type { Stats } from 'node:fs';
import { constants, copyFile, link, lstat, open, realpath, rename, rm, stat, statfs } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RecuaError } from '../../errors.js';
import { waitForLock } from '../../system/lock-file.js';
import { addAlias, checkAlias, checkFree } from '../aliases.js';
import { isWhole } from './cached-models.js';
import type { CachedModel } from './cached-models.js';
import { blobPath, makeFolder, partialPlaces, publishBlob, publishLink, repoFolder, snapshotPath, unwritable } from './hub-cache.js';
import { etagOf, scanRepo } from './hub-scan.js';
import { aliasesOf, readInventory } from '../lookup.js';
import { hashOf } from './content-hash.js';
import type { Inventory } from '../lookup.js';
import { readModelFile } from '../gguf/model-file.js';
import { refuseSidecar } from './refused-sidecar.js';
import { stemOf } from '../names/model-names.js';
import type { Places } from '../places.js';
import { carryOut, planEntries, pruneFolder } from './removal.js';
import { checkRepo, storedNameOf } from '../names/safe-names.js';

/** How to bring in the contents; 'auto' links if possible, else copies. */
export type ImportMode = 'auto' | 'copy' | 'symlink';
/** What was done in the end. 'none': the contents were already there. */
export type ImportedBy = 'hard link' | 'copy' | 'copy-on-write copy' | 'symlink' | 'none';

export interface ImportRequest {
  path: string;
  mode: ImportMode;
  /** Target repository; '' makes `local/<stem>`. */
  repo: string;
  /** '' for none. */
  alias: string;
  /** Replaces another model of the same name, repairs the same one, and moves an alias. */
  force: boolean;
}

export interface Imported {
  model: CachedModel;
  by: ImportedBy;
  /** The model was already there, and is sound: at most the alias is new. */
  already: boolean;
  aliases: readonly string[];
}

export interface ImportWatch {
  signal: AbortSignal;
  progress(doing: 'checking' | 'copying', doneBytes: number, totalBytes: number): void;
}

/** A file being imported. */
interface Source {
  /** Absolute path with all links resolved. */
  path: string;
  /** Path inside the repository. */
  file: string;
  stat: Stats;
  etag: string;
}

/** Bytes that an import leaves free on the disk. */
const marginBytes = 64 * 1024 * 1024;

/**
 * Throws `invalid_gguf`, `alias_taken`, `disk_full`, `invalid_usage`, `cancelled` and what reading
 * a file throws.
 */
export async function importModel(places: Places, request: ImportRequest, watch: ImportWatch): Promise<Imported> {
  if (request.alias !== '') checkAlias(request.alias);
  const given = resolve(request.path);
  const model = await readModelFile(given);
  const files = model.parts.map(({ path }) => ({ given: path, file: storedNameOf(fileNameOf(path), model.parts.length) }));
  refuseSidecar(model, files[0]!.file);
  const repo = request.repo === '' ? `local/${slugOf(stemOf(files[0]!.file))}` : checkRepo(request.repo).join('/');
  const inventory = await readInventory(places);
  const target = { repo, file: files[0]!.file };
  const taken = inventory.aliases.get(request.alias);
  const namesSameSize = inventory.models.some(
    (one) => one.repo === taken?.repo && one.file === taken.file && one.sizeBytes === model.sizeBytes,
  );
  // Fail before reading gigabytes, unless the alias may turn out to name these very contents.
  if (!namesSameSize) checkAliasFree(inventory, request.alias, target, request.force);
  return request.mode === 'symlink'
    ? await importLinks(inventory, request, target, files, watch)
    : await importContents(inventory, request, target, files, watch);
}

async function importLinks(
  inventory: Inventory,
  { alias, force }: ImportRequest,
  target: Target,
  files: readonly NamedFile[],
  watch: ImportWatch,
): Promise<Imported> {
  const { places } = inventory;
  const { repo } = target;
  const commit = commitOfContents(files.map(({ given, file }) => `${file}\n${given}`));
  const before = inventory.models.find((model) => model.repo === repo && model.file === target.file);
  checkAliasFree(inventory, alias, target, force);
  const already = before !== undefined && await holds(before, await sourcesOf(files), watch, force).catch(failing(watch));
  if (!already) {
    refuseOther(before, force, files[0]!.given);
    await prepare(places.hub, repo);
    const revision = await revisionFor(places.hub, repo, commit, before);
    try {
      for (const { given, file } of files) await publishLink(places.hub, { repo, revision, commit, file }, given);
    } catch (error) {
      // A link without its reference would be listed.
      for (const { file } of files) await rm(snapshotPath(places.hub, repo, commit, file), { force: true }).catch(() => undefined);
      await pruneFolder(repoFolder(places.hub, repo), [commit]);
      throw error;
    }
    await dropOthers(inventory, repo, commit, before);
  }
  return await finish(places, alias, force, target, already ? 'none' : 'symlink', already);
}

async function importContents(
  inventory: Inventory,
  request: ImportRequest,
  wanted: Target,
  files: readonly NamedFile[],
  watch: ImportWatch,
): Promise<Imported> {
  const { hub } = inventory.places;
  const { repo } = wanted;
  const brought: string[] = [];
  await prepare(hub, repo);
  try {
    return await bring(inventory, request, wanted, files, watch, brought);
  } catch (error) {
    await dropUnpublished(hub, repo, brought);
    return failing(watch)(error);
  } finally {
    await pruneFolder(repoFolder(hub, repo), []);
  }
}

/** Collects in `brought` the etags that are new to the repository. */
async function bring(
  inventory: Inventory,
  { mode, alias, force, repo: named }: ImportRequest,
  wanted: Target,
  files: readonly NamedFile[],
  watch: ImportWatch,
  brought: string[],
): Promise<Imported> {
  const { places, models } = inventory;
  const { repo } = wanted;
  const found = await sourcesOf(files);
  const totalBytes = found.reduce((sum, source) => sum + source.stat.size, 0);
  // Contents that may be in the store already need no room.
  if (!models.some((model) => model.sizeBytes === totalBytes))
    await checkRoom(join(repoFolder(places.hub, repo), 'blobs'), found, mode, totalBytes);
  const sources = await hashAll(found, totalBytes, watch);
  const etags = sources.map((source) => source.etag);
  const same = named !== '' ? [] : models.filter(
    (model) => isWhole(model) && model.parts.length === etags.length && model.parts.every((part, i) => etagOf(part) === etags[i]),
  );
  const damaged: CachedModel[] = [];
  if (force) for (const model of same) if (!await holds(model, sources, watch, true)) damaged.push(model);
  const sound = same.filter((model) => !damaged.includes(model));
  const before = models.find((model) => model.repo === repo && model.file === wanted.file);
  const isThere = before && (same.includes(before) ? sound.includes(before) : await holds(before, sources, watch, force));
  const there = isThere ? before : sound[0] ?? same[0];
  checkAliasFree(inventory, alias, there ?? wanted, force);
  let by = 'none' as ImportedBy;
  const store = async (into: string, source: Source): Promise<boolean> => {
    const done = await storeBlob(places.hub, into, source, { mode, force }, watch);
    if (done !== 'none') by = done;
    return done !== 'none';
  };
  for (const model of damaged) for (const source of sources) await store(model.repo, source);
  if (there) return await finish(places, alias, force, there, by, true);
  refuseOther(before, force, files[0]!.given);
  for (const source of sources) if (await store(repo, source)) brought.push(source.etag);
  const commit = commitOfContents(sources.map(({ file, etag }) => `${file}\n${etag}`));
  const revision = await revisionFor(places.hub, repo, commit, before);
  for (const { file, etag } of sources) await publishBlob(places.hub, { repo, revision, commit, file, etag });
  await dropOthers(inventory, repo, commit, before);
  return await finish(places, alias, force, wanted, by, false);
}

interface Target {
  repo: string;
  file: string;
}

interface NamedFile {
  given: string;
  file: string;
}

function fileNameOf(path: string): string {
  const name = basename(path);
  return /\.gguf$/i.test(name) ? name : `${name}.gguf`;
}

/**
 * Makes a repository name from a file name: replaces invalid characters, also one that is cut, with
 * hyphens. A name may have 96 characters, and the name of the store's folder 240 bytes.
 */
function slugOf(stem: string): string {
  const text = Buffer.from(stem.normalize('NFC')).subarray(0, 200).toString();
  const slug = [...text.replace(/[^\p{L}\p{M}\p{N}._-]+/gu, '-').replace(/\.{2,}/g, '.').replace(/-{2,}/g, '-')].slice(0, 80).join('').replace(/^[^\p{L}\p{N}_]+|[.-]+$/gu, '');
  return slug === '' ? 'model' : slug;
}

/**
 * Replaces the commit for a file without a repository: the same contents under the same names give
 * the same value.
 */
function commitOfContents(lines: readonly string[]): string {
  return createHash('sha256').update(['recua import', ...lines].join('\n')).digest('hex').slice(0, 40);
}

/**
 * `main`, unless that ref leads to files that stay: they are the hub's, and other programs find
 * them through it.
 */
async function revisionFor(hub: string, repo: string, commit: string, before: CachedModel | undefined): Promise<string> {
  const { refs, files } = await scanRepo(repo, repoFolder(hub, repo));
  const going = new Set(before?.copies.map((copy) => copy.file));
  return files.some((file) => file.commit === refs.get('main') && !going.has(file.file)) ? commit : 'main';
}

function checkAliasFree({ aliases, models }: Inventory, alias: string, target: Target, force: boolean): void {
  if (alias === '') return;
  checkFree(aliases, alias, target, force);
  // The alias would win, and the repository's name would mean another model from then on.
  if (!force && alias !== target.repo && models.some((model) => model.repo === alias)) {
    throw new RecuaError('alias_taken', `${alias} is the name of a repository of the store already. Take another alias, or give --force to use this one.`);
  }
}

function refuseOther(before: CachedModel | undefined, force: boolean, given: string): void {
  if (!before || force || !isWhole(before)) return;
  throw new RecuaError('invalid_usage', `The store has another model ${before.repo}/${before.file}. Give ${given} another name with --name owner/repo, or replace that one with --force.`);
}

async function prepare(hub: string, repo: string): Promise<void> {
  const folder = repoFolder(hub, repo);
  await makeFolder(hub, repo, folder);
  await makeFolder(hub, repo, join(folder, 'blobs'));
}

async function sourcesOf(files: readonly NamedFile[]): Promise<Source[]> {
  return await Promise.all(files.map(async ({ given, file }) => {
    const path = await realpath(given);
    return { path, file, stat: await stat(path), etag: '' };
  }));
}

async function hashAll(sources: readonly Source[], totalBytes: number, { signal, progress }: ImportWatch): Promise<Source[]> {
  let done = 0;
  const hashed: Source[] = [];
  for (const source of sources) hashed.push({ ...source, etag: await hashOf(source.path, signal, (bytes) => progress('checking', done += bytes, totalBytes)) });
  return hashed;
}

const failing = ({ signal }: ImportWatch) => (cause: unknown): never => { throw signal.aborted ? stopped(cause) : cause; };
const stopped = (cause: unknown): RecuaError => new RecuaError('cancelled', 'Stopped; nothing was imported.', { cause });

/** A stored file that cannot be read is not the one that is imported. */
const unread = (signal: AbortSignal) => (): void => signal.throwIfAborted();

/**
 * Whether a model of the store has exactly these contents, in whatever form. Hashes files that
 * neither name nor inode identifies; with `doubts` also those whose name is their hash, since they
 * may be damaged.
 */
async function holds(model: CachedModel, sources: readonly Source[], { signal, progress }: ImportWatch, doubts: boolean): Promise<boolean> {
  if (!isWhole(model) || model.parts.length !== sources.length) return false;
  const unlike = sources.filter((source, i) => model.parts[i]!.inode !== `${source.stat.dev}:${source.stat.ino}`);
  if (sources.some((source, i) => model.parts[i]!.sizeBytes !== source.stat.size)) return false;
  const totalBytes = 2 * unlike.reduce((sum, source) => sum + source.stat.size, 0);
  let done = 0;
  const read = async (path: string) => await hashOf(path, signal, (bytes) => progress('checking', done += bytes, totalBytes));
  for (const source of unlike) {
    const part = model.parts[sources.indexOf(source)]!;
    const name = etagOf(part) ?? '';
    const theirs = !doubts && /^[0-9a-f]{64}$/.test(name) ? name : await read(part.path).catch(doubts ? unread(signal) : undefined);
    if (theirs !== (source.etag || await read(source.path))) return false;
  }
  return true;
}

/** Brings one file's contents into place, while no pull of the same contents runs. */
async function storeBlob(
  hub: string, repo: string, source: Source, { mode, force }: Pick<ImportRequest, 'mode' | 'force'>, watch: ImportWatch,
): Promise<ImportedBy> {
  const blob = blobPath(hub, repo, source.etag);
  const draft = `${blob}.recua-import`;
  const lock = await waitForLock(partialPlaces(blob).lock, watch.signal).catch((cause: unknown) => {
    throw watch.signal.aborted ? cause : unwritable(blob, cause);
  });
  try {
    const there = await lstat(blob).catch(() => undefined);
    if (there?.isFile() && there.size === source.stat.size && (!force || await hashOf(blob, watch.signal, () => undefined).catch(unread(watch.signal)) === source.etag)) return 'none';
    await rm(draft, { force: true });
    const by = mode === 'auto' && await linked(source.path, draft) ? 'hard link' : await copy(source, draft, watch);
    await checkUnchanged(source);
    watch.signal.throwIfAborted();
    await rename(draft, blob);
    return by;
  } catch (cause) {
    await rm(draft, { force: true });
    throw watch.signal.aborted ? cause : unwritable(blob, cause);
  } finally {
    await lock.release();
  }
}

async function linked(from: string, to: string): Promise<boolean> {
  return await link(from, to).then(() => true, () => false);
}

/** Copies a file, sharing its blocks with the source if the file system can. */
async function copy(source: Source, to: string, watch: ImportWatch): Promise<ImportedBy> {
  if (await cloned(source.path, to)) return 'copy-on-write copy';
  let done = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      done += chunk.length;
      watch.progress('copying', done, source.stat.size);
      next(null, chunk);
    },
  });
  await pipeline(createReadStream(source.path, { highWaterMark: 1 << 20 }), counter, createWriteStream(to, { highWaterMark: 1 << 20, flags: 'wx' }), { signal: watch.signal });
  const file = await open(to, 'r+');
  await file.sync().finally(() => file.close());
  return 'copy';
}

async function cloned(from: string, to: string): Promise<boolean> {
  const done = await copyFile(from, to, constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL).then(() => true, () => false);
  if (!done) await rm(to, { force: true });
  return done;
}

/** Checks the free space before any long work, unless the contents need none. */
async function checkRoom(folder: string, sources: readonly Source[], mode: ImportMode, totalBytes: number): Promise<void> {
  const room = await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => Infinity);
  if (room >= totalBytes + marginBytes) return;
  const [first] = sources;
  if (first === undefined) return;
  const probe = join(folder, `${randomUUID()}.recua-import`);
  const free = mode === 'auto' && await linked(first.path, probe) || await cloned(first.path, probe);
  await rm(probe, { force: true });
  if (free) return;
  throw new RecuaError('disk_full', `Expected room for the ${totalBytes} bytes of ${first.path} and ${marginBytes} more in ${folder}, which has ${room}. `
    + 'Free some space, or give --symlink to leave the file where it is.');
}

async function checkUnchanged({ path, stat: before }: Source): Promise<void> {
  const now = await stat(path).catch(() => undefined);
  if (now && now.size === before.size && now.mtimeMs === before.mtimeMs && now.ino === before.ino) return;
  throw new RecuaError('file_unreadable', `${path} changed while it was imported. Import it again when no program writes to it.`);
}

/** After a failure: deletes what was brought in and no snapshot needs, and folders made for it. */
async function dropUnpublished(hub: string, repo: string, brought: readonly string[]): Promise<void> {
  const folder = repoFolder(hub, repo);
  const needed = new Set((await scanRepo(repo, folder)).files.map((file) => etagOf(file)));
  for (const etag of brought) {
    if (!needed.has(etag)) await rm(blobPath(hub, repo, etag), { force: true });
  }
  await pruneFolder(folder, []);
}

/** Deletes what the name meant before, which no name reaches any more. */
async function dropOthers(inventory: Inventory, repo: string, commit: string, before: CachedModel | undefined): Promise<void> {
  if (!before) return;
  const names = new Set(before.copies.map((copy) => copy.file));
  const now = await scanRepo(repo, repoFolder(inventory.places.hub, repo));
  const old = now.files.filter((file) => names.has(file.file) && file.commit !== commit);
  await carryOut({ removals: [await planEntries(now, old, { models: [], partials: [], orphans: false })], aliases: [] }, inventory);
}

async function finish(
  places: Places,
  alias: string,
  force: boolean,
  { repo, file }: Target,
  by: ImportedBy,
  wasThere: boolean,
): Promise<Imported> {
  if (alias !== '') await addAlias(places, alias, { repo, file, ...(wasThere ? { adopted: true } : {}) }, force);
  const inventory = await readInventory(places);
  const model = inventory.models.find((one) => one.repo === repo && one.file === file);
  if (!model)
    throw new RecuaError('store_unwritable', `${repo}/${file} was removed from the store while it was imported. Import it again.`);
  return { model, by, already: wasThere && by === 'none', aliases: aliasesOf(model, inventory) };
}
