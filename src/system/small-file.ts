// Reads small files that other processes write: journals, locks, refs. None is trusted: Recua must
// not follow a link, wait for a pipe, or fill its memory with an endless file.
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

const pieceBytes = 64 * 1024;

/**
 * The text of a file of at most `mostBytes`. Rejects with the system's error if the file cannot be
 * opened (a link: ELOOP), and with its own error if it is not a regular file or is too large.
 */
export async function readSmallFile(path: string, mostBytes: number): Promise<string> {
  const file = await openRegular(path);
  try {
    const found = await file.stat();
    // Ignore data written meanwhile.
    const bytes = Buffer.alloc(Math.min(found.size, mostBytes + 1));
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read) read = (await file.read(bytes, length, bytes.length - length, length)).bytesRead;
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

async function openRegular(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0));
  try {
    if ((await file.stat()).isFile()) return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
  await file.close();
  throw new Error(`${path} is not a regular file`);
}
