// The file by which the engines of one user take turns at the machine's cores (native/thread/
// machine_turn.h has what is in it). In a folder that is the user's alone, since whoever writes to
// the file could make them wait. Used where a context is opened.
import { lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** '' where engines take no turns: on systems other than Linux, or without such a folder. */
export function turnFile(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  const user = process.getuid?.();
  if (process.platform !== 'linux' || user === undefined) return '';
  const ofSession = environment['XDG_RUNTIME_DIR'];
  // A folder of our own in either: an engine in its sandbox may write to it, and not beside it.
  const own = ofSession && isAbsolute(ofSession) && isPrivate(ofSession, user) ? join(ofSession, 'recua') : join(tmpdir(), `recua-${user}`);
  try {
    mkdirSync(own, { recursive: true, mode: 0o700 });
  } catch {
    return '';
  }
  return isPrivate(own, user) ? join(own, 'cores') : '';
}

function isPrivate(folder: string, user: number): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === user && (found.mode & 0o077) === 0;
}
