// The hash by which the store knows contents. Called by local-import.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { RecuaError } from '../../errors.js';

/**
 * The SHA-256 of a file, in hex. Calls `onBytes` with each piece's length.
 * @throws RecuaError `file_unreadable`; the signal's reason
 */
export async function hashOf(path: string, signal: AbortSignal, onBytes: (bytes: number) => void): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) {
      hash.update(chunk as Buffer);
      onBytes((chunk as Buffer).length);
    }
  } catch (cause) {
    throw signal.aborted ? cause : new RecuaError('file_unreadable', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
  return hash.digest('hex');
}
