// Reloads the file of API keys when it changes, so keys can change without a restart. An unusable
// file changes nothing.
import { readLinkedFile } from '../../system/small-file.js';
import { watchFiles } from '../../system/watched-files.js';
import { keyLines, type ApiKeys, type GivenKeys } from './api-keys.js';

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
      if (isCutOff(file, before)) throw new Error(`The key file ${path} ends in the midst of a key that it had before. If that is a key of its own, end its line with a newline.`);
      keys.replace({ ...given, file });
      before = file;
      log('info', `The API keys of ${path} were read again`);
      heard();
    } catch (thrown) {
      refuse((thrown as Error).message);
    }
  });
}

/** Whether the last line is a part of an earlier key: it would be easy to guess. */
function isCutOff(file: string, before: string): boolean {
  const last = file.endsWith('\n') ? undefined : keyLines(file)?.at(-1);
  return last !== undefined && (keyLines(before) ?? []).some((key) => key !== last && key.startsWith(last));
}
