// A lock between processes: a file that names its holder. Recua takes over the lock of a dead
// process immediately. (Existing packages judge by age alone, so a killed holder blocks for
// seconds; Node has no flock.) Used by downloads, the model store, the managed server and
// background responses.
import { link, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createHash, randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError } from '../errors.js';
import { createFolder } from './create-folder.js';
import { lifeOf, ownIdentity, readIdentity } from './process-identity.js';
import type { ProcessIdentity } from './process-identity.js';
import { readSmallFile } from './small-file.js';
import { worked } from './without-links.js';

export interface Lock {
  readonly path: string;
  /** False once somebody has removed the file. */
  isHeld(): Promise<boolean>;
  /** Idempotent. */
  release(): Promise<void>;
}

/** How often the holder touches the file, to show that it lives to processes that cannot see it. */
const touchMs = 10_000;
const abandonedMs = 60_000;
/** Between two tries to release a lock that cannot be read, as when too many files are open. */
const releaseMs = 1_000;
/** A mark takes about 200 bytes. */
const longestMarkBytes = 4096;

/**
 * Takes the lock, or resolves to undefined if another process or another part of this one holds it.
 */
export async function tryLock(path: string): Promise<Lock | undefined> {
  await createFolder(dirname(path));
  const { pid, ...identity } = await ownIdentity();
  const mark = JSON.stringify({ pid, ...identity, lock: randomUUID() });
  const draft = `${path}.${randomUUID()}`;
  try {
    // Readable by others: several users can share a store and need to see who holds a lock.
    await writeFile(draft, mark, { mode: 0o644, flag: 'wx' });
    for (;;) {
      if (await place(draft, path, mark)) return hold(path, mark);
      const found = await contents(path);
      if (found === undefined) continue;
      if (!isEmpty(found) && !isMark(found)) throw new RecuaError('store_unwritable', `${path} is in the way: Recua needs that name for a lock, and did not write this file. Use another name, or move the file.`);
      if (await isHeld(path, found)) return undefined;
      await takeAway(path, found);
    }
  } finally {
    await rm(draft, { force: true });
  }
}

/** Takes the lock as soon as it is free; an abort rejects with the signal's reason. */
export async function waitForLock(path: string, signal?: AbortSignal, pollMs = 100): Promise<Lock> {
  for (;;) {
    signal?.throwIfAborted();
    const lock = await tryLock(path);
    if (lock) return lock;
    await wait(pollMs);
  }
}

/** Whether no live process holds the lock; false if that cannot be seen now. */
export async function isFree(path: string): Promise<boolean> {
  try {
    const found = await contents(path);
    return found === undefined || !(await isHeld(path, found));
  } catch {
    return false;
  }
}

/** Who holds the lock; undefined if no live process does. */
export async function lockHolder(path: string): Promise<ProcessIdentity | undefined> {
  const found = await contents(path).catch(() => undefined);
  return found !== undefined && await isHeld(path, found) ? readMark(found) : undefined;
}

/**
 * False if the file is there. It appears complete or not at all; but where there are no links, as
 * on exFAT, it is empty for a moment.
 */
async function place(draft: string, path: string, mark: string): Promise<boolean> {
  let isNew = false;
  const linking = succeeds(link(draft, path), 'EEXIST').then((done) => void (isNew = done));
  if (await worked(linking)) return isNew;
  return await succeeds(writeFile(path, mark, { mode: 0o644, flag: 'wx' }), 'EEXIST');
}

function hold(path: string, mark: string): Lock {
  const timer = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => { /* Taken away: whoever did that knows. */ });
  }, touchMs);
  timer.unref();
  let released: Promise<void> | undefined;
  const isHeld = async (): Promise<boolean> => await contents(path) === mark;
  return {
    path,
    isHeld,
    release: () => (released ??= (async () => {
      clearInterval(timer);
      const remove = async (): Promise<void> => {
        if (await isHeld()) await rm(path, { force: true });
      };
      // Otherwise it would be held as long as this process lives.
      await remove().catch(() => {
        const again = setInterval(() => void remove().then(() => clearInterval(again), () => undefined), releaseMs).unref();
      });
    })()),
  };
}

async function isHeld(path: string, mark: string): Promise<boolean> {
  // Its holder writes it just now.
  if (isEmpty(mark)) return await touchedWithin(path, touchMs);
  const holder = readMark(mark);
  if (!holder) return false;
  const life = await lifeOf(holder);
  return life === 'unknown' ? await touchedWithin(path, abandonedMs) : life === 'alive';
}

async function touchedWithin(path: string, withinMs: number): Promise<boolean> {
  return justNow(await stat(path).then((found) => found.mtimeMs, () => 0), withinMs);
}

/**
 * Removes a dead holder's file. Needs the claim on exactly this mark, so that no process removes
 * the file of one that just took over.
 */
async function takeAway(path: string, mark: string): Promise<void> {
  const claim = `${path}.${createHash('sha256').update(mark).digest('hex').slice(0, 16)}`;
  if (await succeeds(writeFile(claim, '', { flag: 'wx' }), 'EEXIST')) {
    if (await contents(path) === mark) await rm(path, { force: true });
    await rm(claim, { force: true });
    return;
  }
  // Held for a few system calls, unless its owner dies in that moment.
  const claimed = await stat(claim).then((found) => found.ctimeMs, () => undefined);
  if (claimed !== undefined && !justNow(claimed, touchMs)) await rm(claim, { force: true });
  await wait(5);
}

/** A time well ahead is from before the clock was set back: nothing may wait until then. */
function justNow(timeMs: number, withinMs: number): boolean {
  return Math.abs(Date.now() - timeMs) < withinMs;
}

async function succeeds(action: Promise<void>, otherwise: string): Promise<boolean> {
  try {
    await action;
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === otherwise) return false;
    throw error;
  }
}

/**
 * Undefined if there is no file. An unreadable file is an error: nobody could tell when the lock is
 * free.
 */
async function contents(path: string): Promise<string | undefined> {
  return await readSmallFile(path, longestMarkBytes).catch((cause: unknown) => {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new RecuaError('store_unwritable', `The lock ${path} cannot be read (${message}). It may belong to another user; remove it if that user runs nothing.`, { cause });
  });
}

/** Whether it is a lock's text, perhaps cut off. */
function isMark(mark: string): boolean {
  return '{"pid":'.startsWith(mark.slice(0, 7)) || readMark(mark) !== undefined;
}

/** After a power loss, there may be zeros in the place of what was written. */
function isEmpty(mark: string): boolean {
  return /^\0*$/.test(mark);
}

function readMark(mark: string): ProcessIdentity | undefined {
  try {
    return readIdentity(JSON.parse(mark));
  } catch {
    return undefined;
  }
}
