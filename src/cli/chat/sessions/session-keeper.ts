// Keeps a running chat in its file: finds a name, holds the lock, saves after each turn. One per
// chat. A file that another chat has open is left alone, and so is one that another program, which
// knows no locks, has changed.
import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { lockHolder, tryLock } from '../../../system/lock-file.js';
import type { Lock } from '../../../system/lock-file.js';
import { RecuaError } from '../../../errors.js';
import type { Session } from './session.js';
import {
  checkSessionName, exists, isSuggested, kvPathOf, loadSession, lockPathOf, makeSessionFolder, moveSession, nameOf, pathOf, placesFor,
  removeDrafts, saveSession, suggestName,
} from './session-store.js';

export class SessionKeeper {
  readonly #folder: string;
  /** Whether turns are saved automatically. */
  readonly automatic: boolean;
  #path: string | undefined;
  /** The file with an automatic name, if this keeper has one. */
  #named: string | undefined;
  #lock: Lock | undefined;
  /** The file as this keeper took or wrote it. */
  #version: string | undefined;
  #isSaved = true;

  constructor(folder: string, automatic: boolean) {
    this.#folder = folder;
    this.automatic = automatic;
  }

  get name(): string | undefined {
    return this.#path === undefined ? undefined : nameOf(this.#path);
  }

  get path(): string | undefined {
    return this.#path;
  }

  /** Where its KV cache is kept, if it is. */
  get kvPath(): string | undefined {
    return this.#path === undefined ? undefined : kvPathOf(this.#folder, this.#path);
  }

  get folder(): string {
    return this.#folder;
  }

  /**
   * Continues in an existing file, and reads it; if it is the open one, what another program has
   * written counts from now on. If it cannot be read, or throws `session_locked`, the keeper stays
   * where it was.
   */
  async open(path: string): Promise<Session> {
    const isOther = path !== this.#path;
    const lock = isOther && this.automatic ? await this.#lockOf(path) : undefined;
    try {
      const version = await versionOf(path);
      const session = await loadSession(path);
      if (isOther) await this.#take(path, lock);
      this.#version = version;
      this.#isSaved = true;
      // A file elsewhere is the user's: it keeps its place.
      const isOwn = resolve(dirname(path)) === resolve(this.#folder);
      if (isOwn && isSuggested(nameOf(path), session.exchanges[0])) this.#named = path;
      return session;
    } catch (thrown) {
      await lock?.release();
      throw thrown;
    }
  }

  /**
   * Continues under a new name. A file with an automatic name is renamed; a file that the user
   * named stays as it is. Throws if a chat of that name exists. Returns the name of the file that
   * stays.
   */
  async rename(name: string): Promise<string | undefined> {
    const path = pathOf(this.#folder, checkSessionName(name));
    const before = this.#path;
    if (path === before) return undefined;
    await makeSessionFolder(this.#folder);
    const lock = await this.#lockOf(path);
    if (await exists(path)) {
      await lock.release();
      throw taken(name);
    }
    const stays = before !== undefined && await exists(before);
    const moves = stays && before === this.#named && !(await this.#isChanged());
    try {
      if (moves) await moveSession(this.#folder, before, path);
    } catch (thrown) {
      await lock.release();
      throw thrown;
    }
    await this.#take(path, lock);
    return !stays || moves ? undefined : nameOf(before);
  }

  /** Saves a copy once; the keeper stays where it was. */
  async saveCopy(name: string, session: Session): Promise<void> {
    const path = pathOf(this.#folder, checkSessionName(name));
    await makeSessionFolder(this.#folder);
    const lock = await this.#lockOf(path);
    try {
      if (await exists(path)) throw taken(name);
      await saveSession(path, session);
    } finally {
      await lock.release();
    }
  }

  /** The next turn starts another chat. */
  async begin(): Promise<void> {
    await this.#take(undefined, undefined);
  }

  /** False if the last turn could not be saved. */
  get isSaved(): boolean {
    return this.#isSaved;
  }

  /** Saves a turn; the first turn gives the file its name. Throws `session_changed`. */
  async save(session: Session): Promise<void> {
    if (!this.automatic) return;
    this.#isSaved = false;
    if (this.#path === undefined) await this.#name(session);
    if (await this.#isChanged()) {
      throw new RecuaError('session_changed', `Another program has changed the saved chat ${this.name}, so it is not overwritten. To save this conversation, give it another name: /save <name>. To go on with what the file holds: /load ${this.name}`);
    }
    await saveSession(this.#path!, session);
    this.#version = await versionOf(this.#path!);
    this.#isSaved = true;
  }

  /** A file that was removed is written again. */
  async #isChanged(): Promise<boolean> {
    const now = await versionOf(this.#path!);
    return now !== undefined && now !== this.#version;
  }

  async release(): Promise<void> {
    await this.#lock?.release();
    this.#lock = undefined;
  }

  async #name(session: Session): Promise<void> {
    await makeSessionFolder(this.#folder);
    const stem = suggestName(session.exchanges[0]?.message ?? '', new Date());
    for await (const path of placesFor(this.#folder, stem)) {
      const lock = await tryLock(lockPathOf(path));
      if (!lock) continue;
      if (!(await exists(path))) {
        this.#named = path;
        await this.#take(path, lock);
        return;
      }
      await lock.release();
    }
  }

  async #lockOf(path: string): Promise<Lock> {
    const lock = await tryLock(lockPathOf(path));
    // A failure only leaves them for later.
    if (lock) await removeDrafts(path).catch(() => undefined);
    if (lock) return lock;
    const holder = await lockHolder(lockPathOf(path));
    throw new RecuaError('session_locked',
      `The chat ${nameOf(path)} is open in another process${holder ? ` (${holder.pid})` : ''}. Close it there first, or read it with: recua sessions show ${JSON.stringify(nameOf(path))}`);
  }

  async #take(path: string | undefined, lock: Lock | undefined): Promise<void> {
    await this.release();
    this.#path = path;
    this.#lock = lock;
    this.#isSaved = true;
    this.#version = path === undefined ? undefined : await versionOf(path);
  }
}

/** Undefined if there is no file. */
async function versionOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.ino} ${found.size} ${found.mtimeNs}`;
}

function taken(name: string): RecuaError {
  return new RecuaError('invalid_usage', `There is already a saved chat ${name}. Choose another name, or remove that chat: recua sessions rm ${JSON.stringify(name)}`);
}
