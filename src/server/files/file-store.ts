// Files that clients upload and that batches write: the bytes, and a small file of metadata, which
// is written last. Private to the user; several servers may share the folder.
import { randomBytes } from 'node:crypto';
import { rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../../errors.js';
import { SharedReading } from '../../system/shared-reading.js';
import { NotRegular, openRegular, readSmallFile } from '../../system/small-file.js';
import { rounds } from '../body/rounds.js';
import type { Gateway } from '../http/gateway.js';
import { DamagedFiles, isDamage } from '../kept/damaged-files.js';
import { keepingError, namesIn, type KeptFolder } from '../kept/kept-folder.js';
import { keyIn } from '../kept/key-in.js';
import type { Owner } from '../kept/owner.js';
import { add, nothing, sum, type Amount, type Amounts } from './amounts.js';
import { resultsIn } from './batch-results.js';
import {
  described, describedAmong, hasExpired, isFileId, nowSeconds, parseDescribed, shown, unlistedIn,
  type Described, type FileObject, type Owned,
} from './described-file.js';

export type { FileObject };

/** Metadata that is known when a file is created. */
type About = Pick<FileObject, 'filename' | 'purpose' | 'expires_at'> & { by: string | undefined };

/** Ending of an incomplete upload. */
const arriving = '.part';
/** A description that write-file-atomic left half-written. */
const temporary = /^file-[0-9a-f]{48}\.json\.\d+$/;
const mostDescriptionBytes = 64 * 1024;
/** What is unfinished and without new bytes for this long was left by a server that has ended. */
const abandonedMs = 3_600_000;

export const fileBounds = { files: 10_000, bytes: 16 * 2 ** 30, fileBytes: 2 ** 29 };
/** Part of all files and bytes that one API key may have, so that others find room. */
const shareOfKey = 0.5;
const piecesOfAll = 256;

/** The space reserved for one upload, or for a piece of a batch's results. */
export interface Room {
  bytes: number;
  /** Ends the reservation: the bytes are on the disk or deleted. */
  release(): void;
}

/** The store has reached a limit of its own: unlike a full disk, that does not pass by itself. */
export class StoreFull extends RecuaError {
  constructor(message: string) {
    super('disk_full', message);
  }
}

/** A reservation that waits. */
interface Asked {
  by: string | undefined;
  mostBytes: number;
  resolve(room: Room): void;
  reject(thrown: unknown): void;
}

/** What counts for reservations: on the disk in all and of each key, and reserved. */
interface Counted {
  held: Amount;
  ofKeys: Amounts;
  promised: Amounts;
}

/** A place for a file's bytes, invisible until the file is published. */
export interface Draft {
  id: string;
  path: string;
}

const stores = new WeakMap<KeptFolder, FileStore>();

/** The one store of a gateway, so that what uploads and batches reserve counts together. */
export function filesOf({ kept, log }: Pick<Gateway, 'kept' | 'log'>): FileStore {
  const store = stores.get(kept) ?? new FileStore(kept, undefined, (text) => log('warn', text));
  stores.set(kept, store);
  return store;
}

export class FileStore {
  readonly #kept: KeptFolder;
  readonly #bounds: typeof fileBounds;
  readonly #damaged: DamagedFiles;
  /** What is reserved for running uploads and batches. */
  readonly #promised: Amounts = new Map();
  /** Names of the drafts that this process writes: a clock set ahead makes them look abandoned. */
  readonly #drafts = new Set<string>();
  /** Newest first. */
  readonly #all = new SharedReading(async () =>
    (await this.#described()).sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1)),
  );

  /** By the name of their description, which never changes: only new ones are read to count. */
  #owned = new Map<string, Owned>();
  #asked: Asked[] = [];
  #isReserving = false;

  constructor(kept: KeptFolder, bounds = fileBounds, warn: (text: string) => void = () => undefined) {
    this.#kept = kept;
    this.#bounds = bounds;
    this.#damaged = new DamagedFiles('file', warn);
  }

  /** What a growing file reserves at once: 64 MiB, or less if the store is small. */
  get pieceBytes(): number {
    return Math.ceil(this.#bounds.bytes / piecesOfAll);
  }

  /**
   * Reserves space for another file of at most `mostBytes`, of the API key named `by`.
   * @throws StoreFull if there are too many files or bytes, of all or of that key
   */
  async room(by: string | undefined, mostBytes = Infinity): Promise<Room> {
    return await new Promise<Room>((resolve, reject) => {
      this.#asked.push({ by, mostBytes, resolve, reject });
      if (!this.#isReserving) void this.#reserveAll();
    });
  }

  /**
   * One reservation after the other, so that no two get the same room. Counting thousands of files
   * takes long: it is done once for all that wait.
   */
  async #reserveAll(): Promise<void> {
    this.#isReserving = true;
    while (this.#asked.length > 0) {
      const asked = this.#asked;
      this.#asked = [];
      const counted = await this.#count(asked.some(({ by }) => by !== undefined)).catch((thrown: unknown) => {
        for (const { reject } of asked) reject(thrown);
      });
      for (const { by, mostBytes, resolve, reject } of counted ? asked : []) {
        try {
          resolve(this.#reserve(by, mostBytes, counted!));
        } catch (thrown) {
          reject(thrown);
        }
      }
    }
    this.#isReserving = false;
  }

  async #count(byKey: boolean): Promise<Counted> {
    // First, since an upload that completes meanwhile must count at least once.
    const promised = new Map(this.#promised);
    return { promised, held: await this.#held(), ofKeys: byKey ? await this.#heldByKeys() : new Map<string | undefined, Amount>() };
  }

  #reserve(by: string | undefined, mostBytes: number, { held: onDisk, ofKeys, promised }: Counted): Room {
    const held = sum([onDisk, ...promised.values()]);
    const own = by === undefined ? undefined : sum([ofKeys.get(by) ?? nothing, promised.get(by) ?? nothing]);
    const { files, bytes: most, fileBytes } = this.#bounds;
    if (held.files >= files) throw new StoreFull(`There are ${held.files} files, which is the limit; delete some.`);
    if (held.bytes >= most) throw new StoreFull(`All files together have ${held.bytes} bytes, over the limit of ${most}; delete some.`);
    const allowed = Math.min(fileBytes, most - held.bytes, own ? this.#leftOf(by!, own) : Infinity);
    const bytes = Math.min(allowed, mostBytes);
    for (const one of [promised, this.#promised]) add(one, by, { files: 1, bytes });
    return { bytes: allowed, release: () => add(this.#promised, by, { files: -1, bytes: -bytes }) };
  }

  /** What is on the disk. Removes what a server left when it ended or the disk was full. */
  async #held(): Promise<Amount> {
    const folder = await this.#folder();
    const held = { files: 0, bytes: 0 };
    const names = await namesIn(folder);
    const isLeft = await this.#leftIn(names);
    for (const name of names) {
      const found = await stat(join(folder, name)).catch(() => undefined);
      if (!found) continue;
      if (found.isFile() && isLeft(name) && Date.now() - found.mtimeMs > abandonedMs) {
        await rm(join(folder, name), { force: true });
        continue;
      }
      held.bytes += found.size;
      if (name.endsWith(described)) held.files++;
    }
    return sum([held, ...(await this.#inputs()).map(({ bytes }) => ({ files: 0, bytes }))]);
  }

  /** Which of these names, once they are old, belong to no file and to no batch. */
  async #leftIn(names: readonly string[]): Promise<(name: string) => boolean> {
    const unlisted = unlistedIn(names);
    const { results, isSure } = await resultsIn(await this.#kept.of('batches'), unlisted);
    for (const { id } of results) unlisted.delete(id);
    return (name) => (name.endsWith(arriving) && !this.#drafts.has(name)) || temporary.test(name) || (isSure && unlisted.has(name));
  }

  /** Batches' results that are not listed yet. */
  async #unlisted(): Promise<{ bytes: number; by: string | undefined }[]> {
    const folder = await this.#folder();
    const { results } = await resultsIn(await this.#kept.of('batches'), unlistedIn(await namesIn(folder)));
    return await Promise.all(
      results.map(async ({ id, by }) => ({ by, bytes: (await stat(join(folder, id)).catch(() => undefined))?.size ?? 0 })),
    );
  }

  /** Requests of batches whose file was deleted meanwhile. */
  async #inputs(): Promise<{ bytes: number; by: string | undefined }[]> {
    const folder = await this.#kept.of('batches');
    const found: { bytes: number; by: string | undefined }[] = [];
    for (const name of await namesIn(folder)) {
      const [, id] = /^(batch_\w+)\.input$/.exec(name) ?? [];
      const state = id === undefined ? undefined : await stat(join(folder, name)).catch(() => undefined);
      if (state && state.nlink === 1) found.push({ bytes: state.size, by: await keyIn(join(folder, `${id}${described}`)) });
    }
    return found;
  }

  /** What each key has on the disk. */
  async #heldByKeys(): Promise<Amounts> {
    const held: Amounts = new Map();
    // First, since results that are listed meanwhile must count at least once.
    for (const { by, bytes } of await this.#unlisted()) add(held, by, { files: 0, bytes });
    for (const { by, bytes } of await this.#ownedNow()) add(held, by, { files: 1, bytes });
    for (const { by, bytes } of await this.#inputs()) add(held, by, { files: 0, bytes });
    return held;
  }

  async #ownedNow(): Promise<Iterable<Owned>> {
    const folder = await this.#folder();
    const owned = new Map<string, Owned>();
    for (const name of describedAmong(await namesIn(folder))) {
      const known = this.#owned.get(name);
      const file = known && !hasExpired(known) ? known : await this.#read(folder, name);
      if (file) owned.set(name, { by: file.by, bytes: file.bytes, expires_at: file.expires_at });
    }
    this.#owned = owned;
    return owned.values();
  }

  /**
   * The bytes that the key named `by` may add.
   * @throws StoreFull
   */
  #leftOf(by: string, { files, bytes }: Amount): number {
    const [mostFiles, mostBytes] = [Math.ceil(this.#bounds.files * shareOfKey), Math.ceil(this.#bounds.bytes * shareOfKey)];
    if (files >= mostFiles) throw new StoreFull(`The API key ${by} has ${files} files, which is the limit for one key; delete some.`);
    if (bytes >= mostBytes)
      throw new StoreFull(`The files of the API key ${by} have ${bytes} bytes, over the limit of ${mostBytes} for one key; delete some.`);
    return mostBytes - bytes;
  }

  async draft(): Promise<Draft> {
    const id = newFileId();
    const path = join(await this.#folder(), id + arriving);
    this.#drafts.add(id + arriving);
    return { id, path };
  }

  async discard({ id, path }: Draft): Promise<void> {
    this.#drafts.delete(id + arriving);
    await rm(path, { force: true });
  }

  /** Turns a complete draft into a file. */
  async publish({ id, path }: Draft, about: About): Promise<FileObject> {
    const folder = await this.#folder();
    await rename(path, join(folder, id));
    this.#drafts.delete(id + arriving);
    try {
      return await this.describe(id, about);
    } catch (thrown) {
      await rm(join(folder, id), { force: true });
      throw thrown;
    }
  }

  /** Turns bytes that are already stored under their id into a file. */
  async describe(id: string, { filename, purpose, expires_at: expires, by }: About): Promise<FileObject> {
    const path = await this.pathOf(id);
    try {
      const { size } = await stat(path);
      const file: FileObject = {
        id,
        object: 'file',
        bytes: size,
        created_at: nowSeconds(),
        ...(expires === undefined ? {} : { expires_at: expires }),
        filename,
        purpose,
        status: 'processed',
      };
      await writeFileAtomic(path + described, JSON.stringify(by === undefined ? file : { ...file, by }), { mode: 0o600, fsync: false });
      return file;
    } catch (thrown) {
      throw keepingError(thrown);
    }
  }

  /** Path of the file's bytes, whether it exists or not. */
  async pathOf(id: string): Promise<string> {
    if (!isFileId(id)) throw fileNotFound(id);
    return join(await this.#folder(), id);
  }

  /**
   * The file's bytes, to be closed by the caller.
   * @throws RecuaError `file_not_found`, also if they are not as many as were stored
   */
  async open({ id, bytes }: FileObject, param?: string): Promise<FileHandle> {
    const file = await openRegular(await this.pathOf(id)).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown instanceof NotRegular) throw damaged(id, param);
      throw thrown.code === 'ENOENT' ? fileNotFound(id, param) : keepingError(thrown);
    });
    if ((await file.stat()).size === bytes) return file;
    await file.close();
    throw damaged(id, param);
  }

  /** @throws RecuaError `file_not_found`, `store_unwritable` if it cannot be read now */
  async get(id: string, owner: Owner, param?: string): Promise<FileObject> {
    if (!isFileId(id)) throw fileNotFound(id, param);
    const file = await this.#read(await this.#folder(), id + described, (thrown) => {
      throw keepingError(thrown);
    });
    if (!file || !owner.has(file.by)) throw fileNotFound(id, param);
    return shown(file);
  }

  /** Newest first. */
  async list(owner: Owner): Promise<FileObject[]> {
    const all = await this.#all.get();
    await rounds.next();
    return all.filter(({ by }) => owner.has(by)).map(shown);
  }

  /** Reading one does it. */
  async removeExpired(): Promise<void> {
    await this.#described();
  }

  async #described(): Promise<Described[]> {
    const folder = await this.#folder();
    const files: Described[] = [];
    for (const name of describedAmong(await namesIn(folder))) {
      const file = await this.#read(folder, name);
      if (file) files.push(file);
    }
    return files;
  }

  /** @throws RecuaError `file_not_found` */
  async remove(id: string, owner: Owner): Promise<object> {
    await this.get(id, owner);
    await this.#drop(await this.#folder(), id);
    return { id, object: 'file', deleted: true };
  }

  async #folder(): Promise<string> {
    return await this.#kept.of('files');
  }

  async #drop(folder: string, id: string): Promise<void> {
    await rm(join(folder, id + described), { force: true });
    await rm(join(folder, id), { force: true });
  }

  /**
   * Removes it if it has expired. `unread` is told if it is there but cannot be read now; by
   * default it is left out.
   */
  async #read(folder: string, name: string, unread: (thrown: unknown) => void = () => undefined): Promise<Described | undefined> {
    const path = join(folder, name);
    let file: Described;
    try {
      file = parseDescribed(await readSmallFile(path, mostDescriptionBytes), name.slice(0, -described.length));
    } catch (thrown) {
      if (!isDamage(thrown)) unread(thrown);
      this.#damaged.skip(path, thrown);
      return undefined;
    }
    if (!hasExpired(file)) return file;
    await this.#drop(folder, file.id);
    return undefined;
  }
}

export function newFileId(): string {
  return `file-${randomBytes(24).toString('hex')}`;
}

export function fileNotFound(id: string, param?: string): RecuaError {
  return new RecuaError('file_not_found', `There is no file ${id.slice(0, 80)}: it was never uploaded here, was deleted, or has expired.`, { param });
}

function damaged(id: string, param?: string): RecuaError {
  return new RecuaError('file_not_found', `The file ${id} is damaged: the server has other bytes than were stored. Delete it and upload it again.`, { param });
}
