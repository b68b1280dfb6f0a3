// Who counts as a client on this machine.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import express, { type Request } from 'express';
import t from 'tap';
import { isRemote, markUnixSocket } from '#recua/server/access/peer.js';
import { errorHandler } from '#recua/server/http/error-reply.js';
import { refuseOthers, refuseRemote } from '#recua/server/access/pages.js';

const request = (remoteAddress: string | undefined, headers: Record<string, string> = {}): Request =>
  ({ socket: { remoteAddress }, headers }) as unknown as Request;

t.test('loopback addresses are here, all others are not', (t) => {
  for (const address of ['127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1']) t.equal(isRemote(request(address)), false, address);
  for (const address of ['10.0.0.1', '::2', '::ffff:10.0.0.1', '128.0.0.1']) t.equal(isRemote(request(address)), true, address);
  for (const name of ['forwarded', 'x-forwarded-for']) t.equal(isRemote(request('127.0.0.1', { [name]: 'for=10.0.0.1' })), true, name);
  t.end();
});

t.test('a Unix socket is here, and one whose address is unknown is not', (t) => {
  const unix = request(undefined);
  markUnixSocket(unix.socket);
  t.equal(isRemote(unix), false);
  t.equal(isRemote(request(undefined)), true);
  t.end();
});

t.test('a client that resets its connection passes no check by that', async (t) => {
  const app = express();
  const passed: string[] = [];
  const late = new Promise<void>((resolve) => {
    // Until the reset has arrived.
    app.use((req, _res, next) => void req.socket.once('close', () => setImmediate(() => {
      next();
      resolve();
    })));
  });
  app.post('/models', refuseRemote, () => void passed.push('models'));
  app.post('/chats', refuseOthers, () => void passed.push('chats'));
  app.use(errorHandler(() => undefined));
  const server = app.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  for (const path of ['/models', '/chats']) {
    const client: Socket = connect((server.address() as { port: number }).port, '127.0.0.1');
    client.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`);
    await once(server, 'request');
    client.resetAndDestroy();
  }
  await late;
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.strictSame(passed, []);
});
