// A folder for temporary files of this process, private to the user. It is removed at the end of
// the process; if that was killed, when another process of the user looks for such folders. Used
// for conversations of unloaded models, and by servers that programs mount.
import { mkdtempSync, rmSync } from 'node:fs';
import { lstat, readdir, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lifeOf, ownIdentity, readIdentity } from './process-identity.js';
import { readSmallFile } from './small-file.js';

/** The file in it that names its process. */
const ownerName = 'owner';
const mostOwnerBytes = 64 * 1024;
/** Younger folders without that file may still be in the making. */
const makingMs = 60_000;

/** With retries, since a process that is just ending may still write there. */
const removal = { recursive: true, force: true, maxRetries: 3 };

const made = new Set<string>();

export class ProcessFolder {
  readonly path: string;
  /** Resolves when other processes can see whose it is, or if the system does not tell that. */
  readonly owned: Promise<void>;

  /** Throws the system's error. `prefix`: begins its name. */
  constructor(parent: string, prefix: string) {
    // Node gives it the mode 0700.
    this.path = mkdtempSync(join(parent, prefix));
    if (made.size === 0) process.on('exit', removeAll);
    made.add(this.path);
    this.owned = ownIdentity().then((own) => writeFile(join(this.path, ownerName), JSON.stringify(own), { mode: 0o600 })).catch(() => {});
  }

  /** With all that is in it. */
  async remove(): Promise<void> {
    await this.owned;
    await rm(this.path, removal);
    made.delete(this.path);
    if (made.size === 0) process.off('exit', removeAll);
  }
}

function removeAll(): void {
  for (const path of made) {
    try {
      rmSync(path, removal);
    } catch {
      // The next process removes it.
    }
  }
}

/** Removes folders of processes that could not do so: killed ones, or from before a power loss. */
export async function removeLeftOvers(parent: string, prefix: string): Promise<void> {
  const names = await readdir(parent).catch(() => []);
  // As mkdtemp makes them; others are not ours.
  const own = names.filter((name) => name.startsWith(prefix) && /^[a-zA-Z0-9]{6}$/.test(name.slice(prefix.length)));
  // Errors are ignored: other users' folders cannot be removed.
  await Promise.all(own.map((name) => removeIfLeft(join(parent, name)).catch(() => {})));
}

async function removeIfLeft(folder: string): Promise<void> {
  const found = await lstat(folder);
  const user = process.getuid?.();
  if (!found.isDirectory() || (user !== undefined && found.uid !== user)) return;
  const text = await readSmallFile(join(folder, ownerName), mostOwnerBytes).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw cause;
  });
  if (text === undefined) {
    // Fails if there is anything in it: its process may live.
    if (Date.now() - found.mtimeMs > makingMs) await rmdir(folder);
    return;
  }
  const owner = readIdentity(JSON.parse(text));
  if (owner && await lifeOf(owner) === 'dead') await rm(folder, { recursive: true, force: true });
}
