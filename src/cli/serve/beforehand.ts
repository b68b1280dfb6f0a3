// What `recua serve restart` checks while the old server still runs, which goes on if the new one
// could not start.
import { createServer } from 'node:http';
import type { RecuaError } from '../../errors.js';
import { socketPath } from '../../settings/address.js';
import { TlsFiles } from '../../server/access/tls-files.js';
import { listenOn } from '../../server/listen.js';
import { describePortInUse } from './port-owner.js';
import { checkedModels } from './start.js';
import type { StartRequest } from './start.js';
import type { ServerRecord } from './state-file.js';

/** Throws what the new server would fail with. `old`: the record of the old one. */
export async function checkBeforehand(request: StartRequest, old: ServerRecord): Promise<void> {
  await checkedModels(request);
  const { values } = request;
  await TlsFiles.open(values, () => undefined);
  // The old server has its own port.
  if (values.port !== 0 && values.port !== old.port && socketPath(values.host) === undefined) await tryPort(values.host, values.port);
}

async function tryPort(host: string, port: number): Promise<void> {
  const trial = createServer();
  await listenOn(trial, host, port, 'http').catch(async (thrown: RecuaError) => {
    throw thrown.code === 'port_in_use' ? await describePortInUse(thrown, host, port) : thrown;
  });
  await new Promise((resolve) => trial.close(resolve));
}
