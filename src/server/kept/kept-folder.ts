// The folder in which responses, files and batches outlive the server: private to the user, since
// they hold what people wrote. Without a place of its own it is a folder for temporary files, gone
// when the process ends. Made by app.
import { existsSync, rmSync } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecuaError } from '../../errors.js';

export class KeptFolder {
  readonly #parent: string | undefined;
  #root: Promise<string> | undefined;

  /** @param parent others may write to it: what is kept is in a folder of the user's there. */
  constructor(parent?: string) {
    this.#parent = parent;
  }

  /** Whether an earlier process left a folder of that name. Makes none. */
  has(name: string): boolean {
    return this.#parent !== undefined && existsSync(join(this.#parent, userFolder(), name));
  }

  /**
   * The folder of that name, made if need be.
   * @throws RecuaError `store_unwritable`, `disk_full`
   */
  async of(name: string): Promise<string> {
    try {
      const folder = join(await (this.#root ??= this.#open()), name);
      // Each time: somebody may tidy up while the server runs.
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return folder;
    } catch (thrown) {
      // What was in the way may be gone the next time.
      this.#root = undefined;
      throw keepingError(thrown, this.#parent ?? tmpdir());
    }
  }

  async #open(): Promise<string> {
    if (this.#parent === undefined) return await temporary();
    const user = process.getuid?.();
    const root = join(this.#parent, userFolder());
    await mkdir(this.#parent, { recursive: true });
    await mkdir(root, { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EEXIST') throw cause;
    });
    const found = await lstat(root);
    if (!found.isDirectory() || (user !== undefined && found.uid !== user)) {
      throw new RecuaError('store_unwritable', `${root} is no folder of this user; what requests leave is kept nowhere else.`);
    }
    if (user !== undefined && (found.mode & 0o077) !== 0) await chmod(root, 0o700);
    return root;
  }
}

/** Several users may share the folder around it. */
function userFolder(): string {
  const user = process.getuid?.();
  return user === undefined ? 'kept' : `kept-${user}`;
}

async function temporary(): Promise<string> {
  // Node gives it the mode 0700.
  const root = await mkdtemp(join(tmpdir(), 'recua-kept-'));
  process.once('exit', () => rmSync(root, { recursive: true, force: true }));
  return root;
}

/** What the system said of a file → an error that says what to do. */
export function keepingError(thrown: unknown, path: string): RecuaError {
  const error = RecuaError.from(thrown);
  if (error.code !== 'internal_error' || (thrown as NodeJS.ErrnoException).code === undefined) return error;
  return new RecuaError('store_unwritable', `${path} cannot be used: ${error.message}.`, { cause: thrown });
}
