// Shared by tests of commands beside a running server: a server with the built-in model in a home
// of its own.
import type { Test } from 'tap';
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
