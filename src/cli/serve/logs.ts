// `recua serve logs`: the managed server's log, of the run that is or of the last one.
import { existsSync } from 'node:fs';
import { RecuaError } from '../../errors.js';
import { logFiles } from './log-file.js';
import { print } from '../terminal/output.js';
import { stopCode, watchSignals } from '../terminal/signals.js';
import { endOf, follow, lastLines } from './log-lines.js';
import { lastRecord } from './state-file.js';
import type { ServePlaces } from './state-file.js';

export async function showLogs(places: ServePlaces, count: number, following: boolean): Promise<number> {
  const record = await lastRecord(places);
  const files = logFiles(record?.logFile || places.log);
  if (!following && !files.some((file) => existsSync(file))) {
    throw new RecuaError('file_unreadable', `There is no log at ${files[0]}: no server has been started here yet. Start one: recua serve start <model>`);
  }
  const stop = watchSignals();
  try {
    // Taken first, so that a line that comes meanwhile is shown once.
    const end = await endOf(files[0]!);
    const lines = await lastLines(files, count, end);
    if (lines.length > 0) await print(`${lines.join('\n')}\n`);
    if (!following) return 0;
    for await (const text of follow(files, end, stop.signal)) await print(text);
    return stopCode();
  } finally {
    stop.release();
  }
}
