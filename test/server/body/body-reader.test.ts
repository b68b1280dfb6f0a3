import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { deflateSync, brotliCompressSync, gzipSync } from 'node:zlib';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import type { Request, Response as Reply } from 'express';
import { BodyMemory } from '#recua/server/body/body-memory.js';
import { readBody } from '#recua/server/body/body-reader.js';
import { hello, startApp, until } from '../app-under-test.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const path = '/v1/chat/completions';
const json = JSON.stringify(hello);

/** A client that writes raw bytes and sees all replies. */
function client(port: number) {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  const seen = { text: '', closed: false };
  socket.on('data', (data) => (seen.text += data.toString())).on('close', () => (seen.closed = true));
  return { socket, seen };
}

const head = (more: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more}\r\n\r\n`;

t.test('a body that is declared too large is refused before it is sent, and the connection ends', async (t) => {
  const { port } = await startApp(t, { bodyLimitBytes: 100_000 });
  const { socket, seen } = client(port);
  socket.write(head('Content-Length: 50000000000'));
  await until(() => seen.text.includes('body_too_large'));
  t.match(seen.text, /^HTTP\/1.1 413 [^]*Connection: close/i);
  await until(() => seen.closed);
});

t.test('a body that grows too large is refused while it grows', async (t) => {
  const { port } = await startApp(t, { bodyLimitBytes: 100_000 });
  const { socket, seen } = client(port);
  socket.write(head('Transfer-Encoding: chunked'));
  const chunk = `2710\r\n${'x'.repeat(10_000)}\r\n`;
  socket.write(chunk.repeat(11));
  // The body has no end: there never was one.
  await until(() => seen.text.includes('body_too_large'));
  t.match(seen.text, /^HTTP\/1.1 413 [^]*Connection: close/i);
  // A client that keeps sending is cut off, whatever it sends.
  const timer = setInterval(() => socket.write(chunk.repeat(100)), 5);
  await until(() => seen.closed);
  clearInterval(timer);
});

t.test('a refused body takes no memory, even while its client goes on sending', async (t) => {
  const { port } = await startApp(t, { bodyLimitBytes: 8_000_000 });
  const held = () => (collect(), process.memoryUsage().arrayBuffers);
  const before = held();
  const clients = Array.from({ length: 4 }, () => client(port));
  const chunk = `186a0\r\n${'x'.repeat(100_000)}\r\n`;
  for (const { socket } of clients) socket.write(head('Transfer-Encoding: chunked') + chunk.repeat(81));
  await until(() => clients.every(({ seen }) => seen.text.includes('body_too_large')));
  await until(() => held() - before < 8_000_000);
  t.notOk(clients.some(({ seen }) => seen.closed), 'the connections are still open');
  for (const { socket } of clients) socket.destroy();
});

t.test('a client that asks first is told to continue, or why not', async (t) => {
  const { port, engine } = await startApp(t, { bodyLimitBytes: 100_000 });
  const good = client(port);
  good.socket.write(head(`Expect: 100-continue\r\nContent-Length: ${json.length}`));
  await until(() => good.seen.text === 'HTTP/1.1 100 Continue\r\n\r\n');
  good.socket.write(json);
  await until(() => good.seen.text.includes('"finish_reason":"stop"'));
  // The connection stays open.
  good.socket.write(head(`Content-Length: ${json.length}`) + json);
  await until(() => good.seen.text.split('"finish_reason":"stop"').length === 3);
  good.socket.destroy();
  for (const [more, status] of [['Content-Length: 100001', 413], ['Content-Encoding: lzma\r\nContent-Length: 5', 415]] as const) {
    const { socket, seen } = client(port);
    socket.write(head(`Expect: 100-continue\r\n${more}`));
    await until(() => seen.closed);
    t.match(seen.text, new RegExp(`^HTTP/1.1 ${status} `), 'no word to go on before');
  }
  t.equal(engine.requests.length, 2);
});

t.test('another expectation is refused in the format of the API', async (t) => {
  const { port } = await startApp(t);
  const { socket, seen } = client(port);
  socket.write(head(`Expect: a-pony\r\nConnection: close\r\nContent-Length: ${json.length}`) + json);
  await until(() => seen.closed);
  t.match(seen.text, /^HTTP\/1.1 400 [^]*"code":"invalid_http"/);
  t.match(seen.text, /Expected the header Expect to be 100-continue or missing, got \\"a-pony\\"/);
});

t.test('a body in another transfer coding is not taken for plain text', async (t) => {
  const { port, engine } = await startApp(t);
  const { socket, seen } = client(port);
  socket.write(head('Transfer-Encoding: gzip, chunked\r\nConnection: close') + `${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`);
  await until(() => seen.closed);
  t.match(seen.text, /^HTTP\/1.1 400 [^]*"code":"invalid_http"/);
  t.match(seen.text, /Expected the header Transfer-Encoding to be chunked or missing, got \\"gzip, chunked\\"/);
  t.equal(engine.requests.length, 0);
});

t.test('a body of single bytes is read, complete or not', async (t) => {
  const { port, engine, logged } = await startApp(t);
  const { socket, seen } = client(port);
  socket.write(head('Transfer-Encoding: chunked') + [...json].map((byte) => `1\r\n${byte}\r\n`).join('') + '0\r\n\r\n');
  await until(() => seen.text.includes('"finish_reason":"stop"'));
  const half = client(port);
  half.socket.write(head('Transfer-Encoding: chunked') + '1\r\n{\r\n');
  setTimeout(() => half.socket.destroy(), 20);
  await until(() => logged.some((line) => line.includes('cut off')));
  t.equal(engine.requests.length, 1);
});

t.test('each compression is decoded, and a bomb of each is a 413', async (t) => {
  const { url } = await startApp(t, { bodyLimitBytes: 1_000_000 });
  const bomb = Buffer.from(`{"messages":[{"role":"user","content":"${'x'.repeat(50_000_000)}"}]}`);
  for (const [encoding, compress] of [['gzip', gzipSync], ['x-gzip', gzipSync], ['deflate', deflateSync], ['br', brotliCompressSync]] as const) {
    const send = (body: Buffer): Promise<Response> => fetch(url + path, {
      method: 'POST', body: new Uint8Array(body), headers: { 'content-type': 'application/json', 'content-encoding': encoding },
    });
    t.equal((await send(compress(Buffer.from(json)))).status, 200, encoding);
    t.equal((await send(compress(bomb))).status, 413, encoding);
    t.equal((await send(compress(Buffer.from(json)).subarray(0, 20))).status, 400, `${encoding} cut off`);
  }
});

t.test('compressed bytes that never become text count against the limit', async (t) => {
  const { port } = await startApp(t, { bodyLimitBytes: 100_000 });
  const { socket, seen } = client(port);
  socket.write(head('Content-Encoding: gzip\r\nTransfer-Encoding: chunked'));
  const chunk = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  socket.write(chunk(gzipSync('').subarray(0, 10)));
  // Stored blocks without bytes, none of them the last.
  socket.write(chunk(Buffer.from('000000ffff'.repeat(20_001), 'hex')));
  await until(() => seen.text.includes('body_too_large'));
  t.match(seen.text, /^HTTP\/1.1 413 [^]*Connection: close/i);
  socket.destroy();
});

t.test('a refused short body does not block the next request', async (t) => {
  const { port } = await startApp(t);
  const { socket, seen } = client(port);
  socket.write(head('Content-Encoding: lzma\r\nContent-Length: 20') + 'x'.repeat(10));
  await until(() => seen.text.includes('unsupported_media_type'));
  socket.write('x'.repeat(10) + head(`Content-Length: ${json.length}`) + json);
  await until(() => seen.text.includes('"finish_reason":"stop"'));
  t.notOk(seen.closed);
  socket.destroy();
});

t.test('a body whose connection ends because of the bytes after it is not waited for', async (t) => {
  const came: string[] = [];
  const server = createServer((req, res) => void (async () => {
    // As after any asynchronous lookup.
    await wait(20);
    came.push(await readBody(req as Request, res as unknown as Reply, 1_000, new BodyMemory(10_000).open('ann')).then((body) => `read ${body.toString()}`, ({ code }) => code));
  })());
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  for (let count = 1; count <= 20; count++) {
    client(port).socket.write(`${head('Connection: close\r\nContent-Length: 2')}{}and more`);
    await until(() => came.length === count);
  }
  t.match(came.join(), /^((read \{\}|cancelled),?)+$/);
});
