// The bytes of a download that are there, and a journal of which of them are right. Chunks are written in place at their offsets;
// each finished one is on the disk before the journal, replaced at once or not at all, has its hash. So whatever ends the process
// or the machine, the next pull reads the journal, hashes what it claims, and fetches the rest. Used by download.ts under its lock.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { partialPlaces, unwritable } from './hub-cache.js';
import type { HubFile } from './hub.js';

export interface PartialIdentity {
  revision: string;
  commit: string;
  file: HubFile;
}

/** The journal's form on disk. */
interface Journal {
  file: string;
  revision: string;
  commit: string;
  size_bytes: number;
  done_bytes: number;
  chunk_bytes: number;
  /** sha256 of each chunk, null for those to come. */
  chunks: (string | null)[];
}

const smallestChunkBytes = 8 * 1024 * 1024;
/** The journal is written once per chunk, so it must not grow without end. */
const mostChunks = 4096;
/** Nobody writes on a file of huggingface_hub's that has been left alone for so long. */
const abandonedMs = 60_000;
const readBytes = 1024 * 1024;

/** RECUA_TEST_CHUNK_BYTES is for tests, whose files are small. */
function chunkBytesFor(sizeBytes: number): number {
  let bytes = Number(process.env['RECUA_TEST_CHUNK_BYTES'] || smallestChunkBytes);
  while (sizeBytes / bytes > mostChunks) bytes *= 2;
  return bytes;
}

export class PartialFile {
  readonly #blob: string;
  readonly #identity: PartialIdentity;
  readonly #handle: FileHandle;
  #chunkBytes: number;
  #chunks: (string | null)[];
  #saving: Promise<void> = Promise.resolve();
  /** A save that has not begun and so will cover what is noted until then. */
  #nextSave: Promise<void> | undefined;

  private constructor(blob: string, identity: PartialIdentity, handle: FileHandle, chunkBytes: number, chunks: (string | null)[]) {
    this.#blob = blob;
    this.#identity = identity;
    this.#handle = handle;
    this.#chunkBytes = chunkBytes;
    this.#chunks = chunks;
  }

  /** Opens what is there of a blob, or begins it. `onChecked` is told of bytes whose hash was looked at again. */
  static async open(blob: string, identity: PartialIdentity, onChecked: (bytes: number) => void, signal?: AbortSignal): Promise<PartialFile> {
    const { bytes, journal } = partialPlaces(blob);
    const { sizeBytes } = identity.file;
    const known = await readJournal(journal, sizeBytes);
    const adopted = !known && await adopt(blob, sizeBytes);
    let handle: FileHandle;
    try {
      handle = await open(bytes, constants.O_RDWR | constants.O_CREAT, 0o644);
    } catch (cause) {
      throw unwritable(bytes, cause);
    }
    const chunkBytes = known?.chunk_bytes ?? chunkBytesFor(sizeBytes);
    const chunks = known?.chunks ?? new Array<string | null>(Math.ceil(sizeBytes / chunkBytes)).fill(null);
    const partial = new PartialFile(blob, identity, handle, chunkBytes, chunks);
    try {
      if (known) await partial.recheck(onChecked, signal);
      if (adopted) await partial.#takeOver(onChecked, signal);
      await partial.#save();
      return partial;
    } catch (thrown) {
      await partial.close();
      throw thrown;
    }
  }

  get sizeBytes(): number {
    return this.#identity.file.sizeBytes;
  }

  get doneBytes(): number {
    return this.#chunks.reduce((sum, hash, index) => sum + (hash === null ? 0 : this.lengthOf(index)), 0);
  }

  /** Indices of the chunks that are to come. */
  missing(): number[] {
    return this.#chunks.flatMap((hash, index) => (hash === null ? [index] : []));
  }

  startOf(index: number): number {
    return index * this.#chunkBytes;
  }

