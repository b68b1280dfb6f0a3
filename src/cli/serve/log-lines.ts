// Lines of a log that is kept in several files: the last of them, and those still to come.
import { open, readFile, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';

const pollMs = 200;
/** Read at once; far more than a poll brings. */
const pieceBytes = 1 << 20;

/**
 * The last lines over all of the files, which are given newest first; of the newest only what is
 * before `end`. A missing file is an empty one.
 */
export async function lastLines(files: readonly string[], count: number, end?: LogEnd): Promise<string[]> {
  let lines: string[] = [];
  for (const [at, file] of files.entries()) {
    if (lines.length >= count) break;
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    const text = bytes.subarray(0, at === 0 ? end?.offset : undefined).toString('utf8');
    lines = [...text.split('\n').filter((line, at, all) => at < all.length - 1 || line !== ''), ...lines];
  }
  return count === 0 ? [] : lines.slice(-count);
}

/**
 * Gives of lines, in the order of the log, those about one request: they begin with its id behind
 * time and level, and what is indented below such a line belongs to it; or they are JSON that names
 * it.
 */
export function linesAbout(request: string): (lines: readonly string[]) => string[] {
  let isAbout = false;
  return (lines) => lines.filter((line) => {
    if (line.startsWith('{')) return (isAbout = fieldOf(line, 'request_id') === request);
    const [, text = ''] = /^\S+ \S+ {1,2}(\S.*)$/.exec(line) ?? [];
    if (text !== '') isAbout = text === request || text.startsWith(`${request} `);
    return isAbout;
  });
}

/** A text in a line of JSON; undefined where that has none, or is none. */
export function fieldOf(line: string, name: string): string | undefined {
  try {
    const value = (JSON.parse(line) as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Where a reader of a log has got to. The file is known by its inode, which it keeps when it is set
 * aside.
 */
export interface LogEnd {
  inode: number;
  offset: number;
}

/** The end of the newest file as it is now; undefined while there is none. */
export async function endOf(file: string): Promise<LogEnd | undefined> {
  const found = await stat(file).catch(() => undefined);
  return found && { inode: found.ino, offset: found.size };
}

/**
 * Everything that is written after `from`, as it comes, across rotations, until the signal aborts.
 */
export async function* follow(files: readonly string[], from: LogEnd | undefined, signal: AbortSignal): AsyncGenerator<string> {
  let end = from;
  while (!signal.aborted) {
    const found = await looked(files);
    // The file that was read has become an older one, or, if it is gone, so has all that it held.
    const at = end === undefined ? -1 : found.findIndex((one) => one?.inode === end!.inode);
    const oldest = at >= 0 ? at : end === undefined ? 0 : found.findLastIndex((one) => one !== undefined);
    for (let index = oldest; index >= 0; index--) {
      const file = found[index];
      if (!file) continue;
      const start = index === at && end!.offset <= file.offset ? end!.offset : 0;
      const read: LogEnd = { inode: file.inode, offset: start };
      const whole = yield* readFrom(files[index]!, read);
      // Set aside in just this moment: the next look finds it under its other name.
      if (!whole) break;
      end = read;
    }
    await wait(pollMs, undefined, { signal }).catch(() => undefined);
  }
}

/**
 * Where each of the files ends, all of them at one moment: looked at again where a name came to
 * mean another file meanwhile.
 */
async function looked(files: readonly string[]): Promise<(LogEnd | undefined)[]> {
  let before: (LogEnd | undefined)[] = [];
  for (;;) {
    const now = await Promise.all(files.map((file) => endOf(file)));
    // Two looks that agree, the second begun when the first had ended: between them the names stood
    // so.
    if (before.length > 0 && now.every((one, at) => one?.inode === before[at]?.inode)) return now;
    before = now;
  }
}

/**
 * Moves `at` on as it reads; gives false, and nothing, where the name has come to mean another
 * file.
 */
async function* readFrom(file: string, at: LogEnd): AsyncGenerator<string, boolean> {
  // Opened for each look and closed again, so that no open handle keeps the file from being
  // renamed.
  const handle = await open(file, 'r').catch(() => undefined);
  if (!handle) return false;
  try {
    if ((await handle.stat()).ino !== at.inode) return false;
    for (;;) {
      const piece = await wholeLines(handle, at.offset);
      if (piece.length === 0) return true;
      at.offset += piece.length;
      yield piece.toString('utf8');
    }
  } finally {
    await handle.close();
  }
}

/**
 * What is there from an offset up to the last line break, so that no letter of several bytes is
 * cut.
 */
async function wholeLines(handle: FileHandle, offset: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(pieceBytes), 0, pieceBytes, offset);
  const piece = buffer.subarray(0, bytesRead);
  const last = piece.lastIndexOf(0x0a);
  return last < 0 && bytesRead === pieceBytes ? piece : piece.subarray(0, last + 1);
}
