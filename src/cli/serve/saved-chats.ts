// The saved chats for HTTP requests: the files of `recua chat`, under the same locks. A chat that
// is open on a terminal cannot be written; a chat that changed since it was read is not
// overwritten. Created by serving.
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { RecuaError } from '../../errors.js';
import { isObject } from '../../request/fields.js';
import { lockHolder, tryLock } from '../../system/lock-file.js';
import type { Lock } from '../../system/lock-file.js';
import { SharedReading } from '../../system/shared-reading.js';
import { chatSettings } from '../flags/answer-flags.js';
import type { SavedChat, SavedChatEntry, SavedChats } from '../../server/http/saved-chats.js';
import { anyModel, documentOf, readDocument, readSession } from '../chat/sessions/session.js';
import type { Session } from '../chat/sessions/session.js';
import { checkSessionName, exists, listSessions, loadSession, lockPathOf, makeSessionFolder, moveSession, nameOf, pathOf, placesFor, removeSession, saveSession, sessionText, suggestName } from '../chat/sessions/session-store.js';

/** `defaultModel`: the model of a chat whose request names none. */
export function savedChats(folder: string, defaultModel: () => Promise<string> = () => Promise.resolve(anyModel)): SavedChats {
  return new ChatFiles(folder, defaultModel);
}

class ChatFiles implements SavedChats {
  readonly #folder: string;
  readonly #defaultModel: () => Promise<string>;
  /** Serializes writes: a request would see another request's lock as a foreign one. */
  #turn: Promise<unknown> = Promise.resolve();
  readonly #all = new SharedReading(() => this.#readAll());
  /** One search at a time: each reads all files. */
  #searched: Promise<unknown> = Promise.resolve();

  constructor(folder: string, defaultModel: () => Promise<string>) {
    this.#folder = folder;
    this.#defaultModel = defaultModel;
  }

  async list(search = ''): Promise<readonly SavedChatEntry[]> {
    if (search === '') return await this.#all.get();
    const found = this.#searched.then(() => this.#readAll(search.toLowerCase()));
    this.#searched = found.catch(() => undefined);
    return await found;
  }

  /** `wanted`: in lower case; '' for all chats. */
  async #readAll(wanted = ''): Promise<SavedChatEntry[]> {
    const entries: SavedChatEntry[] = [];
    // One after the other: thousands at once would take as many open files, and the memory of all.
    for (const { name, path, updatedMs } of await listSessions(this.#folder)) {
      // One damaged file must not hide the others.
      const session = await loadSession(path, name).catch((thrown: unknown) => RecuaError.from(thrown));
      const texts = session instanceof RecuaError ? [] : session.exchanges.flatMap(({ message, reply }) => [message, reply?.text ?? '']);
      if (![name, ...texts].some((text) => text.toLowerCase().includes(wanted))) continue;
      if (session instanceof RecuaError) entries.push({ name, updatedMs, error: session.code === 'invalid_session' ? session.message : 'Its file cannot be read.' });
      else entries.push({ name, updatedMs, model: session.model, exchanges: session.exchanges.length });
    }
    return entries;
  }

  async read(name: string): Promise<SavedChat> {
    const path = await this.#find(name);
    const text = await sessionText(path);
    return chatOf(path, readSession(text, name), text, await lockHolder(lockPathOf(path)) !== undefined);
  }

  create(given: Record<string, unknown>, name: string | undefined): Promise<SavedChat> {
    return this.#inTurn(async () => {
      const now = new Date();
      const session = await this.#complete(given, now.toISOString(), 'The session');
      const saveAs = async (path: string): Promise<SavedChat | undefined> => await withLock(path, async () => {
        if (await exists(path)) return undefined;
        return chatOf(path, session, await saveSession(path, session));
      });
      if (name !== undefined) {
        const saved = await saveAs(pathOf(this.#folder, checkSessionName(name)));
        if (saved) return saved;
        throw taken(name);
      }
      const places = placesFor(this.#folder, suggestName(session.exchanges[0]?.message ?? '', now));
      for (;;) {
        const saved = await saveAs((await places.next()).value).catch((thrown: unknown) => {
          if (RecuaError.from(thrown).code === 'session_locked') return undefined;
          throw thrown;
        });
        if (saved) return saved;
      }
    });
  }

  write(name: string, etag: string, given: Record<string, unknown> | undefined, newName: string | undefined): Promise<SavedChat> {
    return this.#inTurn(async () => {
      const path = await this.#find(name);
      return await withLock(path, async () => {
        const text = await sessionText(path);
        checkUnchanged(name, etag, text);
        const before = readSession(text, name);
        const now = new Date().toISOString();
        const session = given ? { ...await this.#complete({ created_at: before.createdAt, ...given }, now, name), updatedAt: now } : before;
        const to = newName === undefined ? path : pathOf(this.#folder, checkSessionName(newName));
        if (to === path) return chatOf(path, session, await saveSession(path, session));
        return await withLock(to, async () => {
          if (await exists(to)) throw taken(newName!);
          const saved = await saveSession(path, session);
          await moveSession(this.#folder, path, to);
          return chatOf(to, session, saved);
        });
      });
    });
  }

  remove(name: string, etag: string): Promise<void> {
    return this.#inTurn(async () => {
      const path = await this.#find(name);
      await withLock(path, async () => {
        // A damaged chat has no ETag.
        if (etag !== '*') checkUnchanged(name, etag, await sessionText(path));
        await removeSession(this.#folder, path);
      });
    });
  }

  /** Only by its exact name: a path could lead out of the folder. */
  async #find(name: string): Promise<string> {
    const path = pathOf(this.#folder, checkSessionName(name));
    if (await exists(path)) return path;
    throw new RecuaError('session_not_found', `There is no saved chat ${name}.`);
  }

  /**
   * Fills in what a request leaves out, with the values of a new chat on the terminal, and
   * validates the rest.
   */
  async #complete(given: Record<string, unknown>, now: string, name: string): Promise<Session> {
    const model = given['model'] === undefined ? await this.#defaultModel() : '';
    const empty = documentOf({ model, system: '', template: 'auto', settings: chatSettings(), createdAt: now, updatedAt: now, exchanges: [] }) as { sampling: object };
    const { sampling } = given;
    const whole = { ...empty, ...given, ...(isObject(sampling) ? { sampling: { ...empty.sampling, ...sampling } } : {}) };
    return readDocument(whole, name);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  await makeSessionFolder(dirname(path));
  const lock: Lock | undefined = await tryLock(lockPathOf(path));
  if (!lock) {
    const holder = await lockHolder(lockPathOf(path));
    throw new RecuaError('session_locked', `The chat ${nameOf(path)} is open in another process${holder ? ` (${holder.pid})` : ''}. Close it there first.`);
  }
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

/** `text`: that of its file. */
function chatOf(path: string, session: Session, text: string, isOpen = false): SavedChat {
  return { name: nameOf(path), etag: etagOf(text), isOpen, session: documentOf(session) };
}

function etagOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}

function checkUnchanged(name: string, etag: string, text: string): void {
  if (etag === '*' || etag === etagOf(text)) return;
  throw new RecuaError('session_changed', `The chat ${name} changed elsewhere since it was read. Read it again.`);
}

function taken(name: string): RecuaError {
  return new RecuaError('invalid_usage', `There is already a saved chat ${name}. Choose another name.`);
}
