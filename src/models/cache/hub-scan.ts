// Reads what is in the hub's cache, whichever program wrote it: every GGUF file of every snapshot,
// and incomplete downloads. Trusts nothing: links may be broken or lead anywhere, journals may be
// half written. Never follows a link to a folder.
import { open, readdir, readlink, stat } from 'node:fs/promises';
import type { Dirent } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { RecuaError, unreadable } from '../../errors.js';
import { lockHolder } from '../../system/lock-file.js';
import type { ProcessIdentity } from '../../system/process-identity.js';
import { readSmallFile } from '../../system/small-file.js';
import { draftEnding, partialPlaces, repoOfFolder } from './hub-cache.js';
import type { PartialPlaces } from './hub-cache.js';
import { mostJournalBytes } from '../download/partial-journal.js';

export interface SnapshotFile {
  /** Path inside the repository, with `/`. */
  file: string;
  commit: string;
  path: string;
  /**
   * 'blob': a link to a blob of the same repository. 'plain': the contents themselves. 'link': a
   * link to another place.
   */
  kind: 'blob' | 'plain' | 'link';
  /** The link's target; the path itself for a plain file. */
  target: string;
  sizeBytes: number;
  /** A broken link. */
  dangling: boolean;
  /** Identifies the contents, whatever the file is called; '' for a broken link. */
  inode: string;
  /** When the contents changed, in milliseconds since 1970. */
  changedMs: number;
}

export interface PartialDownload {
  repo: string;
  etag: string;
  /** Path inside the repository; undefined if unknown. */
  file: string | undefined;
  revision: string | undefined;
  sizeBytes: number | undefined;
  doneBytes: number;
  places: PartialPlaces;
  /** The process that downloads it now. */
  puller: ProcessIdentity | undefined;
  /** Begun by Python's huggingface_hub; Recua cannot resume it. */
  foreign: boolean;
  changedMs: number;
}

export interface CachedRepo {
  repo: string;
  folder: string;
  /** Revision → commit. */
  refs: ReadonlyMap<string, string>;
  /** Every file of every snapshot, including files that are not models. */
  files: readonly SnapshotFile[];
  partials: readonly PartialDownload[];
}

const ours = '.recua-partial';
const journalOfOurs = `${ours}.json`;
const theirs = '.incomplete';
/** Length of a commit and a line end. */
const longestRefBytes = 256;

/**
 * All repositories of the cache, by name; none if there is no cache. `instead` is asked for a
 * repository that cannot be read; if absent, the scan fails.
 * @throws RecuaError `file_unreadable`
 */
export async function scanHub(hub: string, instead?: (repo: string, thrown: unknown) => CachedRepo | undefined): Promise<CachedRepo[]> {
  const entries = await entriesOf(hub, { isRoot: true });
  const names = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink()).map((entry) => entry.name).sort();
  const repos: CachedRepo[] = [];
  for (const name of names) {
    const repo = repoOfFolder(name);
    if (repo === undefined) continue;
    const found = await scanRepo(repo, join(hub, name)).catch((thrown: unknown) => {
      if (!instead) throw thrown;
      return instead(repo, thrown);
    });
    if (found) repos.push(found);
  }
  return repos;
}

/**
 * For programs that go on for long: a scan that keeps what it last read of a repository, or of the
 * whole cache, while that cannot be read, and warns once of each reason.
 */
export function lastingScan(warn: (text: string) => void): (hub: string) => Promise<CachedRepo[]> {
  let last: readonly CachedRepo[] = [];
  let told: ReadonlySet<string> = new Set();
  return async (hub) => {
    const reasons = new Set<string>();
    const tell = (thrown: unknown): void => {
      const { message } = RecuaError.from(thrown);
      if (!told.has(message)) warn(`${message} What was known of its models stays in use.`);
      reasons.add(message);
    };
    const scanned = await scanHub(hub, (repo, thrown) => {
      tell(thrown);
      return last.find((one) => one.repo === repo);
    }).catch((thrown: unknown) => {
      tell(thrown);
      return [...last];
    });
    told = reasons;
    last = scanned;
    return scanned;
  };
}

export async function scanRepo(repo: string, folder: string): Promise<CachedRepo> {
  const [refs, files, partials] = await Promise.all([readRefs(join(folder, 'refs')), readSnapshots(folder), readPartials(repo, join(folder, 'blobs'))]);
  return { repo, folder, refs, files, partials };
}

/** A folder's entries; none if there is no folder, or, except for the root, something else. */
async function entriesOf(folder: string, { recursive = false, isRoot = false } = {}): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true, recursive });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || (code === 'ENOTDIR' && !isRoot)) return [];
    throw unreadable(`The model store's folder ${folder} cannot be read`, cause);
  }
}

async function readRefs(folder: string): Promise<Map<string, string>> {
  const refs = new Map<string, string>();
  for (const entry of await entriesOf(folder, { recursive: true })) {
    if (!entry.isFile() || entry.name.endsWith(draftEnding)) continue;
    const path = join(entry.parentPath, entry.name);
    const commit = (await readSmallFile(path, longestRefBytes).catch(() => '')).trim();
    if (commit !== '') refs.set(relative(folder, path).split(sep).join('/'), commit);
  }
  return refs;
}

