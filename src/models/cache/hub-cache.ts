// The hub's cache on disk, in the layout of Python's huggingface_hub: `models--owner--repo/` with
// `blobs/<etag>` (contents), `snapshots/<commit>/<file>` (a link to its blob) and `refs/<revision>`
// (a commit). This file knows the paths and adds files; hub-scan.ts reads what is there. Called by
// downloads, imports and the store, in the command's process.
import { randomUUID } from 'node:crypto';
import { link, lstat, readlink, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { RecuaError } from '../../errors.js';
import { createFolder } from '../../system/create-folder.js';
import { readSmallFile } from '../../system/small-file.js';
import { worked } from '../../system/without-links.js';
import { checkCommit, checkEtag, checkRepo, checkRepoFile, checkRevision } from '../names/safe-names.js';

export interface CacheEntry {
  repo: string;
  /** The requested branch, tag or commit. */
  revision: string;
  commit: string;
  /** Path inside the repository. */
  file: string;
  etag: string;
}

/** Files that a download keeps beside its future blob. */
export interface PartialPlaces {
  bytes: string;
  journal: string;
  lock: string;
  /** Created by a process that wants the running download to end. */
  cancel: string;
}

/** Suffix of files that do not have their final name yet. */
export const draftEnding = '.recua-draft';

export function repoFolder(hub: string, repo: string): string {
  return join(hub, ['models', ...checkRepo(repo)].join('--'));
}

/** The repository of a cache folder; undefined for any other folder. */
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

/**
 * How to put a file into a snapshot; tests replace it with that of a system without symlink rights.
 */
type LinkMaker = (target: string, path: string) => Promise<void>;

/**
 * Adds a blob to its repository as a file: first the snapshot's link, then the ref that leads to
 * it, each atomically. Safe to repeat, and to run in several processes. Resolves to the path in the
 * snapshot.
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
      // A concurrent removal may have deleted the folder while it was empty.
      if (attempt === 3 || ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code !== 'ENOENT') throw error;
    }
  }
  await writeRef(hub, repo, revision, commit);
  return path;
}

/**
 * Adds a file to a snapshot as a link to a place outside the cache, then the ref that leads to it,
 * as `publishBlob` does. Resolves to the path in the snapshot.
 */
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
 * Creates a folder of a repository. Refuses a folder that links in the cache would redirect
 * elsewhere.
 */
export async function makeFolder(hub: string, repo: string, folder: string): Promise<void> {
  try {
    await createFolder(folder);
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
    // On systems without links, the first call moved the file into the snapshot.
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
      // It is the only copy.
      return () => rename(draft, blob);
    });
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/**
 * Creates a file under a temporary name, then renames it. If that fails, `make` may return how to
 * undo its work; otherwise the temporary file is removed.
 */
async function replace(path: string, make: (draft: string) => Promise<(() => Promise<void>) | void>): Promise<void> {
  const draft = join(dirname(path), `.${randomUUID()}${draftEnding}`);
  let undo: (() => Promise<void>) | void = undefined;
  try {
    undo = await make(draft);
    await rename(draft, path);
  } catch (error) {
    await (undo ? undo() : rm(draft, { force: true }));
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
