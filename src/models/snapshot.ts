// The files of a repository that are in the cache, as far as they are known without the hub. Used by pull where there is no network.
import { readFile, readdir, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { repoFolder } from './hub-cache.js';
import type { HubFile } from './hub.js';
import { checkRevision, isRepoFile } from './safe-names.js';

/** What a revision was when it was last asked for; undefined where it never was. Hashes are not known here. */
export async function cachedFiles(cache: string, repo: string, revision: string): Promise<{ folder: string; files: HubFile[] } | undefined> {
  const home = repoFolder(cache, repo);
  const ref = await readFile(join(home, 'refs', ...checkRevision(revision)), 'utf8').then((text) => text.trim(), () => revision);
  if (!/^[0-9a-f]{40}$/.test(ref)) return undefined;
  const folder = join(home, 'snapshots', ref);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files: HubFile[] = [];
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    // A link to a blob that is gone is no file.
    const found = await stat(path).catch(() => undefined);
    if (!found?.isFile()) continue;
    const name = path.slice(folder.length + 1).split(sep).join('/');
    // A name that other programs may store and this one may not is none of a model to look for.
    if (!isRepoFile(name)) continue;
    files.push({ path: name, sizeBytes: found.size, etag: '', hash: 'sha256' });
  }
  return { folder, files };
}
