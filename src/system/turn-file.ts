// The file through which one user's engines take turns at the machine's cores (format:
// native/thread/machine_turn.h). Its folder belongs to the user alone, because any writer could
// stall the engines. Used where a context is opened.
import { lstatSync, readlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { createFolderSync } from './create-folder.js';

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
