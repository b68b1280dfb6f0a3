// Whether a server could listen on an address, tried before a server is started or stopped for it.
import { createServer, type Server } from 'node:http';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import type { RecuaError } from '../../errors.js';
import { listenLocally } from '../../server/local-socket.js';
import { socketPath } from '../../settings/address.js';
import type { ServerValues } from '../commands/api.js';
import { describePortInUse } from './port-owner.js';
import type { ServerRecord } from './state-file.js';

/**
 * Throws what the server would fail with. `old`: a server that stops first, so that its port and
 * socket are free then.
 */
export async function tryAddress({ host, port, socketMode }: ServerValues, old?: ServerRecord): Promise<void> {
  const path = socketPath(host);
  if (path === undefined) await tryPort(host, old && port === old.port && overlap(host, old.host) ? anyPort : port);
  else if (`unix:${resolve(path)}` !== old?.host) await tryListening((trial) => listenLocally(trial, path, socketMode));
}

/** The old server has its own port, so that only the address is tried. */
const anyPort = 0;

/** Whether the old server at one may keep a new one from the same port at the other. */
function overlap(one: string, other: string): boolean {
  return one === other || hasSeveral(one) || hasSeveral(other);
}

/** Several addresses, or a name that may stand for any. */
const hasSeveral = (host: string): boolean => host === '0.0.0.0' || isIP(host.replace(/^\[|\]$/g, '')) !== 4;

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
  const closed = new Promise((done) => trial.close(done));
  // Of clients that look for the server already.
  trial.closeAllConnections();
  await closed;
}
