// The API key that a file of JSON belongs to, without parsing the file: writers put `by` first.
import { openRegular } from '../../system/small-file.js';
import { isDamage } from './damaged-files.js';

/** Longer than `{"by":"` and the name of any key. */
const mostBytes = 128;

/** The object, with the key that owns it first. */
export function keyFirst<Value extends { by?: string | undefined }>(value: Value): Value {
  return { by: value.by, ...value };
}

/**
 * The name of the key; undefined if the file has none or cannot be read. `unread` is told if it is
 * there but cannot be read now.
 */
export async function keyIn(path: string, unread: (thrown: unknown) => void = () => undefined): Promise<string | undefined> {
  const file = await openRegular(path).catch((thrown: unknown) => {
    if (!isDamage(thrown)) unread(thrown);
    return undefined;
  });
  try {
    const head = Buffer.alloc(mostBytes);
    const read = await file?.read(head, 0, mostBytes, 0);
    return /^\{"by":"([^"]*)"/.exec(head.toString('utf8', 0, read?.bytesRead ?? 0))?.[1];
  } finally {
    await file?.close();
  }
}
