// The limit on the disk space for conversations of all unloaded models: the oldest files are
// removed first. Used by the engine process before each file that it writes, and by the gateway.
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Extension of complete files; other files in a model's folder are drafts. */
export const stateEnding = '.kv';
/** In a model's subfolder of a lasting folder: the file with the model's name. */
export const nameFile = 'model';

interface Found {
  path: string;
  sizeBytes: number;
  usedMs: number;
}

/**
 * States and drafts in the folders of `root`. Ignores files that vanish meanwhile, and what no
 * engine wrote.
 */
async function filesOf(root: string): Promise<Found[]> {
  const folders = await readdir(root, { withFileTypes: true });
  const found = await Promise.all(folders.filter((entry) => entry.isDirectory()).map(async ({ name }) => {
    const folder = join(root, name);
    const names = (await readdir(folder).catch(() => [])).filter((file) => file !== nameFile);
    return await Promise.all(names.map(async (file) => {
      const path = join(folder, file);
      const found = await lstat(path).catch(() => undefined);
      return found?.isFile() ? { path, sizeBytes: found.size, usedMs: found.mtimeMs } : undefined;
    }));
  }));
  return found.flat().filter((file) => file !== undefined);
}

/**
 * Removes files last used before `usedMs`, the oldest first, until `bytes` more fit. If that is not
 * enough, removes nothing and resolves false.
 */
export async function makeRoom(root: string, bytes: number, limitBytes: number, usedMs = Infinity): Promise<boolean> {
  const files = (await filesOf(root)).sort((a, b) => a.usedMs - b.usedMs);
  let excess = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, bytes) - limitBytes;
  const gone: Found[] = [];
  for (const file of files) {
    if (excess <= 0 || file.usedMs >= usedMs) break;
    gone.push(file);
    excess -= file.sizeBytes;
  }
  if (excess > 0) return false;
  await Promise.all(gone.map(({ path }) => rm(path, { force: true })));
  return true;
}
