import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { deferred } from '../../deferred.js';
import { watchArrivals } from '#recua/server/body/arrival.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const soon = { freeMs: 20, checkMs: 10 };

const answerLength: RequestListener = (req, res) => void text(req).then((body) => res.end(String(body.length)), () => undefined);

/** A server that hangs up on those that are late. */
async function start(
  t: Test,
  limits: Parameters<typeof watchArrivals>[2],
  answer: RequestListener = answerLength,
): Promise<{ open: () => Socket; late: () => number; begun: () => Promise<unknown> }> {
  let late = 0;
  const server = createServer({ requestTimeout: 0 }, answer);
  watchArrivals(
    server,
    ({ socket }) => {
      late++;
      socket.destroy();
    },
    limits,
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const open = (): Socket => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    return socket;
  };
  return { open, late: () => late, begun: () => once(server, 'request') };
}

const head = (length: number, more = ''): string => `POST / HTTP/1.1\r\nHost: x\r\n${more}Content-Length: ${length}\r\n\r\n`;
/** Also if a byte was under way, which is an error before the close. */
const closed = (socket: Socket): Promise<void> => new Promise((resolve) => {
  socket.on('error', () => undefined);
  socket.once('close', () => resolve());
});
const later = (ms = 100): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

t.test('a request that waits for the reply before it has all its time once that is complete', async (t) => {
  const { promise: mayEnd, resolve: end } = deferred();
  const { open, late } = await start(t, { freeMs: 2_000, checkMs: 20, leastBytesPerSecond: 1e9 }, (req, res) => {
    if (req.method === 'GET') void mayEnd.then(() => res.end('first'));
    else answerLength(req, res);
  });
  const socket = open();
  let told = '';
  socket.on('data', (bytes: Buffer) => (told += bytes.toString()));
  const body = 'x'.repeat(300_000);
  socket.write(`GET / HTTP/1.1\r\nHost: x\r\n\r\n${head(body.length)}${body.slice(0, 100_000)}`);
  await later(2_300);
  t.equal(late(), 0);
  end();
  socket.write(body.slice(100_000));
  while (!told.endsWith('300000') && !socket.destroyed) await later(5);
  t.match(told, /300000$/);
  t.equal(late(), 0);
  socket.destroy();
  await closed(socket);
});

t.test('a body that takes long but arrives fast enough is read to its end', async (t) => {
  const { open, late, begun } = await start(t, { freeMs: 1_000, checkMs: 10, leastBytesPerSecond: 0.001 });
  const socket = open();
  // What comes with the headers does not count.
  socket.setNoDelay();
  socket.write(head(4));
  await begun();
  socket.write('abc');
  await later(1_100);
  socket.write('d');
  const [reply] = await once(socket, 'data') as [Buffer];
  t.match(reply.toString(), /^HTTP\/1.1 200 .*4$/s);
  t.equal(late(), 0);
});

t.test('a body that takes long and is slow is late, even if it never stops', async (t) => {
  const { open, late } = await start(t, { ...soon, leastBytesPerSecond: 1e9 });
  const socket = open();
  socket.write(head(1_000));
  const timer = setInterval(() => socket.write('x'), 5);
  t.teardown(() => clearInterval(timer));
  await closed(socket);
  t.equal(late(), 1);
});

t.test('a body that nobody needs after its reply is late, however fast', async (t) => {
  const { open, late } = await start(t, { ...soon, leastBytesPerSecond: 0.001 }, (_req, res) => void res.end('no'));
  const socket = open();
  socket.write(`${head(1_000)}abc`);
  socket.resume();
  await closed(socket);
  t.equal(late(), 1);
});

t.test('what arrives within the time may be slow, and a request without a body is never late', async (t) => {
  const { open, late } = await start(t, { freeMs: 60_000, leastBytesPerSecond: 1e9 });
  const socket = open();
  socket.write(`${head(2)}a`);
  await later();
  socket.write('b');
  await once(socket, 'data');
  const other = open();
  other.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(other, 'data');
  await later();
  t.equal(late(), 0);
});

t.test('a request that was answered early is free once its connection is closed', async (t) => {
  const requests: WeakRef<IncomingMessage>[] = [];
  const { open, late } = await start(t, {}, (req, res) => {
    requests.push(new WeakRef(req));
    // As after a refusal: nobody reads the rest.
    req.pause();
    res.setHeader('Connection', 'close').end('no');
  });
  const socket = open();
  socket.resume();
  socket.write(`${head(1_000)}abc`);
  await closed(socket);
  await later();
  collect();
  t.equal(requests[0]!.deref(), undefined);
  t.equal(late(), 0);
});
