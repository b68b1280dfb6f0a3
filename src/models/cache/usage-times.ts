// When each model was last used: one empty file per model, whose modification time is the answer,
// so that writing needs neither a lock nor a list. Called by the commands that run a model, and by
// `list`.
import { createHash } from 'node:crypto';
import { rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Places } from '../places.js';
import { createFolder } from '../../system/create-folder.js';

/** What identifies a model here. */
export function usageKey({ repo, file }: { repo: string; file: string }): string {
  return `${repo}/${file}`;
}

/** Never fails: no command depends on it, and the state folder may be read-only. */
export async function writeUsage(places: Places, key: string): Promise<void> {
  const path = stampOf(places, key);
  try {
    const now = new Date();
    await utimes(path, now, now).catch(async () => {
      await createFolder(join(places.state, 'used'));
      await writeFile(path, '');
    });
  } catch { /* See above. */ }
}

/** In milliseconds since 1970; undefined if never. */
export async function readUsage(places: Places, key: string): Promise<number | undefined> {
  return await stat(stampOf(places, key)).then((found) => found.mtimeMs, () => undefined);
}

export async function forgetUsage(places: Places, key: string): Promise<void> {
  await rm(stampOf(places, key), { force: true }).catch(() => { /* As above. */ });
}

function stampOf(places: Places, key: string): string {
  return join(places.state, 'used', createHash('sha256').update(key).digest('hex').slice(0, 32));
}
