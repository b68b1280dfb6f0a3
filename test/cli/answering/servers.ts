// Shared by tests of commands beside a running server: a server with the built-in model in a home
// of its own.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { registerServer } from '#recua/cli/servers/registry.js';
import { findPlaces } from '#recua/models/places.js';
import { makeHome } from '../home.js';
import type { Home } from '../home.js';
import { recua, start } from '../recua.js';
import type { Result, Running } from '../recua.js';

export interface ServedHome extends Home {
  url: string;
  running: Running;
  /** A command line in this home. */
  recua(args: readonly string[], input?: string): Promise<Result>;
  /** How many requests the server has answered so far. */
  requests(): Promise<number>;
}

/** `recua api` with these arguments, ready. Its models must exist before. */
export async function serveHome(t: Test, args: readonly string[], home = makeHome(t)): Promise<ServedHome> {
  const running = start(['api', ...args, '--port', '0', '--threads', '1', '--drain-timeout', '0'], { env: home.env });
  t.teardown(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  return {
    ...home, url: url!, running,
    recua: (words, input = '') => recua(words, input, { env: home.env }),
    requests: async () => (await (await fetch(`${url}/health`)).json() as { requests: number }).requests,
  };
}

/** A program that the command line of this home finds as a running server. */
export async function standIn(t: Test, home: Pick<Home, 'env'>, listener: RequestListener): Promise<void> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const unregister = await registerServer({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, managed: false }, findPlaces(home.env));
  t.teardown(() => {
    unregister();
    server.closeAllConnections();
    server.close();
  });
}
