// Bytes readable at any offset: a file on disk, or a file of the hub read by ranges. The GGUF
// reader's input.
import { constants, statSync } from 'node:fs';
import { open, stat as statOf } from 'node:fs/promises';
import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { RecuaError, unreadable } from '../../errors.js';

export interface ByteSource {
  /** Name for users and errors: a path, or `owner/repo/file`. */
  readonly name: string;
  readonly sizeBytes: number;
  /** For a file on disk: changes whenever its contents change. */
  readonly mark?: string;
  /** For a file on disk: when it last changed, in seconds since 1970. */
  readonly modifiedSeconds?: number;
  /**
   * Fills `target` from `offset`, as far as there are bytes; resolves to the number of bytes read.
   */
  read(target: Buffer, offset: number): Promise<number>;
  close(): Promise<void>;
}

/**
 * A file on disk. Throws `model_not_found` if there is none, `file_unreadable` for anything but a
 * readable regular file.
 */
export async function fileSource(path: string): Promise<ByteSource> {
  const file = await openFile(path);
  try {
    const stat = await file.stat({ bigint: true });
    if (!stat.isFile()) throw new RecuaError('file_unreadable', `${path} is ${stat.isDirectory() ? 'a folder' : 'not a regular file'}; expected a GGUF file.`);
    return {
      name: path,
      sizeBytes: Number(stat.size),
      mark: markOf(stat),
      modifiedSeconds: Number(stat.mtimeNs / 1_000_000_000n),
      read: async (target, offset) => (await file.read(target, 0, target.length, offset)).bytesRead,
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Opens without blocking, so that a named pipe without a writer is rejected instead of waited for.
 */
async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') throw new RecuaError('model_not_found', `There is no file ${path}.`, { cause });
    throw unreadable(`${path} cannot be opened`, cause);
  }
}

/** The file's current mark; undefined if there is no file. */
export async function readMark(path: string): Promise<string | undefined> {
  return await statOf(path, { bigint: true }).then(markOf, () => undefined);
}

/** What of a mark a new owner, mode or link of the file does not change. */
export function writtenPart(mark: string): string {
  return mark.slice(0, mark.lastIndexOf(':'));
}

/**
 * Whether the file that had this mark has been written to since then. False if it is gone, or if
 * another file has its name now: a process that mapped it still has its bytes. A new owner, mode or
 * link changes the mark, but no bytes.
 */
export function isOverwritten(path: string, mark: string): boolean {
  const [dev, ino, size, mtimeNs] = mark.split(':').map(BigInt);
  try {
    const now = statSync(path, { bigint: true });
    return now.dev === dev && now.ino === ino && (now.size !== size || now.mtimeNs !== mtimeNs);
  } catch {
    return false;
  }
}

/** No program can set a file's ctime, so the same mark means the same contents. */
function markOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':');
}
