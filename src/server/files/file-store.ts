// Files that clients upload and that batches write: the bytes of each, and beside them a small file
// that says what it is, which comes last. Private to the user; several servers may share the
// folder.
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../../errors.js';
import { readSmallFile } from '../../system/small-file.js';
import { keepingError, type KeptFolder } from '../kept/kept-folder.js';
import type { Owner } from '../kept/owner.js';

/** As OpenAI's clients know it. */
export interface FileObject {
  id: string;
  object: 'file';
  bytes: number;
  created_at: number;
  expires_at?: number;
  filename: string;
  purpose: string;
  status: 'processed';
}

/** What is known of a file when it begins to be one. */
type About = Pick<FileObject, 'filename' | 'purpose' | 'expires_at'> & { by: string | undefined };

/** As it is written: `by` is the name of the API key that it belongs to, and nobody else's. */
type Described = FileObject & { by?: string };

const idForm = /^file-[0-9a-f]{48}$/;
const described = '.json';
/** What arrives, until it is whole. */
const arriving = '.part';
const mostDescriptionBytes = 64 * 1024;
/** An upload that nothing was added to for so long was left by a server that ended. */
const abandonedMs = 3_600_000;

export const fileBounds = { files: 10_000, bytes: 16 * 2 ** 30, fileBytes: 2 ** 29 };

/** What one upload may take. */
export interface Room {
  bytes: number;
  /** It takes no more: what it has taken is a file, or gone. */
  release(): void;
}

/** A place for a file's bytes; nobody sees it until it is described. */
export interface Draft {
  id: string;
  path: string;
}

export class FileStore {
  readonly #kept: KeptFolder;
  readonly #bounds: typeof fileBounds;
  /** For uploads that arrive just now. */
  #promisedBytes = 0;

  constructor(kept: KeptFolder, bounds = fileBounds) {
    this.#kept = kept;
    this.#bounds = bounds;
  }

  /**
   * Room for a further file, of which `mostBytes` can come.
   * @throws RecuaError `disk_full` where there are too many, or too large ones
   */
  async room(mostBytes = Infinity): Promise<Room> {
    const folder = await this.#folder();
    let count = 0;
    let bytes = 0;
    for (const name of await readdir(folder)) {
      const found = await stat(join(folder, name)).catch(() => undefined);
      if (!found) continue;
      if (name.endsWith(arriving) && Date.now() - found.mtimeMs > abandonedMs) {
        await rm(join(folder, name), { force: true });
        continue;
      }
      bytes += found.size;
      if (name.endsWith(described)) count++;
    }
    bytes += this.#promisedBytes;
    const { files, bytes: most, fileBytes } = this.#bounds;
    if (count >= files) throw new RecuaError('disk_full', `There are ${count} files, which is the limit; delete some.`);
    if (bytes >= most) throw new RecuaError('disk_full', `All files together have ${bytes} bytes, which is over the limit of ${most}; delete some.`);
    const allowed = Math.min(fileBytes, most - bytes);
    const promised = Math.min(allowed, mostBytes);
    this.#promisedBytes += promised;
    return { bytes: allowed, release: () => void (this.#promisedBytes -= promised) };
  }

  async draft(): Promise<Draft> {
    const id = newFileId();
    return { id, path: join(await this.#folder(), id + arriving) };
  }

  /** The draft is whole: from now on it is a file. */
  async publish({ id, path }: Draft, about: About): Promise<FileObject> {
    const folder = await this.#folder();
    await rename(path, join(folder, id));
    return await this.describe(id, about);
  }

  /** Bytes that lie there under their id become a file. */
  async describe(id: string, { filename, purpose, expires_at: expires, by }: About): Promise<FileObject> {
    const path = await this.pathOf(id);
    try {
      const { size } = await stat(path);
      const file: FileObject = {
        id, object: 'file', bytes: size, created_at: nowSeconds(), ...(expires === undefined ? {} : { expires_at: expires }), filename, purpose, status: 'processed',
      };
      await writeFileAtomic(path + described, JSON.stringify(by === undefined ? file : { ...file, by }), { mode: 0o600, fsync: false });
      return file;
    } catch (thrown) {
      throw keepingError(thrown, path);
    }
  }

  /** Where the bytes of the file are; whether it is there is not asked. */
  async pathOf(id: string): Promise<string> {
    if (!idForm.test(id)) throw notFound(id);
    return join(await this.#folder(), id);
  }

  /** @throws RecuaError `file_not_found` */
  async get(id: string, owner: Owner, param?: string): Promise<FileObject> {
    if (!idForm.test(id)) throw notFound(id, param);
    const file = await this.#read(await this.#folder(), id + described, owner);
    if (!file) throw notFound(id, param);
    return file;
  }

  /** The newest first. */
  async list(owner: Owner): Promise<FileObject[]> {
    const folder = await this.#folder();
    const files: FileObject[] = [];
    for (const name of await readdir(folder)) {
      if (!name.endsWith(described) || !idForm.test(name.slice(0, -described.length))) continue;
      const file = await this.#read(folder, name, owner);
      if (file) files.push(file);
    }
    return files.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1));
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

  async #read(folder: string, name: string, owner: Owner): Promise<FileObject | undefined> {
    const text = await readSmallFile(join(folder, name), mostDescriptionBytes).catch(() => '');
    let file: FileObject;
    let by: string | undefined;
    try {
      ({ by, ...file } = JSON.parse(text) as Described);
    } catch {
      return undefined;
    }
    if (file.expires_at === undefined || file.expires_at > nowSeconds()) return owner.has(by) ? file : undefined;
    await this.#drop(folder, file.id);
    return undefined;
  }
}

export function newFileId(): string {
  return `file-${randomBytes(24).toString('hex')}`;
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1_000);
}

function notFound(id: string, param?: string): RecuaError {
  return new RecuaError('file_not_found', `There is no file ${id.slice(0, 80)}: it was never uploaded here, was deleted, or has expired.`, { param });
}
