// The journal of a download that is not whole, as it lies beside the bytes, and what else is there
// of such a download. It is written by partial-file.ts; here it is read, by pulls and by those who
// only look. Nothing in it is trusted.
import { lstat, rename, rm } from 'node:fs/promises';
import { readSmallFile } from '../../system/small-file.js';
import { partialPlaces } from '../cache/hub-cache.js';

/** The form on disk. */
export interface Journal {
  file: string;
  revision: string;
  commit: string;
  size_bytes: number;
  done_bytes: number;
  chunk_bytes: number;
  /** sha256 of each chunk that is whole, null for the others. */
  chunks: (string | null)[];
  /**
   * How far the others have come: that many bytes from the chunk's beginning on, and their sha256.
   */
  begun: BegunChunk[];
}

export interface BegunChunk {
  chunk: number;
  bytes: number;
  sha256: string;
}

/** The journal is written again and again, so it must not grow without end. */
export const mostChunks = 4096;
/** Of one with all its chunks, and room to spare. */
export const mostJournalBytes = 1024 * 1024;
/** Nobody writes on a file of huggingface_hub's that has been left alone for so long. */
const abandonedMs = 60_000;

/**
 * What a file of so many bytes has for a journal; undefined where that is none, or not a sound one.
 */
export async function readJournal(blob: string, sizeBytes: number): Promise<Journal | undefined> {
  try {
    const journal = JSON.parse(await readSmallFile(partialPlaces(blob).journal, mostJournalBytes)) as Journal;
    return isSound(journal, sizeBytes) ? journal : undefined;
  } catch {
    return undefined;
  }
}

function isSound({ size_bytes: size, chunk_bytes: chunkBytes, chunks, begun }: Journal, sizeBytes: number): boolean {
  const isHash = (hash: unknown) => typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash);
  return size === sizeBytes && Number.isSafeInteger(chunkBytes) && chunkBytes > 0
    && chunks.length === Math.ceil(sizeBytes / chunkBytes) && chunks.length <= mostChunks && chunks.every((hash) => hash === null || isHash(hash))
    && begun.every(({ chunk, bytes, sha256 }) => chunks[chunk] === null && Number.isSafeInteger(bytes) && bytes > 0 && bytes < chunkBytes && isHash(sha256));
}

/**
 * How many bytes of a blob another process, or an earlier one, has noted; undefined where no
 * download is begun.
 */
export async function notedBytes(blob: string): Promise<number | undefined> {
  try {
    const { done_bytes: done } = JSON.parse(await readSmallFile(partialPlaces(blob).journal, mostJournalBytes)) as Partial<Journal>;
    return typeof done === 'number' && done >= 0 ? done : undefined;
  } catch {
    return undefined;
  }
}

/** Removes what there is of a blob's download. */
export async function removePartial(blob: string): Promise<void> {
  const { bytes, journal } = partialPlaces(blob);
  for (const path of [bytes, journal, `${journal}.new`]) await rm(path, { force: true });
}

/** Takes over a file that Python's huggingface_hub began and left. */
export async function adoptForeign(blob: string, sizeBytes: number): Promise<boolean> {
  const theirs = `${blob}.incomplete`;
  const found = await lstat(theirs).catch(() => undefined);
  if (!found?.isFile() || found.size === 0 || found.size > sizeBytes || Date.now() - found.mtimeMs < abandonedMs) return false;
  return await rename(theirs, partialPlaces(blob).bytes).then(() => true, () => false);
}
