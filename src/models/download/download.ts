// Downloads one file of the hub into the cache: once, however many pulls want it; from where the
// last one stopped; and installs it only if its hash is the hub's. Called by pull, in the command's
// process; a lock file makes other processes' pulls wait.
import { lstat, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { RecuaError } from '../../errors.js';
import { lockHolder, tryLock } from '../../system/lock-file.js';
import type { Lock } from '../../system/lock-file.js';
import { blobPath, makeFolder, partialPlaces, publishBlob, repoFolder, snapshotPath, unwritable } from '../cache/hub-cache.js';
import type { Hub, HubFile } from '../hub/hub.js';
import { PartialFile } from './partial-file.js';
import { notedBytes, removePartial } from './partial-journal.js';
import { pause, setbackWords } from '../hub/retry.js';
import type { RateLimit } from './rate-limit.js';
import { FileChanged, RemoteFile } from '../hub/remote-file.js';
import { transfer } from './transfer.js';

export interface DownloadTarget {
  /** The hub's cache folder. */
  cache: string;
  repo: string;
  revision: string;
  commit: string;
  file: HubFile;
}

export interface DownloadOptions {
  /** Download a file that is already there; the old one stays until the new one is verified. */
  force: boolean;
  connections: number;
  limit?: RateLimit | undefined;
  signal?: AbortSignal | undefined;
  /** Bytes of the file that are present. */
  onProgress: (doneBytes: number) => void;
  onPhase: (phase: DownloadPhase) => void;
  /** Called with news for the user. */
  onNote: (text: string) => void;
}

/** 'waiting' for another process that downloads the same file; 'checking' what is on the disk. */
export type DownloadPhase = 'waiting' | 'checking' | 'downloading';

const pollMs = 250;
/** How often wrong chunks are fetched again: a broken disk may return other bytes each time. */
const mostRepairs = 3;

/** Errors after which nothing is kept of what arrived. */
const wrongs: ReadonlySet<string> = new Set(['download_corrupt', 'download_changed', 'download_wrong_content']);
/** Final refusals of the hub: if it refused before the first byte, there is nothing to resume. */
const refusals: ReadonlySet<string> = new Set([
  'hub_token_missing', 'hub_token_refused', 'license_not_accepted', 'repository_not_found', 'revision_not_found', 'repository_file_not_found',
]);

/** Resolves to the file's path in the cache's snapshot. */
export async function download(hub: Hub, target: DownloadTarget, options: DownloadOptions): Promise<string> {
  const { cache, repo, file } = target;
  const blob = blobPath(cache, repo, file.etag);
  await makeFolder(cache, repo, repoFolder(cache, repo));
  await makeFolder(cache, repo, dirname(blob));
  const cancelling = watchForCancel(blob, target, options.signal);
  const signal = cancelling.signal;
  try {
    if (!options.force && await isComplete(target)) {
      await dropLeftovers(blob);
      return await publish(target);
    }
    const before = await inodeOf(blob);
    const lock = await takeTurn(blob, target, options, signal);
    let removed = false;
    try {
      // A file that another pull brought meanwhile is new enough for --force too.
      const isOld = options.force && await inodeOf(blob) === before;
      if (isOld || !await isComplete(target)) await fetchAndInstall(hub, blob, target, options, signal);
      else options.onProgress(file.sizeBytes);
      return await publish(target);
    } catch (thrown) {
      removed = thrown instanceof RecuaError && thrown.code === 'download_removed';
      throw thrown;
    } finally {
      await (removed ? removePartial(blob) : Promise.resolve()).finally(() => lock.release());
    }
  } finally {
    cancelling.stop();
  }
}

/** Whether the file is complete; its contents were checked when it was downloaded. */
async function isComplete({ cache, repo, commit, file }: DownloadTarget): Promise<boolean> {
  const sizes = await Promise.all([blobPath(cache, repo, file.etag), snapshotPath(cache, repo, commit, file.path)]
    .map((path) => lstat(path).then((found) => (found.isFile() ? found.size : -1), () => -1)));
  // Without symlink rights, the blob may have moved into its snapshot.
  return sizes[0] === file.sizeBytes || (sizes[0] === -1 && sizes[1] === file.sizeBytes);
}

/** Bytes of a file that need no download: all, those that a partial download recorded, or none. */
export async function storedBytes(target: DownloadTarget): Promise<number> {
  if (await isComplete(target)) return target.file.sizeBytes;
  return Math.min(target.file.sizeBytes, await notedBytes(blobPath(target.cache, target.repo, target.file.etag)) ?? 0);
}

async function publish({ cache, repo, revision, commit, file }: DownloadTarget): Promise<string> {
  return await publishBlob(cache, { repo, revision, commit, file: file.path, etag: file.etag });
}

/** Deletes the partial download of a complete file, left by an interrupted --force. */
async function dropLeftovers(blob: string): Promise<void> {
  if (await notedBytes(blob) === undefined) return;
  // In a store that only others may write, it stays and does no harm.
  const lock = await tryLock(partialPlaces(blob).lock).catch(() => undefined);
  if (!lock) return;
  await removePartial(blob);
  await lock.release();
}

/** Changes when the file is replaced; undefined if there is none. */
async function inodeOf(path: string): Promise<bigint | undefined> {
  return await lstat(path, { bigint: true }).then(({ ino, mtimeNs }) => ino ^ (mtimeNs << 64n), () => undefined);
}

/** Waits while another pull downloads the file, showing its progress. */
async function takeTurn(
  blob: string,
  target: DownloadTarget,
  options: DownloadOptions,
  signal: AbortSignal,
): Promise<Lock> {
  const { lock: path } = partialPlaces(blob);
  let seenBegun = false;
  for (let waited = false; ; waited = true) {
    signal.throwIfAborted();
    const lock = await tryLock(path).catch((cause: unknown) => {
      throw unwritable(path, cause);
    });
    if (lock) {
      if (seenBegun && (await notedBytes(blob)) === undefined && !(await isComplete(target))) {
        await lock.release();
        throw new RecuaError(
          'download_removed',
          `${target.file.path} of ${target.repo} was downloaded by another recua, which gave it up or was told to by recua rm. Pull it again if you want it.`,
        );
      }
      return lock;
    }
    if (!waited) {
      options.onPhase('waiting');
      const holder = await lockHolder(path);
      options.onNote(`Another recua${holder ? ` (process ${holder.pid})` : ''} downloads ${target.file.path}; waiting for it.`);
    }
    const done = await notedBytes(blob);
    seenBegun ||= done !== undefined;
    if (done !== undefined) options.onProgress(done);
    await pause(pollMs, signal);
  }
}

async function fetchAndInstall(
  hub: Hub,
  blob: string,
  target: DownloadTarget,
  options: DownloadOptions,
  signal: AbortSignal,
): Promise<void> {
  const { repo, revision, commit, file } = target;
  const remote = new RemoteFile({
    hub,
    repo,
    commit,
    file,
    onSetback: (what, waitMs) => options.onNote(setbackWords(what, waitMs)),
  });
  let checked = 0;
  const onChecked = (bytes: number) => options.onProgress((checked += bytes));
  options.onPhase('checking');
  const partial = await PartialFile.open(blob, { revision, commit, file }, onChecked, signal);
  let installed = false;
  try {
    await fetchRight(remote, partial, options, signal);
    installed = true;
    await partial.install();
  } catch (thrown) {
    if (thrown instanceof RecuaError && (wrongs.has(thrown.code) || (refusals.has(thrown.code) && partial.doneBytes === 0)))
      await removePartial(blob);
    throw thrown;
  } finally {
    if (!installed) await partial.close();
  }
}

/**
 * Downloads until all bytes are present and have the hub's hash. Refetches wrong bytes a few times,
 * the whole file at most once.
 */
async function fetchRight(remote: RemoteFile, partial: PartialFile, options: DownloadOptions, signal: AbortSignal): Promise<void> {
  let startedOver = false;
  let repairs = 0;
  for (;;) {
    let done = partial.doneBytes;
    options.onProgress(done);
    options.onPhase('downloading');
    try {
      await transfer(remote, partial, {
        connections: options.connections, limit: options.limit, signal, onBytes: (bytes) => options.onProgress(done += bytes),
      });
    } catch (thrown) {
      if (!(thrown instanceof FileChanged)) throw thrown;
      if (startedOver) throw changed(remote.file, thrown);
      startedOver = true;
      options.onNote(`${remote.file.path} changed during its download (${thrown.message}); starting over`);
      remote.reset();
      await partial.reset();
      continue;
    }
    options.onPhase('checking');
    if (await partial.isRight(() => undefined, signal)) return;
    // If the disk or an adopted file is at fault, only some chunks are wrong.
    if (repairs++ < mostRepairs && await partial.recheck(() => undefined, signal) > 0) continue;
    if (startedOver) throw corrupt(remote.file);
    startedOver = true;
    options.onNote(`${remote.file.path} does not have the hash that the hub states; downloading it once more`);
    remote.reset();
    await partial.reset();
  }
}

function changed(file: HubFile, cause: FileChanged): RecuaError {
  return new RecuaError('download_changed', `${file.path} changed during its download, twice: ${cause.message}. Nothing was installed; try again later.`, { cause });
}

function corrupt(file: HubFile): RecuaError {
  return new RecuaError('download_corrupt',
    `Expected ${file.hash} ${file.etag} for ${file.path}, as the hub states, got other bytes, twice. They were removed and nothing was installed; something between here and the hub changes them, perhaps a proxy.`);
}

/**
 * The signal of one download: aborts with the caller's signal, or when `recua rm` creates the
 * cancel file.
 */
function watchForCancel(
  blob: string,
  { repo, file }: DownloadTarget,
  outer: AbortSignal | undefined,
): { signal: AbortSignal; stop(): void } {
  const { cancel } = partialPlaces(blob);
  const controller = new AbortController();
  const startedMs = Date.now();
  const look = async () => {
    const found = await lstat(cancel).catch(() => undefined);
    // An older file was meant for another download. File times are a few milliseconds coarse.
    if (found && found.mtimeMs >= startedMs - 50) {
      controller.abort(new RecuaError('download_removed', `The download of ${file.path} of ${repo} was ended and removed, as by recua rm.`));
    } else if (found) {
      await rm(cancel, { force: true });
    }
  };
  const timer = setInterval(() => void look().catch(() => undefined), pollMs);
  timer.unref();
  return {
    signal: outer ? AbortSignal.any([outer, controller.signal]) : controller.signal,
    stop: () => clearInterval(timer),
  };
}
