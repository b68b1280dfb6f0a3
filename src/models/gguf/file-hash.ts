// A file's sha256, and the sha256 it had when it entered the store, which names its blob there.
// Called by show.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { unreadable } from '../../errors.js';

export interface FileHash {
  file: string;
  sha256: string;
  /** Null if nothing is known about the file. */
  expected: string | null;
}

export async function hashFile(file: string): Promise<FileHash> {
  const hash = createHash('sha256');
  try {
    const real = await realpath(file);
    for await (const chunk of createReadStream(real, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
    return { file, sha256: hash.digest('hex'), expected: storedAs(real) };
  } catch (cause) {
    throw unreadable(`${file} cannot be read`, cause);
  }
}

/** The name of a blob. */
function storedAs(path: string): string | null {
  return basename(dirname(path)) === 'blobs' && /^[0-9a-f]{64}$/.test(basename(path)) ? basename(path) : null;
}
