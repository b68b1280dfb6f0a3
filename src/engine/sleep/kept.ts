// Lists and clears the folder of conversations that outlive servers, by model. For `recua cache`.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readSmallFile } from '../../system/small-file.js';
import { nameFile, stateEnding } from './room.js';
import { mostNameBytes } from './sleep-cache.js';

export interface KeptModel {
  id: string;
  conversations: number;
  sizeBytes: number;
  /** Last use of any of them; ms since 1970. */
  usedMs: number;
  folder: string;
}

/** Largest first. Ignores folders that no server made. */
export async function listKept(root: string): Promise<KeptModel[]> {
  return (await listFolders(root)).filter(({ conversations }) => conversations > 0).sort((a, b) => b.sizeBytes - a.sizeBytes);
}

async function listFolders(root: string): Promise<KeptModel[]> {
  const names = await readdir(root).catch(() => []);
  const found = await Promise.all(names.map(async (name) => {
    const folder = join(root, name);
    const id = await readSmallFile(join(folder, nameFile), mostNameBytes).catch(() => undefined);
    if (id === undefined) return undefined;
    const files = (await readdir(folder)).filter((file) => file.endsWith(stateEnding));
    const stats = await Promise.all(files.map((file) => stat(join(folder, file)).catch(() => undefined)));
    const sizeBytes = stats.reduce((sum, one) => sum + (one?.size ?? 0), 0);
    return { id, conversations: files.length, sizeBytes, usedMs: Math.max(0, ...stats.map((one) => one?.mtimeMs ?? 0)), folder };
  }));
  return found.filter((one) => one !== undefined);
}

/**
 * Removes the conversations of a model, by its names, or of all, and unfinished ones; resolves to
 * those that were finished. A running server evaluates missing conversations again, and continues
 * to write to the folder.
 */
export async function clearKept(root: string, names?: ReadonlySet<string>): Promise<KeptModel[]> {
  const gone = (await listFolders(root)).filter(({ id }) => names === undefined || names.has(id));
  await Promise.all(gone.map(async ({ folder }) => {
    const files = (await readdir(folder).catch(() => [])).filter((name) => name !== nameFile);
    await Promise.all(files.map((name) => rm(join(folder, name), { recursive: true, force: true })));
  }));
  return gone.filter(({ conversations }) => conversations > 0);
}