async function readSnapshots(folder: string): Promise<SnapshotFile[]> {
  const snapshots = join(folder, 'snapshots');
  const files: SnapshotFile[] = [];
  for (const snapshot of await entriesOf(snapshots)) {
    if (!snapshot.isDirectory()) continue;
    const root = join(snapshots, snapshot.name);
    for (const entry of await entriesOf(root, { recursive: true })) {
      if (!entry.isFile() && !entry.isSymbolicLink()) continue;
      if (entry.name.endsWith(draftEnding)) continue;
      const path = join(entry.parentPath, entry.name);
      const found = await readSnapshotFile(folder, path, entry.isSymbolicLink());
      if (found) files.push({ ...found, path, commit: snapshot.name, file: relative(root, path).split(sep).join('/') });
    }
  }
  return files.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0));
}

async function readSnapshotFile(folder: string, path: string, isLink: boolean): Promise<Omit<SnapshotFile, 'path' | 'commit' | 'file'> | undefined> {
  const contents = await stat(path).catch(() => undefined);
  // A link to a folder does not belong to a model; its contents are not the store's.
  if (contents && !contents.isFile()) return undefined;
  const target = isLink ? await readlink(path).catch(() => undefined) : path;
  // Gone meanwhile, or its name is not UTF-8: no path leads to it.
  if (target === undefined || (!contents && !isLink)) return undefined;
  const facts = { sizeBytes: contents?.size ?? 0, dangling: contents === undefined, inode: contents ? `${contents.dev}:${contents.ino}` : '', changedMs: contents?.mtimeMs ?? 0 };
  if (!isLink) return { kind: 'plain', target, ...facts };
  const whole = resolve(dirname(path), target);
  return { kind: dirname(whole) === join(folder, 'blobs') ? 'blob' : 'link', target: whole, ...facts };
}

async function readPartials(repo: string, blobs: string): Promise<PartialDownload[]> {
  const names = (await entriesOf(blobs)).filter((entry) => entry.isFile()).map((entry) => entry.name);
  const etags = new Set(
    names.flatMap((name) =>
      [journalOfOurs, ours]
        .filter((ending) => name.endsWith(ending))
        .slice(0, 1)
        .map((ending) => name.slice(0, -ending.length)),
    ),
  );
  const partials: PartialDownload[] = [];
  for (const etag of etags) partials.push(await readPartial(repo, etag, partialPlaces(join(blobs, etag))));
  for (const name of names.filter((one) => one.endsWith(theirs))) {
    const path = join(blobs, name);
    if (await beginsLikeGguf(path)) partials.push(await readForeign(repo, name.slice(0, -theirs.length), path));
  }
  return partials;
}

async function readPartial(repo: string, etag: string, places: PartialPlaces): Promise<PartialDownload> {
  const journal = await readJournal(places.journal);
  const bytes = await stat(places.bytes).catch(() => undefined);
  const sizeBytes = countOf(journal['size_bytes']);
  const done = countOf(journal['done_bytes']);
  return {
    repo, etag, places, sizeBytes,
    file: typeof journal['file'] === 'string' ? journal['file'] : undefined,
    revision: typeof journal['revision'] === 'string' ? journal['revision'] : undefined,
    // The partial file may have its full length from the start, so its size says nothing.
    doneBytes: Math.min(done ?? 0, sizeBytes ?? Infinity),
    puller: await lockHolder(places.lock),
    foreign: false,
    changedMs: bytes?.mtimeMs ?? 0,
  };
}

async function readForeign(repo: string, etag: string, path: string): Promise<PartialDownload> {
  const found = await stat(path).catch(() => undefined);
  return {
    repo, etag, file: undefined, revision: undefined, sizeBytes: undefined, doneBytes: found?.size ?? 0, puller: undefined, foreign: true,
    places: { ...partialPlaces(path.slice(0, -theirs.length)), bytes: path }, changedMs: found?.mtimeMs ?? 0,
  };
}

async function readJournal(path: string): Promise<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(await readSmallFile(path, mostJournalBytes));
    return typeof value === 'object' && value !== null ? value as Record<string, unknown> : {};
  } catch {
    return {};
  }
}

function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

async function beginsLikeGguf(path: string): Promise<boolean> {
  try {
    const file = await open(path, 'r');
    try {
      const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
      return buffer.toString('latin1') === 'GGUF';
    } finally {
      await file.close();
    }
  } catch {
    return false;
  }
}

/**
 * The commit of a revision in the cache: a ref's commit, or a snapshot's by its hash or a prefix of
 * it.
 */
export function commitOf({ refs, files }: Pick<CachedRepo, 'refs' | 'files'>, revision: string): string | undefined {
  const named = refs.get(revision);
  if (named !== undefined) return named;
  if (!/^[0-9a-f]{4,40}$/i.test(revision)) return undefined;
  const commits = new Set(files.map((file) => file.commit).filter((commit) => commit.startsWith(revision.toLowerCase())));
  return commits.size === 1 ? [...commits][0] : undefined;
}

/** The etag of a file's blob; undefined if it has none. */
export function etagOf(file: SnapshotFile): string | undefined {
  return file.kind === 'blob' ? basename(file.target) : undefined;
}