  lengthOf(index: number): number {
    return Math.min(this.#chunkBytes, this.sizeBytes - this.startOf(index));
  }

  async write(bytes: Buffer, offset: number): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) {
        at += (await this.#handle.write(bytes, at, bytes.length - at, offset + at)).bytesWritten;
      }
    } catch (cause) {
      throw unwritable(partialPlaces(this.#blob).bytes, cause);
    }
  }

  /** Notes a chunk whose bytes are all written; resolves when that survives anything. */
  async finish(index: number, sha256: string): Promise<void> {
    this.#chunks[index] = sha256;
    await this.#save();
  }

  /** Hashes the finished chunks as they are on the disk; those that differ are to come again. Resolves to how many those are. */
  async recheck(onChecked: (bytes: number) => void, signal?: AbortSignal): Promise<number> {
    let wrong = 0;
    for (const [index, hash] of this.#chunks.entries()) {
      if (hash === null || await this.#hashOf(index, signal) === hash) {
        if (hash !== null) onChecked(this.lengthOf(index));
        continue;
      }
      this.#chunks[index] = null;
      wrong++;
    }
    if (wrong > 0) await this.#save();
    return wrong;
  }

  /** Everything is to come again. */
  async reset(): Promise<void> {
    this.#chunks = this.#chunks.map(() => null);
    await this.#handle.truncate(0);
    await this.#save();
  }

  /** Whether the whole file has the hash that the hub states. */
  async isRight(onChecked: (bytes: number) => void, signal?: AbortSignal): Promise<boolean> {
    const { hash: kind, etag, sizeBytes } = this.#identity.file;
    const hash = createHash(kind === 'sha256' ? 'sha256' : 'sha1');
    if (kind === 'git-sha1') hash.update(`blob ${sizeBytes}\0`);
    if ((await this.#handle.stat()).size !== sizeBytes) return false;
    await this.#readThrough(0, sizeBytes, signal, (piece) => {
      hash.update(piece);
      onChecked(piece.length);
    });
    return hash.digest('hex') === etag;
  }

  /** Makes the bytes the blob they are, in place of any that is there. */
  async install(): Promise<void> {
    const { bytes, journal } = partialPlaces(this.#blob);
    try {
      await this.#handle.sync();
      await this.close();
      await rename(bytes, this.#blob);
      await syncFolder(dirname(this.#blob));
      await rm(journal, { force: true });
    } catch (cause) {
      throw unwritable(this.#blob, cause);
    }
  }

  async close(): Promise<void> {
    await this.#saving.catch(() => undefined);
    await this.#handle.close();
  }

  /** Files of huggingface_hub hold a prefix; what is in it is proved by the whole file's hash in the end. */
  async #takeOver(onChecked: (bytes: number) => void, signal: AbortSignal | undefined): Promise<void> {
    const { size } = await this.#handle.stat();
    for (const index of this.missing()) {
      if (this.startOf(index) + this.lengthOf(index) > size) break;
      this.#chunks[index] = await this.#hashOf(index, signal) ?? null;
      onChecked(this.lengthOf(index));
    }
  }

  async #hashOf(index: number, signal: AbortSignal | undefined): Promise<string | undefined> {
    const hash = createHash('sha256');
    const whole = await this.#readThrough(this.startOf(index), this.lengthOf(index), signal, (piece) => hash.update(piece));
    return whole ? hash.digest('hex') : undefined;
  }

  /** False where the file ends before. */
  async #readThrough(offset: number, length: number, signal: AbortSignal | undefined, take: (piece: Buffer) => void): Promise<boolean> {
    const buffer = Buffer.allocUnsafe(Math.min(readBytes, length));
    for (let at = 0; at < length;) {
      signal?.throwIfAborted();
      const { bytesRead } = await this.#handle.read(buffer, 0, Math.min(buffer.length, length - at), offset + at);
      if (bytesRead === 0) return false;
      take(buffer.subarray(0, bytesRead));
      at += bytesRead;
    }
    return true;
  }

  /** Chunks that finish while one save runs share the next. */
  #save(): Promise<void> {
    this.#nextSave ??= this.#saving.catch(() => undefined).then(() => {
      this.#nextSave = undefined;
      return (this.#saving = this.#writeJournal());
    });
    return this.#nextSave;
  }

  async #writeJournal(): Promise<void> {
    const { file, revision, commit } = this.#identity;
    const journal: Journal = {
      file: file.path, revision, commit, size_bytes: file.sizeBytes, done_bytes: this.doneBytes, chunk_bytes: this.#chunkBytes, chunks: [...this.#chunks],
    };
    const path = partialPlaces(this.#blob).journal;
    // One name, so that no number of kills leaves more than one; only who holds the lock writes it.
    const draft = `${path}.new`;
    try {
      await this.#handle.datasync();
      const handle = await open(draft, 'w', 0o644);
      try {
        await handle.writeFile(JSON.stringify(journal));
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(draft, path);
    } catch (cause) {
      throw unwritable(path, cause);
    }
  }
}

/** How many bytes of a blob another process, or an earlier one, has noted; undefined where no download is begun. */
export async function notedBytes(blob: string): Promise<number | undefined> {
  try {
    const { done_bytes: done } = JSON.parse(await readFile(partialPlaces(blob).journal, 'utf8')) as Partial<Journal>;
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

async function readJournal(path: string, sizeBytes: number): Promise<Journal | undefined> {
  try {
    const { chunk_bytes: chunkBytes, chunks, size_bytes: size, ...rest } = JSON.parse(await readFile(path, 'utf8')) as Journal;
    const sound = size === sizeBytes && Number.isSafeInteger(chunkBytes) && chunkBytes > 0 && chunks.length === Math.ceil(sizeBytes / chunkBytes)
      && chunks.every((hash) => hash === null || /^[0-9a-f]{64}$/.test(hash));
    return sound ? { ...rest, chunk_bytes: chunkBytes, chunks, size_bytes: size } : undefined;
  } catch {
    return undefined;
  }
}

/** Takes over a file that Python's huggingface_hub began and left. */
async function adopt(blob: string, sizeBytes: number): Promise<boolean> {
  const theirs = `${blob}.incomplete`;
  const found = await stat(theirs).catch(() => undefined);
  if (!found?.isFile() || found.size === 0 || found.size > sizeBytes || Date.now() - found.mtimeMs < abandonedMs) return false;
  return await rename(theirs, partialPlaces(blob).bytes).then(() => true, () => false);
}

/** A rename is on the disk when its folder is; not every system lets one ask for that. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    await handle.sync().finally(() => handle.close());
  } catch {
    return;
  }
}
