// Model aliases: one JSON file, which one process at a time replaces as a whole. An alias names a
// file in a repository, not a path, so it stays valid when the model is downloaded again.
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { RecuaError, unreadable } from '../errors.js';
import { createFolder } from '../system/create-folder.js';
import { waitForLock } from '../system/lock-file.js';
import { readLinkedFile } from '../system/small-file.js';
import { unwritable } from './cache/hub-cache.js';
import type { Places } from './places.js';

export interface AliasTarget {
  repo: string;
  /** Path inside the repository; for a split model, its first part. */
  file: string;
  /** The model was in the store before the alias; removing the alias keeps the model. */
  adopted?: boolean | undefined;
}

export type Aliases = ReadonlyMap<string, AliasTarget>;

/** Names that Recua uses for models itself. */
const reserved = new Set(['builtin', 'default']);

export function isReserved(name: string): boolean {
  return reserved.has(name.toLowerCase());
}

/**
 * How long to wait for the lock. It is held for one small write; a holder that takes longer is
 * stuck.
 */
const patienceMs = 20_000;

/** Throws `invalid_name` for a name that could be mistaken for something else. */
export function checkAlias(name: string): string {
  const refuse = (why: string) => new RecuaError('invalid_name',
    `Expected 1 to 64 letters, digits, ".", "_" or "-" for the alias, beginning with a letter or digit, got ${JSON.stringify(name.slice(0, 80))}${why}.`);
  if (isReserved(name)) throw new RecuaError('invalid_name', `Recua uses the name ${name} itself; choose another alias.`);
  if (!/^[\p{L}\p{N}][\p{L}\p{M}\p{N}._-]{0,63}$/u.test(name)) throw refuse('');
  if (/\.gguf$/i.test(name)) throw refuse(', which looks like a file');
  return name;
}

export async function readAliases(places: Places): Promise<Aliases> {
  return (await read(places)).aliases;
}

/** `others`: fields of the file that are not ours. A newer version may write some. */
async function read(places: Places): Promise<{ aliases: Map<string, AliasTarget>; others: object }> {
  const path = fileOf(places);
  let text: string;
  try {
    text = await readLinkedFile(path);
  } catch (cause) {
    if (['ENOENT', 'ENOTDIR'].includes((cause as NodeJS.ErrnoException).code ?? '')) return { aliases: new Map(), others: {} };
    throw unreadable(`The aliases in ${path} cannot be read`, cause);
  }
  const found = parse(text);
  if (!found) throw new RecuaError('file_unreadable', `Expected aliases in ${path}, got something else. Fix the file or delete it; that does not affect the models.`);
  return found;
}

/** Changes whenever the file of aliases does, also by another process. */
export async function aliasesVersion(places: Places): Promise<string> {
  const found = await stat(fileOf(places), { bigint: true }).catch(() => undefined);
  return found ? `${found.ino} ${found.mtimeNs} ${found.size}` : '';
}

/**
 * For programs that go on for long: a reader that keeps the aliases it last read while the file
 * cannot be read, and warns once of each reason.
 */
export function lastingAliases(warn: (text: string) => void): typeof readAliases {
  let last: Aliases = new Map();
  let told = '';
  return async (places) => {
    try {
      last = await readAliases(places);
      told = '';
    } catch (thrown) {
      const { message } = thrown as Error;
      if (message !== told) warn(`The previous aliases stay in use. ${message}`);
      told = message;
    }
    return last;
  };
}

/**
 * Gives a model an alias. Throws `alias_taken` if another model has it, unless `force` moves it. At
 * most one alias stands for a model: of imports at the same time, one has added it.
 */
export async function addAlias(places: Places, name: string, target: AliasTarget, force: boolean): Promise<void> {
  checkAlias(name);
  await change(places, (aliases) => {
    checkFree(aliases, name, target, force);
    const same = aliases.get(name);
    if (same && isSame(same, target)) return false;
    const hasOther = [...aliases].some(([one, { adopted, ...given }]) => one !== name && !adopted && isSame(given, target));
    aliases.set(name, hasOther ? { ...target, adopted: true } : target);
    return true;
  });
}

/** Removes the aliases that a predicate selects; resolves to their names. */
export async function removeAliases(places: Places, goes: (name: string, target: AliasTarget) => boolean): Promise<string[]> {
  const before = await readAliases(places);
  if (![...before].some(([name, target]) => goes(name, target))) return [];
  const removed: string[] = [];
  await change(places, (aliases) => {
    for (const [name, target] of aliases) {
      if (!goes(name, target)) continue;
      aliases.delete(name);
      removed.push(name);
    }
    return removed.length > 0;
  });
  return removed;
}

export function checkFree(aliases: Aliases, name: string, target: AliasTarget, force: boolean): void {
  const taken = aliases.get(name);
  if (taken === undefined || force || isSame(taken, target)) return;
  throw new RecuaError('alias_taken', `The alias ${name} names ${taken.repo}/${taken.file} already. Take another name, or give --force to move this one.`);
}

function isSame(a: AliasTarget, b: AliasTarget): boolean {
  return a.repo === b.repo && a.file === b.file;
}

/**
 * Reads, changes and replaces the file under a lock. `edit` returns whether there is something to
 * write.
 */
async function change(places: Places, edit: (aliases: Map<string, AliasTarget>) => boolean): Promise<void> {
  const path = fileOf(places);
  const lock = await waitForLock(`${path}.lock`, AbortSignal.timeout(patienceMs), 20).catch((cause: unknown) => {
    throw (cause as Error).name === 'TimeoutError'
      ? new RecuaError('store_unwritable', `Another recua has kept ${path} locked for ${patienceMs / 1000} seconds. Try again.`, { cause })
      : unwritable(path, cause);
  });
  try {
    const { aliases, others } = await read(places);
    if (!edit(aliases)) return;
    await createFolder(dirname(path));
    const sorted = Object.fromEntries([...aliases].sort(([a], [b]) => (a < b ? -1 : 1)));
    // Imported lazily: few of the readers write.
    const { default: writeFileAtomic } = await import('write-file-atomic');
    await writeFileAtomic(path, `${JSON.stringify({ ...others, aliases: sorted }, null, 2)}\n`);
  } catch (cause) {
    throw unwritable(path, cause);
  } finally {
    await lock.release();
  }
}

function parse(text: string): Awaited<ReturnType<typeof read>> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { aliases: entries, ...others } = (value ?? {}) as { aliases?: unknown };
  if (typeof entries !== 'object' || entries === null || Array.isArray(entries)) return undefined;
  const aliases = new Map<string, AliasTarget>();
  for (const [name, target] of Object.entries(entries as Record<string, unknown>)) {
    const { repo, file, adopted, ...more } = (target ?? {}) as Record<string, unknown>;
    if (typeof repo !== 'string' || typeof file !== 'string') return undefined;
    aliases.set(name, { ...more, repo, file, ...(adopted === true ? { adopted } : {}) });
  }
  return { aliases, others };
}

function fileOf(places: Places): string {
  return join(places.state, 'aliases.json');
}
