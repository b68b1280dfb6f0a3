// The user's home folder. Used wherever Recua finds its own files.
import { homedir, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { RecuaError } from '../errors.js';

/**
 * An absolute path. An empty HOME counts as unset, as other empty variables do.
 * @throws RecuaError `invalid_usage` if there is none
 */
export function homeFolder(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  try {
    return resolve(environment['HOME'] || homedir() || userInfo().homedir);
  } catch (cause) {
    throw new RecuaError('invalid_usage', 'Expected a home folder, but HOME is not set and the system knows none for this user. Set HOME to a folder of this user.', { cause });
  }
}
