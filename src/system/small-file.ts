// Reads small files that other processes write: journals, locks, refs. None is trusted: Recua must
// not follow a link, wait for a pipe, or fill its memory with an endless file.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * The text of a file of at most `mostBytes`. Rejects with the system's error if the file cannot be
 * opened (a link: ELOOP), and with its own error if it is not a regular file or is too large.
 */
export async function readSmallFile(path: string, mostBytes: number): Promise<string> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0));
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error(`${path} is not a regular file`);
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
