// The folder in which a gateway's unloaded models keep their conversations: one subfolder per
// model, private to the user. It is either the gateway's own, removed when the gateway ends (or,
// after a kill, when the next one starts), or a lasting folder for all gateways of a user. Gateway
// process; used by engine/model-pool/pool, and by the server of one model.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { savingSeconds } from '../../settings/stop-time.js';
import { createFolderSync } from '../../system/create-folder.js';
import { ProcessFolder, removeLeftOvers as removeFolders } from '../../system/process-folder.js';
import type { Log } from '../api.js';
import type { SleepPlace } from '../protocol.js';
import { makeRoom, nameFile, stateEnding } from './room.js';

export interface SleepSettings {
  /** For all models together; 0: keep nothing; negative: a share of the free disk space. */
  limitBytes: number;
  /** Parent of the gateway's own folder; default `sleepParent()`. */
  parent?: string;
  /** Longest time that a model may write when it is unloaded. */
  mostMs?: number;
  /** A lasting folder, instead of the gateway's own. */
  lasting?: string;
}

/** The lasting folder, for the next server, in the user's state folder. */
export const lastingFolder = (state: string): string => join(state, 'conversations');

/** From a server's settings and the user's state folder. */
export function sleepSettings(
  { sleepCacheBytes, cacheDiskBytes }: { sleepCacheBytes: number; cacheDiskBytes: number },
  state: string,
): SleepSettings {
  if (cacheDiskBytes === 0) return { limitBytes: sleepCacheBytes };
  return { limitBytes: cacheDiskBytes, lasting: lastingFolder(state), mostMs: savingSeconds * 1000 };
}

const namePrefix = 'recua-sleep-';
/** Of a file with a model's name. */
export const mostNameBytes = 64 * 1024;
/** Default limit: this share of the free disk space, at most `mostBytes`. */
const freeShare = 0.1;
const mostBytes = 8 * 2 ** 30;
const defaultMostMs = 5_000;
/** Younger drafts may still be in the making. */
const makingMs = 60_000;
/** Linux's type number of a file system in memory. */
const tmpfs = 0x01021994;

/**
 * The system's folder for temporary files. If that is in memory, which the models need, and the
 * user did not choose it: /var/tmp, if that is on disk.
 */
export function sleepParent(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  const usual = tmpdir();
  const chosen = ['TMPDIR', 'TMP', 'TEMP'].some((name) => environment[name]);
  return !chosen && process.platform === 'linux' && isInMemory(usual) === true && isInMemory('/var/tmp') === false ? '/var/tmp' : usual;
}

function isInMemory(folder: string): boolean | undefined {
  try {
    return statfsSync(folder).type === tmpfs;
  } catch {
    return undefined;
  }
}

export class SleepCache {
  readonly #log: Log;
  readonly #mostMs: number;
  readonly #parent: string;
  readonly #lasting: string | undefined;
  /** The gateway's own, if it is not a lasting one. */
  #own: ProcessFolder | undefined;
  #limitBytes: number;
  /** Created when the first model is loaded. */
  #root: string | undefined;
  #asleep = new Set<string>();
  /** The log has said that there is no place. */
  #isTold = false;

  constructor({ limitBytes, parent = sleepParent(), mostMs = defaultMostMs, lasting }: SleepSettings, log: Log) {
    this.#log = log;
    this.#lasting = lasting;
    this.#limitBytes = limitBytes;
    this.#parent = parent;
    this.#mostMs = mostMs;
    void removeLeftOvers(parent);
  }

  /** Whether conversations outlive the gateway. */
  get lasts(): boolean {
    return this.#lasting !== undefined && this.#limitBytes !== 0;
  }

