// Reloads the file of API keys when it changes, so keys can change without a restart. An unusable
// file changes nothing.
import { readLinkedFile } from '../../system/small-file.js';
import { watchFiles } from '../../system/watched-files.js';
import type { ApiKeys, GivenKeys } from './api-keys.js';

/**
 * `given`: the source of `keys`; `heard` is called when they changed. Returns a function that stops
 * watching.
 */
export function watchKeys(path: string, keys: ApiKeys, given: GivenKeys, log: (level: 'info' | 'warn', text: string) => void, heard = (): void => undefined): () => void {
  let { file: before } = given;
  const tellStuck = (): void => log('warn', `The previous API keys stay in use. The system does not answer for ${path}: changes of the file have no effect.`);
  let told = '';
  const refuse = (why: string): void => log('warn', `The previous API keys stay in use. ${why}`);
  return watchFiles([path], tellStuck, async () => {
    const file = await readLinkedFile(path).catch((cause: Error) => {
      if (cause.message !== told) refuse(cause.message);
      told = cause.message;
      // Perhaps it can be read later, as when too many files were open. Then a removed key must go.
      throw cause;
    });
    told = '';
    if (file === before) return;
    try {
      if (file.trim() === '') throw new Error(`The key file ${path} is empty; write one key per line.`);
      keys.replace({ ...given, file });
      before = file;
      log('info', `The API keys of ${path} were read again`);
      heard();
    } catch (thrown) {
      refuse((thrown as Error).message);
    }
  });
}
