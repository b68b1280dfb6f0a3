// Reloads the file of API keys when it changes, so keys can change without a restart. An unusable
// file changes nothing.
import { readLinkedFile } from '../../system/small-file.js';
import { watchFiles } from '../../system/watched-files.js';
import type { ApiKeys, GivenKeys } from './api-keys.js';

/** `given`: the source of `keys`. Returns a function that stops watching. */
export function watchKeys(path: string, keys: ApiKeys, given: GivenKeys, log: (level: 'info' | 'warn', text: string) => void): () => void {
  let { file: before } = given;
  const tellStuck = (): void => log('warn', `The previous API keys stay in use. The system does not answer for ${path}: changes of the file have no effect.`);
  return watchFiles([path], tellStuck, async () => {
    try {
      const file = await readLinkedFile(path);
      if (file === before) return;
      if (file.trim() === '') throw new Error(`${path} is empty.`);
      keys.replace({ ...given, file });
      before = file;
      log('info', `The API keys of ${path} were read again`);
    } catch (thrown) {
      log('warn', `The previous API keys stay in use. ${(thrown as Error).message}`);
    }
  });
}
