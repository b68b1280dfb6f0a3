import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { createApp } from '#recua/server/app.js';
import { Traffic } from '#recua/server/http/traffic.js';
import { makeConfig } from '#recua/settings/config.js';
import { hello, ownFolder, post, served, startApp, until } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const path = '/v1/chat/completions';
/** More than the kernel buffers for a client that reads nothing. */
const text = 'x'.repeat(32 * 1024 * 1024);

for (const stream of [true, false]) {
  t.test(`a stop does not wait for a client that reads nothing of its ${stream ? 'stream' : 'answer'}`, async (t) => {
    const { port, engine, close } = await startApp(t);
    engine.script = async function* () { yield { content: text }; };
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    const json = JSON.stringify({ ...hello, stream });
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`);
    socket.pause();
    await until(() => engine.running.size === 0 && engine.delivered === 1);
    // The engine is done, and the drain is longer than this test may take.
    await close(60 * 60_000);
    t.pass('closed');
  });
}

t.test('a stop waits for a client that reads slowly', async (t) => {
  const { port, engine, close } = await startApp(t);
  engine.script = async function* () { yield { content: text }; };
  const socket = connect(port, '127.0.0.1');
  const json = JSON.stringify({ ...hello, stream: true });
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`);
  let length = 0;
  let end = '';
  socket.on('data', (data) => {
    length += data.length;
    end = (end + data.toString('latin1')).slice(-100);
    socket.pause();
    setTimeout(() => socket.resume(), 2);
  });
  const gone = new Promise((resolve) => socket.once('close', resolve));
  await until(() => engine.delivered === 1);
  await close(60 * 60_000);
  await gone;
  t.ok(length > text.length);
  t.match(end, /\[DONE\]/);
});

/** A server that disconnects clients after a moment of reading nothing. */
async function impatient(t: Test, patienceMs: number): Promise<{ url: string; port: number; connections: () => number }> {
  const engine = new FakeEngine();
  engine.script = async function* () { yield { content: 'short' }; };
  const app = createApp({
    pool: singleModel(engine, served),
    config: makeConfig({ pingIntervalMs: 0 }),
    traffic: new Traffic(patienceMs),
    keepIn: ownFolder(t),
  });
  let connections = 0;
  const server = createServer(app).on('connection', (socket) => {
    connections++;
    socket.once('close', () => connections--);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, connections: () => connections };
}

t.test('a client that reads nothing of a stored response is disconnected', async (t) => {
  const { url, port, connections } = await impatient(t, 500);
  const reply = await post(`${url}/v1/responses`, { input: 'x'.repeat(24 * 1024 * 1024) }, { connection: 'close' });
  const { id } = await reply.json() as { id: string };
  await until(() => connections() === 0);
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => socket.destroy());
  socket.pause();
  socket.write(`GET /v1/responses/${id}/input_items HTTP/1.1\r\nHost: x\r\n\r\n`);
  // What it sends meanwhile changes nothing; line ends may come before a request.
  const timer = setInterval(() => socket.write('\r\n'), 100);
  t.teardown(() => clearInterval(timer));
  await until(() => connections() === 1);
  await until(() => connections() === 0);
  t.pass('closed by the server');
});

t.test('a stream of events that has nothing to send stays open', async (t) => {
  const { port, connections } = await impatient(t, 20);
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.write('GET /models/sse HTTP/1.1\r\nHost: x\r\n\r\n');
  await new Promise((resolve) => socket.once('data', resolve));
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal(connections(), 1);
});

t.test('a request with everything that waits for its end is no leak of listeners', async (t) => {
  const keys = JSON.stringify({ keys: [{ name: 'ann', key: 'a', tokens_per_day: 1_000_000, requests_per_minute: 100, concurrency: 5 }] });
  const { port, engine } = await startApp(t, { apiKeyFile: keys });
  engine.script = async function* () { yield { content: text }; };
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.message);
  process.on('warning', note);
  t.teardown(() => process.off('warning', note));
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => socket.destroy());
  const json = JSON.stringify({ ...hello, stream: true });
  const request = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`;
  // The second waits for its turn, and the first for its client.
  socket.write(request + request);
  socket.pause();
  await until(() => engine.delivered === 1);
  await new Promise((resolve) => setImmediate(resolve));
  t.strictSame(warnings, []);
});

t.test('HEAD of a stream of events ends at once, and the connection goes on', async (t) => {
  const { port } = await startApp(t);
  const socket = connect(port, '127.0.0.1');
  const head = 'HTTP/1.1\r\nHost: x\r\n';
  socket.write(`HEAD /models/sse ${head}\r\nGET /health/live ${head}Connection: close\r\n\r\n`);
  let got = '';
  for await (const data of socket as AsyncIterable<Buffer>) got += data.toString();
  t.match(got, /^HTTP\/1.1 200 .*text\/event-stream.*HTTP\/1.1 200 .*"live"/s);
});
