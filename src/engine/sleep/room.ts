// The limit on what models that are not loaded keep on disk, all together: the oldest files go
// first. Used by the engine process in front of each file that it writes, and by the gateway.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Of a file that is whole; others in a model's folder are drafts. */
export const stateEnding = '.kv';

interface Found {
  path: string;
  sizeBytes: number;
  usedMs: number;
}

/** Files in the folders of `root`. What vanishes meanwhile is not there. */
async function filesOf(root: string): Promise<Found[]> {
  const folders = await readdir(root, { withFileTypes: true });
  const found = await Promise.all(folders.filter((entry) => entry.isDirectory()).map(async ({ name }) => {
    const folder = join(root, name);
    const names = await readdir(folder).catch(() => []);
    return await Promise.all(names.map(async (file) => {
      const path = join(folder, file);
      return await stat(path).then(({ size, mtimeMs }) => ({ path, sizeBytes: size, usedMs: mtimeMs }), () => undefined);
    }));
  }));
  return found.flat().filter((file) => file !== undefined);
}

/**
 * Removes files that were used before `usedMs`, the oldest first, until so many more bytes fit.
 * Removes nothing and resolves false where that would not do.
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
