// A port for programs that are only told one, and cannot tell which they got.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems choose themselves, such as for a test that runs meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000);
    const server = createServer().listen(port, '127.0.0.1');
    if (!await once(server, 'listening').catch(() => undefined)) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
