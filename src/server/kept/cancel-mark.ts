// How a server cancels work that another one does, which shares its folder: by an empty file, which
// the other one looks for. Used by batches and background responses.
import { lstat, rm, writeFile } from 'node:fs/promises';
import { keepingError } from './kept-folder.js';

const lookMs = 500;

export class CancelMark {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** @throws RecuaError `disk_full`, `store_unwritable` */
  async set(): Promise<void> {
    await writeFile(this.#path, '', { mode: 0o600, flag: 'wx' }).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EEXIST') throw keepingError(cause);
    });
  }

  /** When it was set, in ms since 1970; undefined if it is not, or cannot be looked for now. */
  async setAt(): Promise<number | undefined> {
    const found = await lstat(this.#path).catch(() => undefined);
    return found?.isFile() ? found.mtimeMs : undefined;
  }

  async clear(): Promise<void> {
    await rm(this.#path, { force: true }).catch(() => undefined);
  }

  /** Calls `cancel` once it is set, and again until the result is called. */
  watch(cancel: () => void): () => void {
    let isOver = false;
    const timer = setInterval(() => {
      void this.setAt().then((at) => {
        if (at !== undefined && !isOver) cancel();
      });
    }, lookMs).unref();
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }
}