  /**
   * The place where a model finds and keeps its conversations; undefined: they are not kept. `key`
   * stays the same when the model gets another name; `id` is its name now.
   */
  placeOf(key: string, id = key): SleepPlace | undefined {
    if (this.#limitBytes === 0) return undefined;
    try {
      if (this.#limitBytes < 0) {
        const { bavail, bsize } = statfsSync(this.#parent);
        this.#limitBytes = Math.floor(Math.min(mostBytes, bavail * bsize * freeShare));
      }
      this.#root ??= this.#make();
      const folder = this.#folderOf(this.#root, key);
      createFolderSync(folder, 0o700);
      if (this.#lasting !== undefined) writeName(folder, id);
      this.#isTold = false;
      return { folder, root: this.#root, limitBytes: this.#limitBytes, mostMs: this.#mostMs, lasts: this.#lasting !== undefined };
    } catch (thrown) {
      // The next load tries again: there may only be too many open files.
      if (!this.#isTold) this.#log('warn', `Conversations are not kept when their model is unloaded: ${(thrown as Error).message}`);
      this.#isTold = true;
      return undefined;
    }
  }

  /** Whether an unloaded model has conversations here, as of the last `settle()`. */
  keeps(key: string): boolean {
    return this.#asleep.has(key);
  }

  /** A model's process ended: removes its unfinished files, and old ones beyond the limit. */
  async settle(ended: string, keys: readonly string[]): Promise<void> {
    const root = this.#root;
    // close() may come while this waits.
    const limitBytes = this.#limitBytes;
    if (root === undefined) return;
    const folder = this.#folderOf(root, ended);
    const drafts = (await readdir(folder).catch(() => [])).filter((name) => !name.endsWith(stateEnding) && name !== nameFile);
    await Promise.all(drafts.map(async (name) => {
      const path = join(folder, name);
      // In a lasting folder, another server may be writing it.
      const isNew = this.#lasting !== undefined && Date.now() - (await lstat(path)).mtimeMs < makingMs;
      if (!isNew) await rm(path, { force: true });
    }).map((removed) => removed.catch(() => {})));
    await makeRoom(root, 0, limitBytes).catch(() => false);
    const kept = await Promise.all(
      keys.map(async (key) => (await readdir(this.#folderOf(root, key)).catch(() => [])).some((name) => name.endsWith(stateEnding))),
    );
    if (this.#root !== undefined) this.#asleep = new Set(keys.filter((_, i) => kept[i]));
  }

  /**
   * The model's file has changed, so its conversations are invalid. In a lasting folder they stay:
   * they may be of another server, whose model has the same key.
   */
  drop(key: string): void {
    this.#asleep.delete(key);
    if (this.#root === undefined || this.lasts) return;
    const folder = this.#folderOf(this.#root, key);
    try {
      // Not the folder: another server's engine may write there, and could not make it again.
      const names = existsSync(folder) ? readdirSync(folder) : [];
      for (const name of names) if (name.endsWith(stateEnding)) rmSync(join(folder, name), { recursive: true, force: true });
    } catch {
      // The next engine process will find that they belong to another file.
    }
  }

  /** Removes everything that does not last. Idempotent. */
  async close(): Promise<void> {
    this.#limitBytes = 0;
    this.#asleep.clear();
    this.#root = undefined;
    await this.#own?.remove();
  }

  #make(): string {
    if (this.#lasting !== undefined) {
      createFolderSync(this.#lasting, 0o700);
      return this.#lasting;
    }
    this.#own = new ProcessFolder(this.#parent, namePrefix);
    return this.#own.path;
  }

  #folderOf(root: string, key: string): string {
    return join(root, createHash('sha256').update(key).digest('hex').slice(0, 16));
  }
}

/** Replaces the file as a whole: another server may read it, and a pipe may be in its place. */
function writeName(folder: string, id: string): void {
  const draft = join(folder, `${nameFile}.${randomUUID()}`);
  writeFileSync(draft, id, { mode: 0o600 });
  renameSync(draft, join(folder, nameFile));
}

/** Removes folders of gateways that could not do so: they were killed, or the machine went down. */
export async function removeLeftOvers(parent = sleepParent()): Promise<void> {
  await removeFolders(parent, namePrefix);
}
