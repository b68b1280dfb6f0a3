// What `recua serve restart` checks while the old server still runs, which goes on if the new one
// could not start.
import { createServer, type Server } from 'node:http';
import { resolve } from 'node:path';
import type { RecuaError } from '../../errors.js';
import { socketPath } from '../../settings/address.js';
import { TlsFiles } from '../../server/access/tls-files.js';
import { listenLocally } from '../../server/local-socket.js';
import { describePortInUse } from './port-owner.js';
import { checkedServing } from './start.js';
import type { StartRequest } from './start.js';
import type { ServerRecord } from './state-file.js';

/** Throws what the new server would fail with. `old`: the record of the old one. */
export async function checkBeforehand(request: StartRequest, old: ServerRecord): Promise<void> {
  const { defaultFailure } = await checkedServing(request);
  if (defaultFailure !== undefined) throw defaultFailure;
  const { values } = request;
  await TlsFiles.open(values, () => undefined);
  const path = socketPath(values.host);
  if (path === undefined) return await tryPort(values.host, values.port === old.port ? anyPort : values.port);
  if (`unix:${resolve(path)}` !== old.host) await tryListening((trial) => listenLocally(trial, path, values.socketMode));
}

/** The old server has its own port, so that only the address is tried. */
const anyPort = 0;

async function tryPort(host: string, port: number): Promise<void> {
  // Loaded on demand, since it loads Express.
  const { listenOn } = await import('../../server/listen.js');
  await tryListening((trial) => listenOn(trial, host, port, 'http').catch(async (thrown: RecuaError) => {
    throw thrown.code === 'port_in_use' ? await describePortInUse(thrown, host, port) : thrown;
  }));
}

async function tryListening(start: (trial: Server) => Promise<unknown>): Promise<void> {
  const trial = createServer();
  await start(trial);
  await new Promise((closed) => trial.close(closed));
}
