// What `recua serve restart` checks while the old server still runs, which goes on if the new one
// could not start.
import { resolve } from 'node:path';
import { takeSurvey } from '../../engine/gateway/survey.js';
import { RecuaError } from '../../errors.js';
import { TlsFiles } from '../../server/access/tls-files.js';
import { checkLogFile } from './log-file.js';
import { checkedServing } from './start.js';
import type { StartRequest } from './start.js';
import type { ServerRecord } from './state-file.js';
import { tryAddress } from './try-address.js';

/** Throws what the new server would fail with. `old`: the record of the old one. */
export async function checkBeforehand(request: StartRequest, old: ServerRecord): Promise<void> {
  // A survey that finds no end, as a GPU's driver hangs, says nothing of a server without GPUs.
  const survey = await takeSurvey().catch(() => undefined);
  if (survey?.failure) throw RecuaError.fromPlain(survey.failure);
  const { defaultFailure } = await checkedServing(request);
  if (defaultFailure !== undefined) throw defaultFailure;
  const { values } = request;
  if (values.logFile !== '') checkLogFile(resolve(values.logFile));
  await TlsFiles.open(values, () => undefined);
  await tryAddress(values, old);
}
