// The folder of saved chats: names ↔ files, listing, reading, writing, removing. Next to NAME.json
// there may be NAME.kv, the model's KV cache, and NAME.json.lock while a chat has it open. Used by
// the chat and by the sessions command.
import { open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { RecuaError, unreadable } from '../../../errors.js';
import { misuse, quote } from '../../flags/flags.js';
import { nearest } from '../../../models/names/nearest.js';
import { createFolder } from '../../../system/create-folder.js';
import { draftName, isDraft } from '../../../system/drafts.js';
import { readLinkedFile } from '../../../system/small-file.js';
import type { Exchange } from './conversation.js';
import { graphemes } from '../input/editor.js';
import { readSession, writeSession } from './session.js';
import type { Session } from './session.js';

export interface SavedFile {
  name: string;
  path: string;
  updatedMs: number;
}

const ending = '.json';
const longestName = 100;
/** Chats hold text only. */
const mostBytes = 2 ** 29;

export function pathOf(folder: string, name: string): string {
  return join(folder, `${name}${ending}`);
}

export function nameOf(path: string): string {
  return basename(path).replace(/\.json$/, '');
}

/** Undefined for a chat outside the folder: what is called so there is not Recua's. */
export function kvPathOf(folder: string, path: string): string | undefined {
  return isIn(folder, path) ? path.replace(/\.json$/, '.kv') : undefined;
}

function isIn(folder: string, path: string): boolean {
  return dirname(resolve(path)) === resolve(folder) && path.endsWith(ending);
}

export function lockPathOf(path: string): string {
  return `${path}.lock`;
}

/** A name must be a path segment that is safe on every system. Throws `invalid_usage`. */
export function checkSessionName(name: string): string {
  if (/^[\p{L}\p{N}][\p{L}\p{N}\p{M} ._-]*$/u.test(name) && Buffer.byteLength(name) <= longestName && !/([. ]|\.json)$/.test(name)) return name;
  throw misuse(`Expected a name of at most ${longestName} bytes of letters, digits, spaces and . _ -, beginning with a letter or digit and not ending in .json, got ${quote(name)}.`);
}

/** Builds a name from the date and the first words of a message: `2026-01-31-tell-me-a-story`. */
export function suggestName(message: string, now: Date): string {
  const pad = (number: number) => String(number).padStart(2, '0');
  const day = `${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())}`;
  const words = message.toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  let name = day;
  for (const letter of graphemes(words.slice(0, 6).map((word) => `-${word}`).join(''))) {
    if (Buffer.byteLength(name + letter) > 60) break;
    name += letter;
  }
  return name.replace(/-+$/, '');
}

/** Whether the name is automatic: that of `suggestName` for this exchange, perhaps numbered. */
export function isSuggested(name: string, first: Pick<Exchange, 'message' | 'sentAt'> | undefined): boolean {
  const begun = new Date(first?.sentAt ?? '');
  if (!first || Number.isNaN(begun.getTime())) return false;
  const stem = suggestName(first.message, begun);
  return name === stem || (name.startsWith(`${stem}-`) && /^[1-9]\d*$/.test(name.slice(stem.length + 1)));
}

/**
 * Where a new chat of that name may be saved: the name itself, then the name with a number. Leaves
 * out files that are there already, since thousands of chats may begin with the same words; others
 * may appear until the caller has the lock.
 */
export async function* placesFor(folder: string, stem: string): AsyncGenerator<string, never> {
  const there = new Set(await readdir(folder).catch(() => []));
  for (let number = 1; ; number++) {
    const path = pathOf(folder, number === 1 ? stem : `${stem}-${number}`);
    if (!there.has(basename(path))) yield path;
  }
}

/** Newest first. */
export async function listSessions(folder: string): Promise<SavedFile[]> {
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return [];
    throw unreadable(`The folder of saved chats ${folder} cannot be read`, cause);
  });
  const files = await Promise.all(names.filter((name) => name.endsWith(ending) && !name.startsWith('.')).map(async (name) => {
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    return found?.isFile() ? [{ name: nameOf(path), path, updatedMs: found.mtimeMs }] : [];
  }));
  return files.flat().sort((a, b) => b.updatedMs - a.updatedMs);
}

