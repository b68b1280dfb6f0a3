// The journal of an incomplete download, stored beside its bytes, and the download's other files.
// partial-file.ts writes it; this file reads it, for pulls and for commands that only look. Trusts
// nothing in it.
import { lstat, rename, rm } from 'node:fs/promises';
import { readSmallFile } from '../../system/small-file.js';
import { partialPlaces } from '../cache/hub-cache.js';

/** Version of the format. */
export interface Journal {
  file: string;
  revision: string;
  commit: string;
  size_bytes: number;
  done_bytes: number;
  chunk_bytes: number;
  /** sha256 of each complete chunk, null for the others. */
  chunks: (string | null)[];
  /** Progress of the other chunks: bytes from the chunk's start, and their sha256. */
  begun: BegunChunk[];
}

export interface BegunChunk {
  chunk: number;
  bytes: number;
  sha256: string;
}

/** The journal is rewritten often, so its size is limited. */
export const mostChunks = 4096;
/** Size of one with all its chunks, and room to spare. */
export const mostJournalBytes = 1024 * 1024;
/** A huggingface_hub file untouched for this long has no writer. */
const abandonedMs = 60_000;

/** The journal of a file of this size; undefined if there is none or it is invalid. */
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
  return (
    size === sizeBytes &&
    Number.isSafeInteger(chunkBytes) &&
    chunkBytes > 0 &&
    chunks.length === Math.ceil(sizeBytes / chunkBytes) &&
    chunks.length <= mostChunks &&
    chunks.every((hash) => hash === null || isHash(hash)) &&
    begun.every(
      ({ chunk, bytes, sha256 }) =>
        chunks[chunk] === null && Number.isSafeInteger(bytes) && bytes > 0 && bytes < chunkBytes && isHash(sha256),
    )
  );
}

/** How many bytes of a blob the journal records; undefined if no download has begun. */
export async function notedBytes(blob: string): Promise<number | undefined> {
  try {
    const { done_bytes: done } = JSON.parse(await readSmallFile(partialPlaces(blob).journal, mostJournalBytes)) as Partial<Journal>;
    return typeof done === 'number' && done >= 0 ? done : undefined;
  } catch {
    return undefined;
  }
}

/** Deletes the partial download of a blob. */
export async function removePartial(blob: string): Promise<void> {
  const { bytes, journal } = partialPlaces(blob);
  for (const path of [bytes, journal, `${journal}.new`]) await rm(path, { force: true });
}

/** Adopts a file that Python's huggingface_hub began and abandoned. */
export async function adoptForeign(blob: string, sizeBytes: number): Promise<boolean> {
  const theirs = `${blob}.incomplete`;
  const found = await lstat(theirs).catch(() => undefined);
  if (!found?.isFile() || found.size === 0 || found.size > sizeBytes || Date.now() - found.mtimeMs < abandonedMs) return false;
  return await rename(theirs, partialPlaces(blob).bytes).then(() => true, () => false);
}
