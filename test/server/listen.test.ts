import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { makeConfig } from '#recua/settings/config.js';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { listen } from '#recua/server/listen.js';
import { deferred } from '../deferred.js';
import { events, hello, post, served, startApp, until } from './app-under-test.js';
import { FakeEngine, hang } from './fake-engine.js';
import { FakePool } from './fake-pool.js';

const path = '/v1/chat/completions';

/** Everything that the server replies to these bytes, and to others after its first reply. */
async function raw(port: number, bytes: string, others = ''): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  let text = '';
  for await (const data of socket) {
    if (text === '') socket.write(others);
    text += String(data);
  }
  return text;
}

t.test('a port in use is reported as such', async (t) => {
  const { port } = await startApp(t);
  await t.rejects(listen({ pool: singleModel(new FakeEngine(), served), config: makeConfig({ port }) }), { code: 'port_in_use', message: new RegExp(String(port)) });
  await t.rejects(listen({ pool: singleModel(new FakeEngine(), served), config: makeConfig({ port: 0, host: '203.0.113.1' }) }), { code: 'address_unavailable' });
  await t.rejects(listen({ pool: singleModel(new FakeEngine(), served), config: makeConfig({ port: 0, host: 'no host' }) }), { code: 'invalid_usage' });
});

t.test('an IPv6 address gives a working URL', async (t) => {
  const app = await startApp(t, { host: '::1' }).catch(() => undefined);
  if (app === undefined) return t.comment('no IPv6 here');
  t.match(app.url, /^http:\/\/\[::1\]:\d+$/);
  t.equal((await fetch(`${app.url}/health`)).status, 200);
});

t.test('bytes that are not HTTP get a reply in the shape of the API', async (t) => {
  const { port } = await startApp(t);
  const parse = (reply: string) => ({ head: reply.split('\r\n\r\n')[0], error: JSON.parse(reply.split('\r\n\r\n')[1]).error });
  const broken = parse(await raw(port, 'hello?\r\n\r\n'));
  t.match(broken.head, /^HTTP\/1.1 400 Bad Request\r\n[^]*x-request-id: req_/);
  t.match(broken.error, { code: 'invalid_http', type: 'invalid_request_error', param: null });
  const huge = parse(await raw(port, `GET /health HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`));
  t.match(huge.head, /^HTTP\/1.1 431 /);
  t.equal(huge.error.code, 'headers_too_large');
  const earlier = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  t.match(await raw(port, earlier, `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`), /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 431 /, 'also on a connection that was used before');
  const refused = 'POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n';
  t.match(await raw(port, earlier, refused), /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 400 /);
  const answered = await raw(port, 'POST /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n', 'no chunk');
  t.equal(answered.match(/HTTP\/1\.1 /g)?.length, 1, 'a request gets one reply');
});

