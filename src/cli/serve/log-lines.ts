// Reads a log that spans several files: its last lines, and new lines as they come.
import { open, readFile, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';

const pollMs = 200;
/** Bytes per read; far more than arrive between two polls. */
const pieceBytes = 1 << 20;

/**
 * The last lines across all files. `files` has the newest first, which is read only up to `end`. A
 * missing file counts as empty.
 */
export async function lastLines(files: readonly string[], count: number, end?: LogEnd): Promise<string[]> {
  let lines: string[] = [];
  for (const [at, file] of files.entries()) {
    if (lines.length >= count) break;
    const bytes = await readLog(file);
    const text = bytes.subarray(0, at === 0 ? end?.offset : undefined).toString('utf8');
    lines = [...text.split('\n').filter((line, at, all) => at < all.length - 1 || line !== ''), ...lines];
  }
  return count === 0 ? [] : lines.slice(-count);
}

/** Empty if it is no regular file: reading a pipe would wait for its writer. */
export async function readLog(path: string): Promise<Buffer> {
  const isFile = await stat(path).then((found) => found.isFile(), () => false);
  return isFile ? await readFile(path).catch(() => Buffer.alloc(0)) : Buffer.alloc(0);
}

/**
 * Filters lines, given in the order of the log, for one request. A text line matches if the request
 * id follows time and level; indented lines below it belong to it. A JSON line matches by its field
 * `request_id`.
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

/** The message of a line, without its time and level. */
export function messageOf(line: string): string {
  return fieldOf(line, 'msg') ?? line.replace(/^\S+ \S+ +/, '');
}

/** Whether the line has the level `warn`. */
export function isWarning(line: string): boolean {
  return (fieldOf(line, 'level') ?? /^\S+ (\S+) /.exec(line)?.[1]) === 'warn';
}

/** A string field of a line of JSON; undefined if there is none, or if the line is not JSON. */
export function fieldOf(line: string, name: string): string | undefined {
  try {
    const value = (JSON.parse(line) as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A reader's position in a log. Rotation renames a file, but its inode stays the same. */
export interface LogEnd {
  inode: number;
  offset: number;
}

/** The current end of the newest file; undefined if there is no file. */
export async function endOf(file: string): Promise<LogEnd | undefined> {
  const found = await stat(file).catch(() => undefined);
  return found && { inode: found.ino, offset: found.size };
}

/** Yields all text written after `from`, as it comes and across rotations, until the abort. */
export async function* follow(files: readonly string[], from: LogEnd | undefined, signal: AbortSignal): AsyncGenerator<string> {
  let end = from;
  while (!signal.aborted) {
    const found = await looked(files);
    // The file read last may have been rotated. If it is gone, its unread text is lost.
    const at = found.findIndex((one) => one !== undefined && one.inode === end?.inode);
    for (let index = Math.max(at, 0); index >= 0; index--) {
      const file = found[index];
      if (!file) continue;
      const start = index === at && end!.offset <= file.offset ? end!.offset : 0;
      const read: LogEnd = { inode: file.inode, offset: start };
      const whole = yield* readFrom(files[index]!, read);
      // Rotated at this very moment: the next look finds it under its new name.
      if (!whole) break;
      end = read;
    }
    await wait(pollMs, undefined, { signal }).catch(() => undefined);
  }
}

/** The ends of all files at one moment. Looks again if a file was rotated meanwhile. */
async function looked(files: readonly string[]): Promise<(LogEnd | undefined)[]> {
  let before: (LogEnd | undefined)[] = [];
  for (;;) {
    const now = await Promise.all(files.map((file) => endOf(file)));
    // If two looks in a row agree, the names were stable between them.
    if (before.length > 0 && now.every((one, at) => one?.inode === before[at]?.inode)) return now;
    before = now;
  }
}

/** Advances `at` as it reads. Returns false without text if the name now means another file. */
async function* readFrom(file: string, at: LogEnd): AsyncGenerator<string, boolean> {
  // Opened and closed for each look, so that no open handle blocks a rename.
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

/** Reads from an offset up to the last line break, so that no multi-byte character is cut. */
async function wholeLines(handle: FileHandle, offset: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(pieceBytes), 0, pieceBytes, offset);
  const piece = buffer.subarray(0, bytesRead);
  const last = piece.lastIndexOf(0x0a);
  return last < 0 && bytesRead === pieceBytes ? piece : piece.subarray(0, last + 1);
}
