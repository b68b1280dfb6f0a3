// The folder in which responses, files and batches outlive the server. It is private to the user,
// since they hold what people wrote. Without a configured place it is a temporary folder, removed
// when the app or the process ends. Made by app.
import { existsSync } from 'node:fs';
import { chmod, lstat, mkdir, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecuaError } from '../../errors.js';
import { createFolder } from '../../system/create-folder.js';
import { ProcessFolder, removeLeftOvers } from '../../system/process-folder.js';

const temporaryPrefix = 'recua-kept-';

export class KeptFolder {
  readonly #parent: string | undefined;
  #root: Promise<string> | undefined;
  #temporary: ProcessFolder | undefined;
  readonly #making = new Set<Promise<string>>();
  #isClosed = false;

  /** @param parent may be shared with other users; each has a folder of their own in it. */
  constructor(parent?: string) {
    this.#parent = parent;
  }

  /** Whether an earlier process left a folder of that name. Does not create it. */
  has(name: string): boolean {
    return this.#parent !== undefined && existsSync(join(this.#parent, userFolder(), name));
  }

  /** The same, or this process may have made it. */
  mayHave(name: string): boolean {
    return this.#root !== undefined || this.has(name);
  }

  /**
   * The folder of that name, created if necessary.
   * @throws RecuaError `store_unwritable`, `disk_full`; `shutting_down` after `close`
   */
  async of(name: string): Promise<string> {
    if (this.#isClosed) throw new RecuaError('shutting_down', 'The server has stopped, and removed what it stored.');
    const making = this.#make(name);
    this.#making.add(making);
    try {
      return await making;
    } catch (thrown) {
      // The next call tries again, since the cause may be gone then. A temporary folder that has
      // been made stays the one: it may hold data.
      if (this.#parent !== undefined || await this.#root?.catch(() => undefined) === undefined) this.#root = undefined;
      throw keepingError(thrown);
    } finally {
      this.#making.delete(making);
    }
  }

  /** Removes the folder if it is a temporary one, which is not made again. */
  async close(): Promise<void> {
    if (this.#parent !== undefined) return;
    this.#isClosed = true;
    await Promise.allSettled(this.#making);
    await this.#temporary?.remove();
  }

  async #make(name: string): Promise<string> {
    const folder = join(await (this.#root ??= this.#open()), name);
    // Every time, since somebody may delete it while the server runs.
    await createFolder(folder, 0o700);
    return folder;
  }

  async #open(): Promise<string> {
    if (this.#parent === undefined) return await this.#openTemporary();
    const user = process.getuid?.();
    const root = join(this.#parent, userFolder());
    await createFolder(this.#parent);
    await mkdir(root, { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EEXIST') throw cause;
    });
    const found = await lstat(root);
    if (!found.isDirectory() || (user !== undefined && found.uid !== user)) {
      const cause = new Error(`${root} is not a folder of this user; remove it`);
      throw new RecuaError('store_unwritable', 'The server cannot store data, because its folder is not one of its user; its log says which.', { cause });
    }
    if (user !== undefined && (found.mode & 0o077) !== 0) await chmod(root, 0o700);
    return root;
  }

  async #openTemporary(): Promise<string> {
    void removeLeftOvers(tmpdir(), temporaryPrefix);
    this.#temporary = new ProcessFolder(tmpdir(), temporaryPrefix);
    await this.#temporary.owned;
    return this.#temporary.path;
  }
}

/** Several users may share the parent folder. */
function userFolder(): string {
  const user = process.getuid?.();
  return user === undefined ? 'kept' : `kept-${user}`;
}

/** The names in a folder of what is kept. @throws RecuaError `store_unwritable` */
export async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch((thrown: unknown) => {
    throw keepingError(thrown);
  });
}

/**
 * An error of the file system → a RecuaError whose message has no paths, since clients get it.
 * Those are in its cause, for the log.
 */
export function keepingError(thrown: unknown): RecuaError {
  if (thrown instanceof RecuaError) return thrown;
  const error = RecuaError.from(thrown);
  const { code } = thrown as NodeJS.ErrnoException;
  if (error.code === 'disk_full') return new RecuaError('disk_full', 'The server has no room left on its disk.', { cause: thrown });
  if (error.code !== 'internal_error' || code === undefined) return error;
  return new RecuaError('store_unwritable', `The server cannot read or write what it stores (${code}); its log says which file.`, { cause: thrown });
}
