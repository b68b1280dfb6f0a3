// Responses over a WebSocket, as OpenAI's client and Codex use them: the same events, turns that
// send only new items, and other upgrades.
import { once } from 'node:events';
import { connect } from 'node:net';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { hello, post, startApp, until } from '../app-under-test.js';
import { echo, hang, messagesOf } from '../fake-engine.js';
import { deferred } from '../../deferred.js';

const mib = 2 ** 20;

interface Event {
  type: string;
  status?: number;
  error?: { code: string; message: string; param: string | null };
  response?: { id: string; status: string; output: { content: { text: string }[] }[] };
  [field: string]: unknown;
}

async function open(
  t: Test,
  url: string,
): Promise<{ socket: WebSocket; ask: (message: unknown) => Promise<Event[]>; next: () => Promise<Event> }> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`);
  const events: Event[] = [];
  let wake = (): void => undefined;
  socket.on('message', (data) => {
    events.push(JSON.parse(String(data as Buffer)) as Event);
    wake();
  });
  socket.on('error', () => undefined);
  await once(socket, 'open');
  t.teardown(() => socket.terminate());
  const next = async (): Promise<Event> => {
    while (events.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return events.shift()!;
  };
  return {
    socket,
    next,
    async ask(message) {
      socket.send(typeof message === 'string' ? message : JSON.stringify(message));
      for (const got: Event[] = []; ;) {
        got.push(await next());
        if (/^(response\.(completed|incomplete)|error)$/.test(got.at(-1)!.type)) return got;
      }
    },
  };
}

const create = (input: unknown, more: object = {}): object => ({ type: 'response.create', model: 'small', store: false, input, ...more });
const says = (text: string): object[] => [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }];

/** Without fields that differ between two answers. */
function plain(events: readonly Event[]): unknown {
  const text = JSON.stringify(events).replaceAll(/"(id|item_id)":"[a-z]+_[0-9a-f]+"/g, '"$1":"x"').replaceAll(/"(created_at|completed_at)":\d+/g, '"$1":1');
  return JSON.parse(text);
}

t.test('events equal those of a stream', async (t) => {
  const app = await startApp(t);
  const { ask } = await open(t, app.url);
  app.engine.script = async function* () {
    yield { reasoning: 'Well.' };
    await new Promise(setImmediate);
    yield { toolCalls: [{ index: 0, id: 'call_1', name: 'f', arguments: '{}' }] };
  };
  const tools = [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }];
  const over = await ask(create('Hi', { tools }));
  const streamed = await (await post(`${app.url}/v1/responses`, { ...create('Hi', { tools }), type: undefined, stream: true })).text();
  t.strictSame(plain(over), plain([...streamed.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as Event)));
  t.equal(over.at(-1)!.type, 'response.completed');
});

t.test('the next turn sends only its new items, though nothing is stored', async (t) => {
  const app = await startApp(t);
  const { ask } = await open(t, app.url);
  const first = (await ask(create(says('one'), { instructions: 'Be brief.' }))).at(-1)!.response!;
  const second = (await ask(create(says('two'), { instructions: 'Be brief.', previous_response_id: first.id }))).at(-1)!.response!;
  await ask(create(says('three'), { instructions: 'Be brief.', previous_response_id: second.id }));
  t.strictSame(messagesOf(app.engine.requests[2]!).map(({ role, content }) => `${role}: ${content as string}`), [
    'system: Be brief.', 'user: one', 'assistant: one', 'user: two', 'assistant: two', 'user: three',
  ]);
  const [lost] = await ask(create(says('four'), { previous_response_id: first.id }));
  t.match(lost, { type: 'error', status: 400, error: { code: 'previous_response_not_found', param: 'previous_response_id' } }, 'the last alone is remembered');
  const stored = (await ask(create(says('kept'), { store: true }))).at(-1)!.response!;
  await ask(create(says('other')));
  t.equal((await ask(create(says('more'), { previous_response_id: stored.id }))).at(-1)!.type, 'response.completed', 'those that are stored are there, too');
  const other = await open(t, app.url);
  t.match((await other.ask(create(says('mine?'), { previous_response_id: second.id })))[0], { error: { code: 'previous_response_not_found' } }, 'another connection knows nothing of it');
});

t.test('a client prepares its first turn before the user speaks', async (t) => {
  const app = await startApp(t);
  const { ask } = await open(t, app.url);
  const prepared = await ask(create([], { instructions: 'Be brief.', generate: false }));
  t.strictSame(prepared.map(({ type }) => type), ['response.created', 'response.completed']);
  t.equal(app.engine.requests.length, 0);
  await ask(create(says('one'), { instructions: 'Be brief.', previous_response_id: prepared[1]!.response!.id }));
  t.strictSame(messagesOf(app.engine.requests[0]!).map(({ role }) => role), ['system', 'user']);
  t.match((await ask(create([], { generate: false, tools: 3 })))[0], { type: 'error', status: 400, error: { param: 'tools' } });
  t.match((await ask(create([], { generate: false, model: 'none' })))[0], { type: 'error', status: 404, error: { code: 'model_not_found' } });
});

t.test('errors are reported, and the connection stays open', async (t) => {
  const app = await startApp(t);
  const { ask, socket } = await open(t, app.url);
  t.match((await ask('no JSON'))[0], { type: 'error', status: 400, error: { code: 'invalid_json' } });
  t.match((await ask({ type: 'session.update' }))[0], { type: 'error', status: 400, error: { code: 'invalid_value', param: 'type' } });
  t.match((await ask(create(7)))[0], { type: 'error', status: 400, error: { param: 'input' } });
  t.match((await ask(create('Hi', { background: true })))[0], { type: 'error', status: 400, error: { param: 'background' } });
  t.match((await ask(create('Hi', { stream_id: 's1' })))[0], { type: 'error', status: 400, error: { code: 'unsupported_parameter', param: 'stream_id' } });
  t.match((await ask(create('Hi', { stream_id: null, generate: null }))).at(-1), { type: 'response.completed', response: { output: [{}] } }, 'null counts as absent');
  t.match((await ask(create('Hi', { generate: 'no' })))[0], { type: 'error', status: 400, error: { param: 'generate' } });
  t.match((await ask(create('Hi', { model: 'none' })))[0], { type: 'error', status: 404, error: { code: 'model_not_found' } });
  socket.send(JSON.stringify({ type: 'response.processed', response_id: 'resp_1' }));
  t.equal((await ask(create('Hi'))).at(-1)!.type, 'response.completed');
});

t.test('messages are answered in order, one after another', async (t) => {
  const app = await startApp(t);
  const { socket, next } = await open(t, app.url);
  for (const text of ['a', 'b', 'c']) socket.send(JSON.stringify(create(text)));
  const said: string[] = [];
  while (said.length < 3) {
    const event = await next();
    if (event.type === 'response.completed') said.push(event.response!.output[0]!.content[0]!.text);
  }
  t.strictSame(said, ['a', 'b', 'c']);
  app.engine.script = hang;
  for (let n = 0; n < 20; n++) socket.send(JSON.stringify(create('x')));
  const [code] = await once(socket, 'close') as [number];
  t.equal(code, 1008, 'who sends without an end is let go');
  await until(() => app.engine.running.size === 0);
});

t.test('a client that hangs up ends the work', async (t) => {
  const app = await startApp(t);
  app.engine.script = hang;
  const { socket, next } = await open(t, app.url);
  socket.send(JSON.stringify(create('Hi')));
  await next();
  t.equal(app.engine.running.size, 1);
  socket.terminate();
  await until(() => app.engine.running.size === 0);
  t.equal(app.engine.cancelled, 1);
});

t.test('a message has the size limit of a body', async (t) => {
  const app = await startApp(t, { bodyLimitBytes: 1_000 });
  const { socket } = await open(t, app.url);
  socket.send(JSON.stringify(create('x'.repeat(2_000))));
  const [code] = await once(socket, 'close') as [number];
  t.equal(code, 1009);
});

t.test('a stop lets an answer end, and closes the rest', async (t) => {
  const app = await startApp(t);
  const { promise: held, resolve: go } = deferred();
  app.engine.script = async function* (request) {
    yield { content: 'So ' };
    await held;
    yield* echo(request);
  };
  const [idle, busy] = [await open(t, app.url), await open(t, app.url)];
  const asked = busy.ask(create('long'));
  await until(() => app.engine.running.size === 1);
  const ends = Promise.all([idle, busy].map(({ socket }) => once(socket, 'close')));
  const closed = app.close(60_000);
  const late = await fetch(`${app.url}/v1/responses`).catch((error: Error) => error);
  t.ok(late);
  go();
  t.match((await asked).at(-1), { type: 'response.completed', response: { output: [{ content: [{ text: 'So long' }] }] } });
  t.strictSame((await ends).map(([code]) => code as number), [1001, 1001]);
  await closed;
});

t.test('OpenAI’s client works', async (t) => {
  const app = await startApp(t);
  const client = new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none' });
  const ws = new ResponsesWS(client);
  t.teardown(() => ws.close());
  const types: string[] = [];
  const done = new Promise<OpenAI.Responses.Response>((resolve, reject) => {
    ws.on('event', (event) => types.push(event.type));
    ws.on('response.completed', ({ response }) => resolve(response));
    ws.on('error', reject);
  });
  ws.send({ type: 'response.create', model: 'small', input: 'hello wide world' });
  t.match(await done, { status: 'completed', output: [{ type: 'message', content: [{ text: 'hello wide world' }] }] });
  t.strictSame([types[0], types.at(-1)], ['response.created', 'response.completed']);
});

/** Sends one raw request and returns everything that comes back. */
async function raw(url: string, request: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(request);
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
}

t.test('other upgrades are plain requests', async (t) => {
  const app = await startApp(t);
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello '.repeat(20_000) }] });
  const h2c = (more: string): string => `Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n${more}`;
  const answer = await raw(app.url, `POST /v1/chat/completions HTTP/1.1\r\n${h2c(`Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`)}\r\n${body}GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  t.match(answer, /^HTTP\/1\.1 200 OK[^]*"object":"chat\.completion"[^]*HTTP\/1\.1 200 OK[^]*"status":"ok"/);
  const handshake = 'Host: x\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
  t.match(await raw(app.url, `GET /v1/models HTTP/1.1\r\n${handshake}`), /^HTTP\/1\.1 200 OK/);
  t.match(await raw(app.url, `GET /v1/realtime HTTP/1.1\r\n${handshake}`), /^HTTP\/1\.1 404 Not Found[^]*"code":"route_not_found"/);
  t.equal((await fetch(`${app.url}/v1/responses`)).status, 426);
  t.match(await raw(app.url, 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n'), /^HTTP\/1\.1 200 OK/, 'and closed, if that is asked for');
  const toProxy = 'GET /health HTTP/1.1\r\nHost: x\r\nProxy-Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
  t.match(await raw(app.url, `${toProxy}GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 200 OK[^]*HTTP\/1\.1 200 OK/);
  const inner = 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const many = await raw(app.url, `POST /none HTTP/1.1\r\n${'a:\r\n'.repeat(2_100)}${h2c(`Content-Length: ${inner.length}\r\n`)}\r\n${inner}GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  t.strictSame(many.match(/(?<=HTTP\/1\.1 )\d+/g), ['404', '404'], 'however many headers come before its length, a body is no request');
});

t.test('a connection opens with a key, and not without', async (t) => {
  const app = await startApp(t, { apiKey: 'sesame' });
  const refused = new WebSocket(`${app.url.replace('http', 'ws')}/v1/responses`);
  const [error] = await once(refused, 'error') as [Error];
  t.match(error.message, /401/);
  const opened = new WebSocket(`${app.url.replace('http', 'ws')}/v1/responses`, { headers: { authorization: 'Bearer sesame' } });
  await once(opened, 'open');
  opened.send(JSON.stringify(create('Hi')));
  const [first] = await once(opened, 'message') as [Buffer];
  t.match(JSON.parse(first.toString()), { type: 'response.created' });
  opened.terminate();
});

t.test('a nearly known field is an error in a message that prepares, too', async (t) => {
  const app = await startApp(t);
  const { ask } = await open(t, app.url);
  t.match((await ask(create([], { generate: false, max_output_token: 5 }))).at(-1), { type: 'error', error: { code: 'unknown_parameter' } });
  t.match((await ask(create([], { generate: false, unheard_of: 5 }))).at(-1), { type: 'response.completed', response: { warnings: [/unheard_of/] } });
});

t.test('one client opens a quarter of the sockets; then plain requests still work', async (t) => {
  const app = await startApp(t);
  const first = await Promise.all(Array.from({ length: 16 }, () => open(t, app.url)));
  const refused = new WebSocket(`${app.url.replace('http', 'ws')}/v1/responses`);
  const [error] = await once(refused, 'error') as [Error];
  t.match(error.message, /426/);
  t.equal((await post(`${app.url}/v1/responses`, { model: 'small', input: 'hello' })).status, 200);
  first[0]!.socket.close();
  await once(first[0]!.socket, 'close');
  await open(t, app.url);
});

t.test('an upgrade never overtakes an answer', async (t) => {
  const app = await startApp(t);
  app.engine.script = hang;
  const body = JSON.stringify(hello);
  const slow = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const handshake = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
  t.equal(await raw(app.url, `${slow}GET /v1/responses HTTP/1.1\r\n${handshake}`), '', 'the connection is closed');
});

t.test('an unfinished message counts as memory of a body', async (t) => {
  const memory = 256 * 1024;
  const app = await startApp(t, { bodyMemoryBytes: memory });
  const used = async (): Promise<number> => Number(/^recua_body_memory_bytes (\d+)$/m.exec(await (await fetch(`${app.url}/metrics`)).text())?.[1]);
  const { socket, ask } = await open(t, app.url);
  t.equal((await ask(create('Hi'))).at(-1)!.type, 'response.completed');
  socket.ping();
  while ((await used()) !== 0);
  const part = Buffer.alloc(20_000, 'x');
  socket.send(part, { fin: false, binary: false });
  while ((await used()) < 4 * part.length);
  socket.ping('0123456789');
  await new Promise((resolve) => socket.once('pong', resolve));
  t.ok((await used()) >= 4 * part.length, 'a ping in the middle frees nothing of the message');
  const closed = once(socket, 'close') as Promise<[number, Buffer]>;
  for (let sent = 0; sent < memory; sent += part.length) socket.send(part, { fin: false });
  const [code, reason] = await closed;
  t.equal(code, 1013);
  t.match(reason.toString(), /body_(too_large|memory_full)/);
  while ((await used()) !== 0);
});

for (const does of ['goes on', 'is silent']) t.test(`a socket that closes for want of memory ends, whose client ${does}`, async (t) => {
  const app = await startApp(t, { bodyMemoryBytes: mib });
  app.engine.acceptAfter = new Promise(() => undefined);
  const leaving = new AbortController();
  const held = post(`${app.url}/v1/chat/completions`, { messages: [{ role: 'user', content: 'x'.repeat(200_000) }] }, {}, leaving.signal);
  await until(() => app.engine.requests.length === 1);
  const { port } = new URL(app.url);
  const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
  let told = Buffer.alloc(0);
  let isClosed = false;
  socket.on('data', (data: Buffer) => (told = Buffer.concat([told, data]))).on('close', () => (isClosed = true));
  socket.write('GET /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
  await until(() => told.includes('101 Switching'));
  // A text of 200,000 bytes with an empty mask.
  socket.write(Buffer.concat([Buffer.from('81ff0000000000030d4000000000', 'hex'), Buffer.alloc(64_000, 'x')]));
  await until(() => told.includes('body_memory_full'));
  t.ok(told.includes(Buffer.from([1_013 >> 8, 1_013 & 255])));
  const late = AbortSignal.timeout(20_000);
  let isTaken = false;
  if (does === 'goes on') socket.write(Buffer.alloc(64 * mib, 'x'), () => (isTaken = !socket.destroyed));
  await until(() => isClosed);
  t.notOk(late.aborted, 'ws itself waits for 30 seconds');
  t.notOk(isTaken, 'what comes after the close is not read');
  leaving.abort();
  await held.catch(() => undefined);
});

t.test('a message to a socket that closes is not answered', async (t) => {
  const app = await startApp(t);
  const { socket } = await open(t, app.url);
  const closed = once(socket, 'close') as Promise<[number]>;
  socket.send(Buffer.from('{}'), { binary: true });
  socket.send(JSON.stringify(create('Hi')));
  t.equal((await closed)[0], 1003);
  const { ask } = await open(t, app.url);
  t.equal((await ask(create('Ho'))).at(-1)!.type, 'response.completed');
  t.equal(app.engine.requests.length, 1);
});

t.test('messages of one client leave room for those of others', async (t) => {
  const app = await startApp(t, { bodyLimitBytes: 32 * 2 ** 20, apiKeyFile: JSON.stringify({ keys: [{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }] }) });
  app.engine.script = hang;
  const openAs = async (key: string): Promise<WebSocket> => {
    const socket = new WebSocket(`${app.url.replace('http', 'ws')}/v1/responses`, { headers: { authorization: `Bearer ${key}` } });
    t.teardown(() => socket.terminate());
    await once(socket, 'open');
    return socket;
  };
  const long = JSON.stringify(create('x'.repeat(20 * 2 ** 20)));
  const closed: number[] = [];
  for (let at = 0; at < 4; at++) {
    const socket = await openAs('a');
    socket.on('close', (code) => closed.push(code));
    socket.send(JSON.stringify(create('Hi')));
    socket.send(long);
  }
  await until(() => closed.length >= 2);
  t.ok(closed.every((code) => code === 1008 || code === 1013), String(closed));
  app.engine.script = echo;
  const other = await openAs('b');
  other.send(JSON.stringify(create('Hello.')));
  const told: string[] = [];
  other.on('message', (data: Buffer) => told.push(data.toString()));
  await until(() => told.some((one) => one.includes('response.completed')));
});

t.test('what a client leaves unread counts as unread replies', async (t) => {
  const app = await startApp(t, { bodyMemoryBytes: 100 * mib });
  // More than the kernel buffers, and half of the memory for four.
  const echo = create([], { generate: false, instructions: 'x'.repeat(12 * mib) });
  const idle = [];
  for (let at = 0; at < 3; at++) {
    const { socket, next } = await open(t, app.url);
    socket.send(JSON.stringify(echo));
    t.equal((await next()).type, 'response.created');
    socket.pause();
    idle.push(socket);
  }
  const { ask } = await open(t, app.url);
  t.match((await ask(echo)).at(-1), { type: 'error', status: 503, error: { code: 'body_memory_full' } });
  t.equal((await ask(create('Hi'))).at(-1)!.type, 'response.completed', 'short replies go on');
  t.notMatch(app.logged.join(), /internal_error|without a reply/);
  for (const socket of idle) socket.terminate();
  let last = '';
  while (last !== 'response.completed') last = (await ask(echo)).at(-1)!.type;
  t.pass('and then there is room again');
});

t.test('a stop does not wait for a client that reads no messages', async (t) => {
  const app = await startApp(t);
  const { socket, next } = await open(t, app.url);
  app.engine.script = async function* () { yield { content: 'x'.repeat(32 * mib) }; };
  socket.send(JSON.stringify(create('Hi')));
  await next();
  socket.pause();
  await until(() => app.engine.running.size === 0 && app.engine.delivered === 1);
  await app.close(60 * 60_000);
  t.pass('closed');
});
