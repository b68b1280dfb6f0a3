// The file of API keys, read again when it changes, so that keys come and go without a restart. One
// that cannot be used changes nothing.
import { readFile } from 'node:fs/promises';
import { watchFiles } from '../../system/watched-files.js';
import type { ApiKeys, GivenKeys } from './api-keys.js';

/** `given` is what `keys` were read from. Returns what ends that. */
export function watchKeys(path: string, keys: ApiKeys, given: GivenKeys, log: (level: 'info' | 'warn', text: string) => void): () => void {
  let { file: before } = given;
  return watchFiles([path], async () => {
    try {
      const file = await readFile(path, 'utf8');
      if (file === before) return;
      if (file.trim() === '') throw new Error(`${path} is empty.`);
      keys.replace({ ...given, file });
      before = file;
      log('info', `The API keys of ${path} were read again`);
    } catch (thrown) {
      log('warn', `The API keys of before still count. ${(thrown as Error).message}`);
    }
  });
}
