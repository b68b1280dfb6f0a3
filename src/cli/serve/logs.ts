// `recua serve logs`: the log of the managed server, of the current run or of the last one.
import { existsSync } from 'node:fs';
import { RecuaError } from '../../errors.js';
import { logFiles } from './log-file.js';
import { print, say } from '../terminal/output.js';
import { stopCode, watchSignals } from '../terminal/signals.js';
import { endOf, follow, lastLines, linesAbout } from './log-lines.js';
import { misuse } from '../flags/flags.js';
import { lastRecord } from './state-file.js';
import { findStatus } from './status.js';
import type { ServePlaces } from './state-file.js';

export interface LogsWanted {
  /** Number of last lines to print. */
  lines: number;
  follow: boolean;
  /** A request id, to print only the lines about that request; '' for all lines. */
  request: string;
}

/** Request ids: those that a server accepts from clients, and its own. */
const requestIds = /^[\w.:+/=-]{1,128}$/;

export async function showLogs(places: ServePlaces, { lines: count, follow: following, request }: LogsWanted): Promise<number> {
  if (request !== '' && !requestIds.test(request)) throw misuse(`Expected the id of a request for --request, as in x-request-id, got ${JSON.stringify(request.slice(0, 200))}.`);
  const about = request === '' ? undefined : linesAbout(request);
  const record = await lastRecord(places);
  const files = logFiles(record?.logFile || places.log);
  if (!following && !files.some((file) => existsSync(file))) {
    const why = record ? 'it was moved or removed. The next line of a server begins it anew.' : 'no server was started here yet. Start one: recua serve start <model>';
    throw new RecuaError('file_unreadable', `There is no log at ${files[0]}: ${why}`);
  }
  const stop = watchSignals();
  try {
    // Read first, so that a line that arrives meanwhile is shown only once.
    const end = await endOf(files[0]!);
    const lines = about ? about(await lastLines(files, Infinity, end)).slice(-count || Infinity) : await lastLines(files, count, end);
    if (request !== '' && lines.length === 0 && count > 0) say(`The log has no line about the request ${request}.`);
    if (lines.length > 0) await print(`${lines.join('\n')}\n`);
    if (!following) return 0;
    const { alive } = await findStatus(places);
    if (!alive) say('No server runs. The lines of the next one follow.');
    for await (const text of follow(files, end, stop.signal)) {
      if (!about) await print(text);
      else for (const line of about(text.trimEnd().split('\n'))) await print(`${line}\n`);
    }
    return stopCode();
  } finally {
    stop.release();
  }
}