/**
 * The file of a saved chat, by its name, with or without .json, or by its path. Throws
 * `session_not_found` with the nearest name. `list`: the command that lists all.
 */
export async function findSession(folder: string, given: string, list = 'recua sessions list'): Promise<string> {
  const isPath = /[\\/]/.test(given);
  const isFile = isPath || given.endsWith(ending);
  const candidates = isPath ? [resolve(given)] : isFile ? [join(folder, given), resolve(given)] : [pathOf(folder, checkSessionName(given))];
  for (const path of candidates) if (await exists(path)) return path;
  if (isFile) throw new RecuaError('session_not_found', `There is no saved chat ${candidates.join(', nor ')}.`);
  const names = (await listSessions(folder)).map(({ name }) => name);
  const near = nearest(given, names) ?? names.find((name) => name.includes(given));
  throw new RecuaError('session_not_found', names.length === 0
    ? `There is no saved chat ${given}, nor any other in ${folder}.`
    : `There is no saved chat ${given}.${near === undefined ? '' : ` Did you mean ${near}?`} All of them: ${list}`);
}

export async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

/** `shown`: what an error calls it. */
export async function loadSession(path: string, shown = path): Promise<Session> {
  return readSession(await sessionText(path), shown);
}

export async function sessionText(path: string): Promise<string> {
  return await readLinkedFile(path, mostBytes).catch((cause: unknown) => {
    throw unreadable(`The saved chat ${path} cannot be read`, cause);
  });
}

/** Writes the file atomically, readable only by the user. Returns its text. */
export async function saveSession(path: string, session: Session): Promise<string> {
  try {
    const text = writeSession(session);
    await makeSessionFolder(dirname(path));
    // A link stays one.
    await replaceFile(await realpath(path).catch(() => path), text);
    return text;
  } catch (cause) {
    throw unreadable(`The chat cannot be saved as ${path}`, cause);
  }
}

/** A draft has a name that only Recua makes: `removeDrafts` deletes those that are left. */
async function replaceFile(path: string, text: string): Promise<void> {
  const draft = draftName(`${path}.`);
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(draft, path);
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(draft, { force: true });
    throw error;
  }
}

export async function makeSessionFolder(folder: string): Promise<void> {
  await createFolder(folder, 0o700).catch((cause: Error) => {
    throw new RecuaError('store_unwritable', `Chats cannot be saved in ${folder}: ${cause.message}`, { cause });
  });
}

/**
 * Throws `session_not_found` for a file that is not a saved chat. In the folder of saved chats each
 * .json is one, even if it is damaged.
 */
export async function checkIsChat(folder: string, path: string): Promise<void> {
  if (isIn(folder, path)) return;
  await loadSession(path).catch((cause: unknown) => {
    throw new RecuaError('session_not_found', `Expected a saved chat, got ${path}. To remove another file, delete it yourself.`, { cause });
  });
}

export async function removeSession(folder: string, path: string): Promise<void> {
  try {
    await rm(path);
    const kv = kvPathOf(folder, path);
    if (kv !== undefined) await rm(kv, { force: true });
    await removeDrafts(path);
  } catch (cause) {
    throw unreadable(`The saved chat ${path} cannot be removed`, cause);
  }
}

/**
 * Removes what a program left that was killed while it saved the chat or its KV. Only for the
 * holder of the chat's lock: nobody else writes then.
 */
export async function removeDrafts(path: string): Promise<void> {
  const folder = dirname(path);
  const stems = [basename(path), `${nameOf(path)}.kv`];
  const names = (await readdir(folder)).filter((name) => stems.some((stem) => isDraft(name, `${stem}.`)));
  await Promise.all(names.map((name) => rm(join(folder, name), { force: true })));
}

/** Renames a saved chat of the folder. The new name must be free. */
export async function moveSession(folder: string, from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
    const [kv, newKv] = [kvPathOf(folder, from), kvPathOf(folder, to)];
    if (kv !== undefined && newKv !== undefined) {
      await rename(kv, newKv).catch((cause: NodeJS.ErrnoException) => { if (cause.code !== 'ENOENT') throw cause; });
    }
  } catch (cause) {
    throw unreadable(`The chat ${nameOf(from)} cannot be renamed`, cause);
  }
}
