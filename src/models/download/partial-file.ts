// The bytes of a download that are there, and a journal of which of them are right. Each chunk is
// written in place from its beginning on. The journal, replaced at once or not at all, has for each
// how far it has come and the hash of that, and only of bytes that were on the disk before it. So
// whatever ends the process or the machine, the next pull reads the journal, hashes what it claims,
// and goes on behind that. Used by download.ts under its lock.
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

/** How far one chunk has come. */
interface Chunk {
  /** Bytes that are written, from its beginning on. */
  bytes: number;
  /** Of those; undefined as long as there are none. */
  hash: Hash | undefined;
  /** Of a whole chunk. */
  sha256: string | null;
}

const smallestChunkBytes = 8 * 1024 * 1024;
const readBytes = 1024 * 1024;
/** What a killed pull loses at most: the time between two journals, while bytes arrive. */
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
  /** A save that has not begun and so will cover what is noted until then. */
  #nextSave: Promise<void> | undefined;
  /** Bytes were written that no journal knows of. */
  #unnoted = false;
  /** Why the journal could not be written beside the transfer, which the next write tells. */
  #fault: unknown;
  readonly #timer: NodeJS.Timeout;

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
   * Opens what is there of a blob, or begins it. `onChecked` is told of bytes whose hash was looked
   * at again.
   */
  static async open(blob: string, identity: PartialIdentity, onChecked: (bytes: number) => void, signal?: AbortSignal): Promise<PartialFile> {
    const { bytes } = partialPlaces(blob);
    const { sizeBytes } = identity.file;
    const known = await readJournal(blob, sizeBytes);
    const adopted = !known && await adoptForeign(blob, sizeBytes);
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

  /** Indices of the chunks that are not whole. */
  missing(): number[] {
    return this.#chunks.flatMap(({ sha256 }, index) => (sha256 === null ? [index] : []));
  }

  /** Where the next byte of a chunk belongs in the file; its end, once it is whole. */
  nextOf(index: number): number {
    return this.#startOf(index) + this.#chunks[index]!.bytes;
  }

  endOf(index: number): number {
    return this.#startOf(index) + this.#lengthOf(index);
  }

  /**
   * Writes the bytes that come next in a chunk, no more than it has room for. One call per chunk at
   * a time.
   */
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
   * Hashes what is noted as it is on the disk; chunks that differ are to come again. Resolves to
   * how many those are.
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

  /** Everything is to come again. */
  async reset(): Promise<void> {
    this.#chunks = this.#chunks.map(emptyChunk);
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

  /**
   * Notes what has arrived. What keeps that from being written loses a second of the download, no
   * more.
   */
  async close(): Promise<void> {
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

  /** Takes from a journal what is on the disk as it says. */
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
   * Files of huggingface_hub hold a prefix; what is in it is proved by the whole file's hash in the
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
    const chunk = this.#chunks[index] = { bytes, hash, sha256: null };
    if (bytes === this.#lengthOf(index)) finish(chunk);
  }

  /** Of a chunk's first bytes; undefined where the file ends before. */
  async #hashOf(index: number, bytes: number, signal: AbortSignal | undefined): Promise<Hash | undefined> {
    const hash = createHash('sha256');
    const whole = await this.#readThrough(this.#startOf(index), bytes, signal, (piece) => hash.update(piece));
    return whole ? hash : undefined;
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
    // Before the bytes are flushed, so that it claims none of those that come meanwhile.
    this.#unnoted = false;
    const journal = this.#journal();
    const path = partialPlaces(this.#blob).journal;
    // One name, so that no number of kills leaves more than one; only who holds the lock writes it.
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
      file: file.path, revision, commit, size_bytes: file.sizeBytes, done_bytes: this.doneBytes, chunk_bytes: this.#chunkBytes,
      chunks: this.#chunks.map(({ sha256 }) => sha256),
      begun: this.#chunks.flatMap(({ bytes, hash }, chunk) => (hash === undefined ? [] : [{ chunk, bytes, sha256: hash.copy().digest('hex') }])),
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

/** Never through a link: it would lead the bytes elsewhere. */
async function openBytes(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0), 0o644);
  } catch (cause) {
    throw unwritable(path, cause);
  }
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
