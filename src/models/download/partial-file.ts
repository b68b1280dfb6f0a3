// The bytes of an incomplete download, and a journal of which are valid. Each chunk is written in
// place from its start. The journal, replaced atomically, records for each chunk how far it has
// come and the hash of those bytes, and only of bytes flushed to disk before. However the process
// or machine ends, the next pull reads the journal, hashes the bytes it claims, and continues after
// them. Used by download.ts under its lock.
import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { partialPlaces, unwritable } from '../cache/hub-cache.js';
import type { HubFile } from '../hub/hub.js';
import { adoptForeign, mostChunks, readJournal } from './partial-journal.js';
import type { Journal } from './partial-journal.js';

export interface PartialIdentity {
  revision: string;
  commit: string;
  file: HubFile;
}

/** Progress of one chunk. */
interface Chunk {
  /** Bytes written, from its start. */
  bytes: number;
  /** Hash of those bytes; undefined if there are none. */
  hash: Hash | undefined;
  /** Hash of the complete chunk. */
  sha256: string | null;
}

const smallestChunkBytes = 8 * 1024 * 1024;
const readBytes = 1024 * 1024;
/** The most that a killed pull loses: the time between two journals while bytes arrive. */
const noteMs = 1000;

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
  readonly #chunkBytes: number;
  #chunks: Chunk[];
  #saving: Promise<void> = Promise.resolve();
  /** A save that has not started yet, so it will cover everything recorded until then. */
  #nextSave: Promise<void> | undefined;
  /** Bytes were written that no journal has recorded. */
  #unnoted = false;
  /** Why the journal could not be written during the transfer; the next write throws it. */
  #fault: unknown;
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  private constructor(blob: string, identity: PartialIdentity, handle: FileHandle, chunkBytes: number) {
    this.#blob = blob;
    this.#identity = identity;
    this.#handle = handle;
    this.#chunkBytes = chunkBytes;
    this.#chunks = Array.from({ length: Math.ceil(identity.file.sizeBytes / chunkBytes) }, emptyChunk);
    this.#timer = setInterval(() => {
      if (this.#unnoted && this.#nextSave === undefined) this.#save().catch((thrown: unknown) => (this.#fault = thrown));
    }, noteMs);
    this.#timer.unref();
  }

  /**
   * Opens the partial file of a blob, or creates it. Calls `onChecked` with the bytes that it
   * hashed again.
   */
  static async open(
    blob: string,
    identity: PartialIdentity,
    onChecked: (bytes: number) => void,
    signal?: AbortSignal,
  ): Promise<PartialFile> {
    const { bytes } = partialPlaces(blob);
    const { sizeBytes } = identity.file;
    const known = await readJournal(blob, sizeBytes);
    const adopted = !known && (await adoptForeign(blob, sizeBytes));
    const partial = new PartialFile(blob, identity, await openBytes(bytes), known?.chunk_bytes ?? chunkBytesFor(sizeBytes));
    try {
      if (known) await partial.#goOn(known, onChecked, signal);
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
    return this.#chunks.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Indices of the incomplete chunks. */
  missing(): number[] {
    return this.#chunks.flatMap(({ sha256 }, index) => (sha256 === null ? [index] : []));
  }

  /** File offset of a chunk's next byte; its end, if it is complete. */
  nextOf(index: number): number {
    return this.#startOf(index) + this.#chunks[index]!.bytes;
  }

  endOf(index: number): number {
    return this.#startOf(index) + this.#lengthOf(index);
  }

  /** Writes the next bytes of a chunk, no more than fit into it. One call per chunk at a time. */
  async append(index: number, bytes: Buffer): Promise<void> {
    if (this.#fault !== undefined) throw this.#fault as Error;
    const chunk = this.#chunks[index]!;
    try {
      for (let at = 0; at < bytes.length;) {
        at += (await this.#handle.write(bytes, at, bytes.length - at, this.nextOf(index) + at)).bytesWritten;
      }
    } catch (cause) {
      throw unwritable(partialPlaces(this.#blob).bytes, cause);
    }
    chunk.hash = (chunk.hash ?? createHash('sha256')).update(bytes);
    chunk.bytes += bytes.length;
    this.#unnoted = true;
    if (chunk.bytes < this.#lengthOf(index)) return;
    finish(chunk);
    await this.#save();
  }

  /**
   * Hashes the recorded bytes on the disk and marks chunks that differ for download again. Resolves
   * to the number of those chunks.
   */
  async recheck(onChecked: (bytes: number) => void, signal?: AbortSignal): Promise<number> {
    let wrong = 0;
    for (const [index, chunk] of this.#chunks.entries()) {
      if (chunk.hash === undefined && chunk.sha256 === null) continue;
      const stated = chunk.sha256 ?? chunk.hash!.copy().digest('hex');
      const hash = await this.#hashOf(index, chunk.bytes, signal);
      if (hash?.copy().digest('hex') === stated) {
        onChecked(chunk.bytes);
        continue;
      }
      this.#chunks[index] = emptyChunk();
      wrong++;
    }
    if (wrong > 0) await this.#save();
    return wrong;
  }

  /** Marks everything for download again. */
  async reset(): Promise<void> {
    this.#chunks = this.#chunks.map(emptyChunk);
    await this.#handle.truncate(0);
    await this.#save();
  }

  /** Whether the whole file has the hub's hash. */
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

  /** Turns the partial file into its blob, replacing any that is there. */
  async install(): Promise<void> {
    const { bytes, journal } = partialPlaces(this.#blob);
    try {
      await this.#handle.sync();
      await this.close();
      await rename(bytes, this.#blob);
      await syncFolder(dirname(this.#blob));
      await rm(journal, { force: true });
    } catch (cause) {
      await this.close().catch(() => undefined);
      throw unwritable(this.#blob, cause);
    }
  }

  /**
   * Records what has arrived. If that fails, a kill loses up to a second of the download, no more.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    if (this.#unnoted) await this.#save().catch(() => undefined);
    await this.#saving.catch(() => undefined);
    await this.#handle.close();
  }

  #startOf(index: number): number {
    return index * this.#chunkBytes;
  }

  #lengthOf(index: number): number {
    return Math.min(this.#chunkBytes, this.sizeBytes - this.#startOf(index));
  }

  /** Restores chunks from a journal, if the disk agrees with it. */
  async #goOn({ chunks, begun }: Journal, onChecked: (bytes: number) => void, signal: AbortSignal | undefined): Promise<void> {
    const stated = new Map(begun.map(({ chunk, bytes, sha256 }) => [chunk, { bytes, sha256 }]));
    for (const [index, whole] of chunks.entries()) if (whole !== null) stated.set(index, { bytes: this.#lengthOf(index), sha256: whole });
    for (const [index, { bytes, sha256 }] of stated) {
      const hash = bytes > this.#lengthOf(index) ? undefined : await this.#hashOf(index, bytes, signal);
      if (hash?.copy().digest('hex') !== sha256) continue;
      this.#enter(index, bytes, hash);
      onChecked(bytes);
    }
  }

  /**
   * Adopts a prefix from a file of huggingface_hub; only the whole file's hash verifies it, at the
   * end.
   */
  async #takeOver(onChecked: (bytes: number) => void, signal: AbortSignal | undefined): Promise<void> {
    const { size } = await this.#handle.stat();
    for (const index of this.missing()) {
      const bytes = Math.min(size, this.endOf(index)) - this.#startOf(index);
      const hash = bytes > 0 ? await this.#hashOf(index, bytes, signal) : undefined;
      if (!hash) break;
      this.#enter(index, bytes, hash);
      onChecked(bytes);
    }
  }

  #enter(index: number, bytes: number, hash: Hash): void {
    const chunk = (this.#chunks[index] = { bytes, hash, sha256: null });
    if (bytes === this.#lengthOf(index)) finish(chunk);
  }

  /** Hash of a chunk's first bytes; undefined if the file is shorter. */
  async #hashOf(index: number, bytes: number, signal: AbortSignal | undefined): Promise<Hash | undefined> {
    const hash = createHash('sha256');
    const whole = await this.#readThrough(this.#startOf(index), bytes, signal, (piece) => hash.update(piece));
    return whole ? hash : undefined;
  }

  /** False if the file is shorter. */
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

  /** Chunks that finish during a save share the next one. */
  #save(): Promise<void> {
    this.#nextSave ??= this.#saving
      .catch(() => undefined)
      .then(() => {
        this.#nextSave = undefined;
        return (this.#saving = this.#writeJournal());
      });
    return this.#nextSave;
  }

  async #writeJournal(): Promise<void> {
    // Before the flush, so that the journal claims no bytes that arrive during it.
    this.#unnoted = false;
    const journal = this.#journal();
    const path = partialPlaces(this.#blob).journal;
    // A fixed name, so that repeated kills leave one file at most; only the lock's holder writes
    // it.
    const draft = `${path}.new`;
    try {
      await this.#handle.datasync();
      await rm(draft, { force: true });
      const handle = await open(draft, 'wx', 0o644);
      try {
        await handle.writeFile(JSON.stringify(journal));
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(draft, path);
    } catch (cause) {
      this.#unnoted = true;
      throw unwritable(path, cause);
    }
  }

  #journal(): Journal {
    const { file, revision, commit } = this.#identity;
    return {
      file: file.path,
      revision,
      commit,
      size_bytes: file.sizeBytes,
      done_bytes: this.doneBytes,
      chunk_bytes: this.#chunkBytes,
      chunks: this.#chunks.map(({ sha256 }) => sha256),
      begun: this.#chunks.flatMap(({ bytes, hash }, chunk) =>
        hash === undefined ? [] : [{ chunk, bytes, sha256: hash.copy().digest('hex') }],
      ),
    };
  }
}

function emptyChunk(): Chunk {
  return { bytes: 0, hash: undefined, sha256: null };
}

function finish(chunk: Chunk): void {
  chunk.sha256 = chunk.hash!.digest('hex');
  chunk.hash = undefined;
}

/** Never opens through a link, which would redirect the bytes. */
async function openBytes(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0), 0o644);
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** A rename is durable only when its folder is flushed; not every system can do that. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    await handle.sync().finally(() => handle.close());
  } catch {
    return;
  }
}
