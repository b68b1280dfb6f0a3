// The results of batches that are not listed as files yet: which they are, and whose.
import { join } from 'node:path';
import { readSmallFile } from '../../system/small-file.js';
import { namesIn } from '../kept/kept-folder.js';

const recordForm = /^batch_[0-9a-f]{48}\.json$/;
const mostRecordBytes = 4 * 2 ** 20;

export interface Results {
  id: string;
  /** Name of the API key that the batch belongs to. */
  by: string | undefined;
}

/**
 * Those of `ids` that a batch in the folder writes. `isSure`: false if a record cannot be read, so
 * that others may be results too.
 */
export async function resultsIn(folder: string, ids: ReadonlySet<string>): Promise<{ results: Results[]; isSure: boolean }> {
  const results: Results[] = [];
  let isSure = true;
  if (ids.size === 0) return { results, isSure };
  for (const name of await namesIn(folder)) {
    if (!recordForm.test(name)) continue;
    try {
      const { outputId, errorId, by } = JSON.parse(await readSmallFile(join(folder, name), mostRecordBytes)) as Record<
        string,
        string | undefined
      >;
      for (const id of [outputId, errorId]) if (id !== undefined && ids.has(id)) results.push({ id, by });
    } catch (thrown) {
      isSure &&= (thrown as NodeJS.ErrnoException | null)?.code === 'ENOENT';
    }
  }
  return { results, isSure };
}
