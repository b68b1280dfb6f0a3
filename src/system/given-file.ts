// Reads small files that a person names: settings, keys, templates, schemas. Unlike the files of
// small-file these may be links, and pipes: `--api-key-file <(pass show recua)`. But nobody waits
// for ever for a pipe, or reads a device without an end into memory.
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { RecuaError, unreadable } from '../errors.js';

const mostBytes = 16 * 2 ** 20;
const pieceBytes = 64 * 1024;
const restMs = 10;

/**
 * How long a pipe may stay silent: without a program that writes to it, and with one, which may
 * have to ask for a passphrase.
 */
export const pipePatience = { nobodyMs: 5_000, somebodyMs: 60_000 };

/** The text of a file, or of a pipe until its end. Rejects with an error that says why not. */
export async function readGivenFile(path: string, patience = pipePatience): Promise<string> {
  // Without O_NONBLOCK, opening a pipe waits for its writer, and nothing can end that.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    return await readAll(file, patience);
  } finally {
    await file.close();
  }
}

/**
 * As `readGivenFile`, with an error that names the file.
 * @throws RecuaError `file_unreadable`
 */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readGivenFile(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') throw new RecuaError('file_unreadable', `${path} cannot be read: there is no such file.`, { cause });
    throw unreadable(`${path} cannot be read`, cause);
  }
}

/**
 * As `readTextFile`, where an empty text would count as no file, which nobody means.
 * @throws RecuaError `file_unreadable`
 */
export async function readFilledFile(path: string): Promise<string> {
  const read = await readTextFile(path);
  if (read === '') throw new RecuaError('file_unreadable', `${path} is empty.`);
  return read;
}

async function readAll(file: FileHandle, { nobodyMs, somebodyMs }: typeof pipePatience): Promise<string> {
  const isPipe = (await file.stat()).isFIFO();
  const pieces: Buffer[] = [];
  let length = 0;
  let silentSinceMs = performance.now();
  for (;;) {
    const piece = Buffer.allocUnsafe(pieceBytes);
    const read = await readSome(file, piece);
    if (read !== undefined && read > 0) {
      pieces.push(piece.subarray(0, read));
      length += read;
      if (length > mostBytes) throw new Error(`it is larger than ${mostBytes} bytes`);
      silentSinceMs = performance.now();
      continue;
    }
    // A pipe that nobody has written to yet looks like one at its end.
    if (read === 0 && (!isPipe || length > 0)) return Buffer.concat(pieces).toString();
    const waitMs = read === 0 ? nobodyMs : somebodyMs;
    if (performance.now() - silentSinceMs >= waitMs) throw new Error(`it is a pipe, and nothing came from it in ${waitMs / 1_000} seconds`);
    await new Promise((resolve) => setTimeout(resolve, restMs));
  }
}

/** The number of bytes; undefined if none are there yet. */
async function readSome(file: FileHandle, piece: Buffer): Promise<number | undefined> {
  try {
    return (await file.read(piece, 0, piece.length, null)).bytesRead;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EAGAIN') return undefined;
    throw cause;
  }
}
