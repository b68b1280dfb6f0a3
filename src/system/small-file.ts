// Reads small files that other processes write: journals, locks, refs. None is trusted: Recua must
// not follow a link, wait for a pipe, or fill its memory with an endless file. Those that a person
// may have put elsewhere, with a link in their place, are named as such.
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

/** What has the name is a folder, a pipe or a device. */
export class NotRegular extends Error {}

const pieceBytes = 64 * 1024;
const mostLinkedBytes = 16 * 2 ** 20;

/**
 * The text of a file of at most `mostBytes`. Rejects with the system's error if the file cannot be
 * opened (a link: ELOOP), and with its own error if it is not a regular file or is too large.
 */
export async function readSmallFile(path: string, mostBytes: number): Promise<string> {
  return await readWhole(await openRegular(path), path, mostBytes);
}

/** The same, of a file that may be a link to another: keys, certificates, aliases. */
export async function readLinkedFile(path: string, mostBytes = mostLinkedBytes): Promise<string> {
  return await readWhole(await openRegular(path, true), path, mostBytes);
}

/** Closes the file. */
export async function readWhole(file: FileHandle, path: string, mostBytes: number): Promise<string> {
  try {
    const found = await file.stat();
    // Ignore data written meanwhile.
    const bytes = Buffer.alloc(Math.min(found.size, mostBytes + 1));
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = (await file.read(bytes, length, bytes.length - length, length)).bytesRead;
    if (length > mostBytes) throw new Error(`${path} is larger than ${mostBytes} bytes`);
    return bytes.toString('utf8', 0, length);
  } finally {
    await file.close();
  }
}

/** The same for the first line alone, which is read no further than its end. */
export async function readFirstLine(path: string, mostBytes: number): Promise<string> {
  const file = await openRegular(path);
  try {
    const pieces: Buffer[] = [];
    for (let length = 0; ;) {
      const piece = Buffer.allocUnsafe(pieceBytes);
      const { bytesRead } = await file.read(piece, 0, pieceBytes);
      const end = piece.subarray(0, bytesRead).indexOf('\n');
      pieces.push(piece.subarray(0, end < 0 ? bytesRead : end));
      if (end >= 0 || bytesRead === 0) return Buffer.concat(pieces).toString();
      length += bytesRead;
      if (length > mostBytes) throw new Error(`the first line of ${path} is larger than ${mostBytes} bytes`);
    }
  } finally {
    await file.close();
  }
}

/**
 * Opens for reading; rejects for what is not a regular file, and for a link unless it `follows`.
 */
export async function openRegular(path: string, follows = false): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (follows ? 0 : constants.O_NOFOLLOW ?? 0));
  try {
    if ((await file.stat()).isFile()) return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
  await file.close();
  throw new NotRegular(`${path} is not a regular file`);
}
