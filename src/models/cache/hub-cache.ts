// The hub's cache on disk, as Python's huggingface_hub lays it out: `models--owner--repo/` with
// `blobs/<etag>` (contents), `snapshots/<commit>/<file>` (a link to its blob) and `refs/<revision>`
// (a commit). This file knows the places and how to enter a file; hub-scan.ts reads what is there.
// Called by downloads, imports and the store, in the command's process.
import { randomUUID } from 'node:crypto';
import { link, lstat, mkdir, readlink, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { RecuaError } from '../../errors.js';
import { readSmallFile } from '../../system/small-file.js';
import { checkCommit, checkEtag, checkRepo, checkRepoFile, checkRevision } from '../names/safe-names.js';

export interface CacheEntry {
  repo: string;
  /** Branch, tag or commit it was asked for by. */
  revision: string;
  commit: string;
  /** Path inside the repository. */
  file: string;
  etag: string;
}

/** What a download keeps beside the blob it is going to be. */
export interface PartialPlaces {
  bytes: string;
  journal: string;
  lock: string;
  /** Whoever wants a running download to end creates it. */
  cancel: string;
}

/** Of files that are not yet under the name they are wanted by. */
export const draftEnding = '.recua-draft';

export function repoFolder(hub: string, repo: string): string {
  return join(hub, ['models', ...checkRepo(repo)].join('--'));
}

/** The repository a folder of the cache is for; undefined for any other folder. */
export function repoOfFolder(name: string): string | undefined {
  const parts = name.split('--');
  return parts[0] === 'models' && parts.length >= 2 && parts.length <= 3 && !parts.includes('') ? parts.slice(1).join('/') : undefined;
}

export function blobPath(hub: string, repo: string, etag: string): string {
  return join(repoFolder(hub, repo), 'blobs', checkEtag(etag));
}

export function snapshotPath(hub: string, repo: string, commit: string, file: string): string {
  return join(repoFolder(hub, repo), 'snapshots', checkCommit(commit), ...checkRepoFile(file));
}

export function partialPlaces(blob: string): PartialPlaces {
  return { bytes: `${blob}.recua-partial`, journal: `${blob}.recua-partial.json`, lock: `${blob}.recua-lock`, cancel: `${blob}.recua-cancel` };
}

/** How a snapshot gets its file; tests give one that a system without symlink rights has. */
type LinkMaker = (target: string, path: string) => Promise<void>;

/**
 * Enters a blob that lies in its place as a file of its repository: the snapshot's link first, then
 * the ref that leads to it, each at once or not at all. May be called again, and by several
 * processes. Resolves to the path in the snapshot.
 */
export async function publishBlob(hub: string, entry: CacheEntry, makeLink: LinkMaker = symlink): Promise<string> {
  const { repo, revision, commit, file, etag } = entry;
  const blob = blobPath(hub, repo, etag);
  const path = snapshotPath(hub, repo, commit, file);
  checkRevision(revision);
  for (let attempt = 1; ; attempt++) {
    await makeFolder(hub, repo, dirname(path));
    try {
      await enter(blob, path, makeLink);
      break;
    } catch (error) {
      // A removal beside this may have taken the folder away while it was still empty.
      if (attempt === 3 || ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code !== 'ENOENT') throw error;
    }
  }
  await writeRef(hub, repo, revision, commit);
  return path;
}

/** A snapshot's file that is a link to a place outside the cache: what `import --symlink` makes. */
export async function publishLink(hub: string, entry: Omit<CacheEntry, 'etag'>, target: string): Promise<string> {
  const { repo, revision, commit, file } = entry;
  const path = snapshotPath(hub, repo, commit, file);
  checkRevision(revision);
  await makeFolder(hub, repo, dirname(path));
  if (await readlink(path).catch(() => undefined) !== target) {
    await replace(path, (draft) => symlink(target, draft)).catch((cause: unknown) => { throw unwritable(path, cause); });
  }
  await writeRef(hub, repo, revision, commit);
  return path;
}

/**
 * Creates a folder of a repository; refuses one that links inside the cache would put elsewhere.
 */
export async function makeFolder(hub: string, repo: string, folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (cause) {
    throw unwritable(folder, cause);
  }
  const home = await realpath(repoFolder(hub, repo));
  const real = await realpath(folder);
  if (real !== home && !real.startsWith(home + sep)) {
    throw new RecuaError('invalid_name', `Expected a folder inside ${home}, got ${folder}, which a link leads to ${real}. Remove that link.`);
  }
}

async function enter(blob: string, path: string, makeLink: LinkMaker): Promise<void> {
  const there = await lstat(path).catch(() => undefined);
  const contents = await lstat(blob).catch(() => undefined);
  if (!contents?.isFile()) {
    // Where nothing can be linked, the file was moved into the snapshot the first time.
    if (there?.isFile()) return;
    throw new RecuaError('file_unreadable', `Expected the contents of ${basename(path)} at ${blob}, but no file is there. Download it again.`);
  }
  const target = relative(dirname(path), blob);
  if (there?.isSymbolicLink() && await readlink(path) === target) return;
  if (there?.isFile() && there.ino === contents.ino && there.dev === contents.dev) return;
  try {
    await replace(path, async (draft) => {
      if (await worked(makeLink(target, draft))) return;
      if (await worked(link(blob, draft))) return;
      await rename(blob, draft);
    });
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** Makes a file under a name of its own, then gives it the one it is wanted by. */
async function replace(path: string, make: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(dirname(path), `.${randomUUID()}${draftEnding}`);
  try {
    await make(draft);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** False where the system or its rights do not allow a link. */
async function worked(making: Promise<void>): Promise<boolean> {
  try {
    await making;
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (['EPERM', 'EACCES', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL', 'EMLINK', 'UNKNOWN'].includes(code)) return false;
    throw error;
  }
}

/** A commit needs no ref: Python writes none either. */
async function writeRef(hub: string, repo: string, revision: string, commit: string): Promise<void> {
  if (revision === commit) return;
  const path = join(repoFolder(hub, repo), 'refs', ...checkRevision(revision));
  if (await readSmallFile(path, commit.length).catch(() => undefined) === commit) return;
  await makeFolder(hub, repo, dirname(path));
  await replace(path, (draft) => writeFile(draft, commit, { flag: 'wx' })).catch((cause: unknown) => { throw unwritable(path, cause); });
}

export function unwritable(path: string, cause: unknown): RecuaError {
  if (cause instanceof RecuaError) return cause;
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new RecuaError('disk_full', `There is no room left for ${path}. Free some space and try again.`, { cause });
  return new RecuaError('store_unwritable', `${path} cannot be written: ${message}. Expected a model store that you may write; SERVICE_HOME names another.`, { cause });
}
