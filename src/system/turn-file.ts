// The file through which one user's engines take turns at the machine's cores (format:
// native/thread/machine_turn.h). Its folder belongs to the user alone, because any writer could
// stall the engines. Used where a context is opened.
import { lstatSync, readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { createFolderSync } from './create-folder.js';
import { openRegular } from './small-file.js';

/**
 * Cleaners of temporary files remove what nobody has touched for some time, even if it is in use.
 * The specification of XDG_RUNTIME_DIR allows them 6 hours.
 */
const touchMs = 3 * 3_600_000;

let touching: NodeJS.Timeout | undefined;

/** `turnFile()`, which stays from now on as long as this process. */
export function keptTurnFile(): string {
  const path = turnFile();
  if (path !== '') touching ??= setInterval(() => void touch(path).catch(() => {}), touchMs).unref();
  return path;
}

/** Makes the file, whose name the addon completes with its version, look used. */
export async function touch(path: string): Promise<void> {
  const now = new Date();
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(`${basename(path)}-`)) continue;
    // The sandbox lets an engine change the times of open files only.
    const file = await openRegular(join(dirname(path), name));
    await file.utimes(now, now).finally(() => file.close());
  }
}

/** '' if engines take no turns: on systems other than Linux, or without such a folder. */
export function turnFile(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  const user = process.getuid?.();
  if (process.platform !== 'linux' || user === undefined) return '';
  const ofSession = environment['XDG_RUNTIME_DIR'];
  // Use a subfolder of our own in both cases: a sandboxed engine may write there but not beside it.
  const own = ofSession && isAbsolute(ofSession) && isPrivate(ofSession, user) ? join(ofSession, 'recua') : join(tmpdir(), `recua-${user}`);
  try {
    createFolderSync(own, 0o700);
  } catch {
    return '';
  }
  return isPrivate(own, user) ? join(own, `cores${processNamespace()}`) : '';
}

/**
 * Containers may share the folder but not the numbers of processes: each would take the other's
 * engines for dead, or its own for the other's.
 */
function processNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/^pid:\[(\d+)\]$/, '-$1');
  } catch {
    return '';
  }
}

function isPrivate(folder: string, user: number): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === user && (found.mode & 0o077) === 0;
}