t.test('a whole URL counts as its path, and one that cannot be read is a 404 of the API', async (t) => {
  const { port } = await startApp(t);
  const ask = (target: string) => raw(port, `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  t.match(await ask('http://localhost/health/live?x=1'), /^HTTP\/1.1 200 [^]*"status":"live"/);
  for (const target of ['http://[::1/health/live', 'http://a:99999/', '*']) {
    t.match(await ask(target), /^HTTP\/1.1 404 [^]*x-request-id: req_[^]*"code":"route_not_found"/, target);
  }
});

t.test('nothing is written into a running stream when its client sends bytes that are not HTTP', async (t) => {
  const { port, engine } = await startApp(t);
  engine.script = hang;
  const body = JSON.stringify({ ...hello, stream: true });
  const socket = connect(port, '127.0.0.1');
  socket.write(`POST ${path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await until(() => engine.running.size === 1);
  await delay(20);
  socket.write('garbage\r\n\r\n');
  let text = '';
  socket.on('data', (data) => (text += data.toString()));
  await new Promise((resolve) => socket.on('close', resolve).on('error', () => undefined));
  t.notMatch(text, /invalid_http/);
  await until(() => engine.cancelled === 1);
});

t.test('time limits apply to requests, not to answers', async (t) => {
  const { server } = await startApp(t);
  t.equal(server.timeout, 0, 'a long silent answer is not cut');
  t.ok(server.headersTimeout > 0);
  t.equal(server.requestTimeout, 0, 'bodies have a limit that depends on their speed');
  t.ok(server.keepAliveTimeout >= 65_000, 'longer than proxies keep idle sockets');
});

t.test('close() lets running answers end and refuses new ones', async (t) => {
  const { engine, url, close } = await startApp(t);
  const { promise: held, resolve: release } = deferred();
  engine.script = async function* () {
    yield { content: 'before' };
    await held;
    yield { content: ' after' };
  };
  const running = [post(url + path, hello), post(url + path, { ...hello, stream: true })];
  await until(() => engine.running.size === 2);
  await running[1];
  const closing = close(60_000);
  for (const to of [path, '/v1/embeddings']) {
    const refused = await post(url + to, hello);
    t.equal(refused.status, 503);
    t.equal(refused.headers.get('connection'), 'close');
    t.match(await refused.json(), { error: { code: 'shutting_down' } });
  }
  const health = await fetch(`${url}/health`);
  t.equal(health.status, 503, 'not ready any more');
  t.match(await health.json(), { status: 'stopping' });
  release();
  t.equal((await (await running[0]).json()).choices[0].message.content, 'before after');
  t.equal(events(await (await running[1]).text()).at(-1), '[DONE]');
  await closing;
  t.equal(engine.cancelled, 0);
  await t.rejects(fetch(`${url}/health`), 'the port is free');
});

t.test('close() ends answers that do not end by themselves, with an error', async (t) => {
  const { engine, url, close } = await startApp(t);
  engine.script = hang;
  const whole = post(url + path, hello);
  const stream = await post(url + path, { ...hello, stream: true });
  await until(() => engine.running.size === 2);
  const first = close(10);
  t.equal(close(), first, 'once');
  t.equal((await whole).status, 503);
  t.match(await (await whole).json(), { error: { code: 'shutting_down' } });
  const last = String(events(await stream.text()).at(-1));
  t.match(JSON.parse(last), { error: { code: 'shutting_down', type: 'unavailable_error' } });
  await first;
  t.equal(engine.cancelled, 2);
});

t.test('close() cuts off no short reply, such as a list', async (t) => {
  const pool = singleModel(new FakeEngine(), served);
  const list = pool.list.bind(pool);
  let isAsked = false;
  const { promise: asked, resolve: answer } = deferred();
  pool.list = async () => {
    isAsked = true;
    await asked;
    return await list();
  };
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  const reply = fetch(`${url}/v1/models`);
  reply.catch(() => undefined);
  await until(() => isAsked);
  const closed = close(60_000);
  await delay(50);
  answer();
  t.equal((await reply).status, 200);
  await closed;
});

t.test('close() waits for work whose client is gone', async (t) => {
  const pool = singleModel(new FakeEngine(), served);
  const seen: string[] = [];
  const { promise: ended, resolve: end } = deferred();
  pool.list = async () => {
    seen.push('begins');
    await ended;
    seen.push('ends');
    return [];
  };
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  const client = new AbortController();
  const reply = fetch(`${url}/v1/models`, { signal: client.signal });
  await until(() => seen.length > 0);
  client.abort();
  await t.rejects(reply, { name: 'AbortError' });
  const closed = close(0).then(() => seen.push('closed'));
  await delay(50);
  end();
  await closed;
  t.strictSame(seen, ['begins', 'ends', 'closed']);
});

t.test('close() answers requests whose bodies are still arriving', async (t) => {
  const { port, close, server } = await startApp(t);
  const rest = `}${' '.repeat(199_999)}`;
  const begin = async (length: number): Promise<{ socket: Socket; reply: Promise<string> }> => {
    const socket = connect(port, '127.0.0.1');
    const arrived = once(server, 'request');
    socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{`);
    await arrived;
    return { socket, reply: text(socket) };
  };
  const [complete, slow, long] = [await begin(200_001), await begin(10), await begin(200_001)];
  const closed = close(0);
  complete.socket.write(rest);
  for (const { reply } of [complete, slow, long]) t.match(await reply, /^HTTP\/1.1 503 .*"code":"shutting_down"/s);
  await closed;
});

t.test('close() is not held up by idle or half-open connections', async (t) => {
  const { port, close, url } = await startApp(t);
  await (await fetch(`${url}/health`)).text();
  const silent = connect(port, '127.0.0.1');
  const half = connect(port, '127.0.0.1');
  for (const socket of [silent, half]) socket.on('error', () => undefined);
  half.write('POST /v1/embeddings HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{');
  await delay(20);
  await close(0);
  t.pass('closed');
});

t.test('a client that leaves during its body does no harm', async (t) => {
  const { port, url, engine, logged } = await startApp(t);
  const half = connect(port, '127.0.0.1');
  half.write(`POST ${path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`);
  await delay(20);
  half.destroy();
  await until(() => logged.some((line) => line.includes('cut off')));
  t.equal(engine.requests.length, 0);
  t.notOk(logged.some((line) => line.startsWith('error')));
  t.equal((await fetch(`${url}/health`)).status, 200);
});

t.test('at the end of the time for a stop, requests that wait for a model get a 503', async (t) => {
  const pool = new FakePool('owner/a', 'owner/b');
  pool.slow.add('owner/a');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0, slotSavePath: t.testdir() }) });
  t.teardown(() => close(0));
  const asked = {
    '/v1/chat/completions': { model: 'owner/a', ...hello },
    '/models/load': { model: 'owner/a' },
    '/api/generate': { model: 'owner/a' },
    '/slots/0?action=save': { model: 'owner/a', filename: 'a' },
    '/slots/0?action=erase': { model: 'owner/a' },
  };
  const replies = Object.entries(asked).map(async ([route, body]) => {
    const response = await post(`${url}${route}`, body);
    return [route, response.status, JSON.stringify(await response.json()).includes('stopped')];
  });
  await until(() => pool.entry('owner/a').waiting.length === 5);
  await close(50);
  t.strictSame(await Promise.all(replies), Object.keys(asked).map((route) => [route, 503, true]));
  pool.finish('owner/a');
});
