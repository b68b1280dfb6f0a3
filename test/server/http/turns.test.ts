import { connect, type Socket } from 'node:net';
import t from 'tap';
import { hello, post, startApp, until } from '../app-under-test.js';
import { echo, hang } from '../fake-engine.js';

const path = '/v1/chat/completions';

function request(body: object): string {
  const json = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`;
}

function client(port: number): Socket {
  return connect(port, '127.0.0.1').on('error', () => undefined);
}

const streams = (count: number) => request({ ...hello, stream: true }).repeat(count);

t.test('pipelined requests are answered one after another, in order', async (t) => {
  const { port, engine } = await startApp(t);
  let most = 0;
  engine.script = (asked) => {
    most = Math.max(most, engine.running.size);
    return echo(asked);
  };
  const socket = client(port);
  const names = ['one', 'two', 'three', 'four', 'five'];
  socket.write(names.map((content) => request({ messages: [{ role: 'user', content }] })).join(''));
  let text = '';
  socket.on('data', (data) => (text += data.toString()));
  await until(() => text.split('"finish_reason"').length > names.length);
  t.same([...text.matchAll(/"content":"(\w+)"/g)].map(([, word]) => word), names);
  t.equal(most, 1);
  socket.destroy();
});

t.test('pipelined streams end with their client, waiting ones never begin, and nothing is left', async (t) => {
  const { port, engine, url, close } = await startApp(t);
  engine.script = hang;
  const socket = client(port);
  socket.write(streams(50));
  await until(() => engine.running.size === 1);
  // All are parsed: another connection is served meanwhile.
  t.match(await (await fetch(`${url}/health`)).json(), { requests: 1 });
  socket.destroy();
  await until(() => engine.cancelled === 1);
  t.equal(engine.requests.length, 1, 'the rest never reached the engine');
  // The stop finds nothing to wait for: anything left would take the drain time.
  await close(10 * 60_000);
  t.equal(engine.requests.length, 1);
});

t.test('a client that continues after an aborted answer is served', async (t) => {
  const { port, url } = await startApp(t);
  const socket = client(port);
  socket.write(streams(3));
  socket.destroy();
  t.equal((await post(url + path, hello)).status, 200);
});

t.test('a connection with more requests than may wait is closed, and only that one', async (t) => {
  const { port, engine, url } = await startApp(t);
  engine.script = hang;
  const socket = client(port);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.resume();
  socket.write(streams(530));
  await closed;
  await until(() => engine.running.size === 0);
  t.equal(engine.requests.length, 1);
  engine.script = echo;
  t.equal((await post(url + path, hello)).status, 200);
});

t.test('a stop refuses the request after the running stream, and drops the others', async (t) => {
  const { port, engine, close } = await startApp(t);
  engine.script = hang;
  const socket = client(port);
  let text = '';
  const ended = new Promise((resolve) => socket.once('close', resolve));
  socket.on('data', (data) => (text += data.toString()));
  socket.write(streams(5));
  await until(() => engine.running.size === 1);
  await close(10);
  await ended;
  t.match(text, /^HTTP\/1.1 200 [^]*"shutting_down"[^]*HTTP\/1.1 503 [^]*Connection: close/);
  t.equal(text.split('HTTP/1.1').length, 3);
  t.equal(engine.requests.length, 1);
});
