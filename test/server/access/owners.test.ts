// Files, batches and stored responses are visible to the key that made them.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { echo, FakeEngine, hang } from '../fake-engine.js';
import { ownFolder, post, startApp, until } from '../app-under-test.js';
import { deferred } from '../../deferred.js';
import { openSocket } from './open-socket.js';

const keys = { apiKeyFile: JSON.stringify([{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }, { name: 'chief', key: 'c', admin: true }]) };
const nobodyElses = /^404 There is no /;

async function start(
  t: Test,
  config = {},
  keepIn = ownFolder(t),
): Promise<{ url: string; of: (key: string) => OpenAI; close: (drainMs?: number) => Promise<void>; logged: string[] }> {
  const { url, close, logged } = await startApp(t, config, new FakeEngine(), { keepIn });
  return { url, close, logged, of: (apiKey) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }) };
}

const upload = async (client: OpenAI): Promise<OpenAI.FileObject> => {
  const line = { custom_id: 'one', method: 'POST', url: '/v1/chat/completions', body: { model: 'default', messages: [{ role: 'user', content: 'hello wide world' }] } };
  return await client.files.create({ file: await toFile(Buffer.from(JSON.stringify(line)), 'in.jsonl'), purpose: 'batch' });
};

t.test('files belong to their key', async (t) => {
  const { of } = await start(t, keys);
  const file = await upload(of('a'));
  t.notOk('by' in file);
  t.strictSame(await of('a').files.retrieve(file.id), file);
  for (const other of [of('b'), of('c')]) {
    await t.rejects(other.files.retrieve(file.id), { status: 404, code: 'file_not_found' });
    await t.rejects(other.files.content(file.id), nobodyElses);
    await t.rejects(other.files.delete(file.id), nobodyElses);
    t.strictSame((await other.files.list()).data, []);
    await t.rejects(other.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' }), nobodyElses);
  }
  t.strictSame((await of('a').files.list()).data, [file]);
  t.match(await of('a').files.delete(file.id), { deleted: true });
});

t.test('batches, and the files that they write, belong to their key', async (t) => {
  const { of } = await start(t, keys);
  const ann = of('a');
  const { id } = await ann.batches.create({ input_file_id: (await upload(ann)).id, endpoint: '/v1/chat/completions', completion_window: '24h' });
  let batch = await ann.batches.retrieve(id);
  while (!batch.output_file_id) batch = await ann.batches.retrieve(id);
  t.notOk('by' in batch);
  t.match(await (await ann.files.content(batch.output_file_id)).text(), /hello wide world/);
  for (const other of [of('b'), of('c')]) {
    await t.rejects(other.batches.retrieve(id), { status: 404, code: 'batch_not_found' });
    await t.rejects(other.batches.cancel(id), nobodyElses);
    await t.rejects(other.files.content(batch.output_file_id), nobodyElses);
    t.strictSame((await other.batches.list()).data, []);
  }
  t.equal((await ann.batches.list()).data.length, 1);
});

t.test('stored responses belong to their key: plain, in the background, over a WebSocket', async (t) => {
  const { of, url } = await start(t, keys);
  const plain = (await of('a').responses.create({ input: 'hello wide world' })).id;
  const background = (await of('a').responses.create({ input: 'hello wide world', background: true })).id;
  await t.rejects(of('b').responses.retrieve(background), nobodyElses, 'while it is made, too');
  while ((await of('a').responses.retrieve(background)).status !== 'completed');
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers: { authorization: 'Bearer a' } });
  t.teardown(() => socket.terminate());
  let spoken = '';
  socket.on('message', (data: Buffer) => { spoken = /"type":"response\.completed".*?"id":"(resp_\w+)"/.exec(data.toString())?.[1] ?? spoken; });
  socket.once('open', () => socket.send(JSON.stringify({ type: 'response.create', input: 'hello wide world' })));
  await until(() => spoken !== '');
  for (const id of [plain, background, spoken]) {
    t.equal((await of('a').responses.retrieve(id)).id, id);
    for (const other of [of('b'), of('c')]) {
      await t.rejects(other.responses.retrieve(id), { status: 404, code: 'response_not_found' });
      await t.rejects(other.responses.inputItems.list(id), nobodyElses);
      await t.rejects(other.responses.create({ input: 'and?', previous_response_id: id }), nobodyElses);
      await t.rejects(other.responses.delete(id), nobodyElses);
      await t.rejects(other.responses.cancel(id), nobodyElses);
    }
    t.match(await of('a').responses.create({ input: 'and?', previous_response_id: id }), { status: 'completed' });
    await of('a').responses.delete(id);
  }
});

t.test('objects made without a key are there for admins, and without keys all are', async (t) => {
  const keepIn = ownFolder(t);
  const open = await start(t, {}, keepIn);
  const file = await upload(open.of('none'));
  const { id } = await open.of('none').responses.create({ input: 'hello wide world' });
  await open.close(0);
  const closed = await start(t, keys, keepIn);
  t.strictSame(await closed.of('c').files.retrieve(file.id), file);
  t.equal((await closed.of('c').responses.retrieve(id)).id, id);
  await t.rejects(closed.of('a').files.retrieve(file.id), nobodyElses);
  await t.rejects(closed.of('a').responses.retrieve(id), nobodyElses);
  const own = await upload(closed.of('a'));
  await closed.close(0);
  const again = await start(t, {}, keepIn);
  t.equal((await again.of('none').files.list()).data.length, 2);
  t.strictSame(await again.of('none').files.retrieve(own.id), own);
});

t.test('lines of a batch whose key was removed are refused', async (t) => {
  const folder = ownFolder(t);
  const keyFile = join(folder, 'keys.json');
  writeFileSync(keyFile, keys.apiKeyFile);
  const engine = new FakeEngine();
  const { promise: gate, resolve: open } = deferred();
  engine.script = async function* (request) {
    await gate;
    yield* echo(request);
  };
  const app = await startApp(t, keys, engine, { keepIn: folder, keyFile });
  const client = (apiKey: string): OpenAI => new OpenAI({ baseURL: `${app.url}/v1`, apiKey, maxRetries: 0 });
  const lines = Array.from({ length: 12 }, (_, at) => JSON.stringify({ custom_id: `n${at}`, method: 'POST', url: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'x' }] } }));
  const file = await client('a').files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' });
  const { id } = await client('a').batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' });
  await until(() => engine.requests.length > 0);
  writeFileSync(keyFile, JSON.stringify([{ name: 'bob', key: 'b' }]));
  await until(() => app.logged.some((line) => line.includes('were read again')));
  open();
  const done = join(folder, process.getuid ? `kept-${process.getuid()}` : 'kept', 'batches', `${id}.json`);
  await until(() => (JSON.parse(readFileSync(done, 'utf8')) as { batch: { status: string } }).batch.status === 'completed');
  const { batch: { request_counts: counts } } = JSON.parse(readFileSync(done, 'utf8')) as { batch: OpenAI.Batch };
  // Those that ran when the key was removed may have been completed.
  t.ok(counts!.failed > 0 && counts!.completed + counts!.failed === 12, JSON.stringify(counts));
  t.ok(app.logged.some((line) => /POST \/v1\/chat\/completions 401 invalid_api_key/.test(line)));
});

t.test("batches of another server's keys take no place", async (t) => {
  const keepIn = ownFolder(t);
  const one = await startApp(t, keys, new FakeEngine(), { keepIn });
  one.engine.script = hang;
  const files = new Map<string, string>();
  const make = async (url: string, apiKey: string): Promise<string> => {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    if (!files.has(apiKey)) files.set(apiKey, (await upload(client)).id);
    return (await client.batches.create({ input_file_id: files.get(apiKey)!, endpoint: '/v1/chat/completions', completion_window: '24h' })).id;
  };
  await make(one.url, 'a');
  await until(() => one.engine.running.size === 1);
  await make(one.url, 'b');
  for (let i = 0; i < 50; i++) await Promise.all([make(one.url, 'a'), i > 0 ? make(one.url, 'b') : undefined]);
  await t.rejects(make(one.url, 'c'), { status: 429, code: 'queue_full' });
  const two = await startApp(t, { apiKeyFile: JSON.stringify([{ name: 'dan', key: 'd' }]) }, new FakeEngine(), { keepIn });
  let made: unknown;
  // It finds them soon after its start, then looks at each.
  await wait(2_000);
  for (let tries = 0; tries < 50 && typeof made !== 'string'; tries++) made = await make(two.url, 'd').catch((thrown: unknown) => thrown);
  t.type(made, 'string');
});

t.test('a server leaves a batch alone whose key only another server has, and continues those of its own', async (t) => {
  const keepIn = ownFolder(t);
  const one = await startApp(t, keys, new FakeEngine(), { keepIn });
  one.engine.script = hang;
  const of = (url: string, apiKey: string): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  const make = async (client: OpenAI): Promise<string> => (
    (await client.batches.create({ input_file_id: (await upload(client)).id, endpoint: '/v1/chat/completions', completion_window: '24h' })).id
  );
  await make(of(one.url, 'a'));
  await until(() => one.engine.running.size === 1);
  const [anns, bobs] = [await make(of(one.url, 'a')), await make(of(one.url, 'b'))];
  const two = await start(t, { apiKeyFile: JSON.stringify([{ name: 'bob', key: 'b' }]) }, keepIn);
  // Keys take turns: before bob's last one, each of ann's would have had its turn.
  for (const next of [() => bobs, () => make(two.of('b')), () => make(two.of('b')), () => make(two.of('b'))]) {
    const id = await next();
    let bob = await two.of('b').batches.retrieve(id);
    while (bob.status !== 'completed') bob = await two.of('b').batches.retrieve(id);
    t.match(bob.request_counts, { completed: 1, failed: 0 });
  }
  t.match(await of(one.url, 'a').batches.retrieve(anns), { status: 'validating' });
  await one.close(0);
  await two.close(0);
  // A server without keys has its own alone, too: it does not know the limits of ann.
  const open = await start(t, {}, keepIn);
  const own = await make(open.of('none'));
  while ((await open.of('none').batches.retrieve(own)).status !== 'completed');
  await wait(3_000);
  t.match(await open.of('none').batches.retrieve(anns), { status: 'validating' });
  t.strictSame(open.logged.filter((line) => line.includes('Batches of the API key')), ['warn Batches of the API key ann wait: this server has no such key, so it does not know its limits.']);
  await open.close(0);
  const again = await start(t, keys, keepIn);
  let ann = await again.of('a').batches.retrieve(anns);
  while (ann.status !== 'completed') ann = await again.of('a').batches.retrieve(anns);
  t.match(ann.request_counts, { completed: 1, failed: 0 });
});

t.test('only the key that asked for an answer ends its thinking', async (t) => {
  const engine = new FakeEngine();
  engine.script = async function* (_, signal) {
    yield { content: 'Well' };
    yield* hang(_, signal);
  };
  const { url } = await startApp(t, keys, engine);
  const abort = new AbortController();
  t.teardown(() => abort.abort());
  const body = { messages: [{ role: 'user', content: 'x' }], stream: true, reasoning_control: true };
  const reply = await post(`${url}/v1/chat/completions`, body, { 'x-api-key': 'a' }, abort.signal);
  const [, id] = /"id":"(chatcmpl-\w+)"/.exec(Buffer.from((await reply.body!.getReader().read()).value!).toString())!;
  const end = async (key: string): Promise<number> => (await post(`${url}/v1/chat/completions/control`, { id, action: 'reasoning_end' }, { 'x-api-key': key })).status;
  t.strictSame([await end('b'), await end('c'), await end('a')], [404, 404, 200]);
});

t.test('an expired key closes its WebSocket and stops its requests', async (t) => {
  const expiresMs = Date.now() + 5_000;
  const { url, of } = await start(t, { apiKeyFile: JSON.stringify([{ name: 'ann', key: 'a', expires: new Date(expiresMs).toISOString() }, { name: 'bob', key: 'b' }]) });
  t.equal((await post(`${url}/v1/responses`, { input: 'x' }, { 'x-api-key': 'a' })).status, 200);
  const [silent, speaking, other] = await Promise.all(['a', 'a', 'b'].map((key) => openSocket(t, url, key)));
  await new Promise((resolve) => setTimeout(resolve, expiresMs + 100 - Date.now()));
  speaking!.socket.send(JSON.stringify({ type: 'response.create', input: 'x' }));
  for (const { closed } of [speaking!, silent!]) t.equal(await closed, 1008);
  t.equal(other!.socket.readyState, WebSocket.OPEN);
  t.equal((await post(`${url}/v1/responses`, { input: 'x' }, { 'x-api-key': 'a' })).status, 401);
  t.ok(await of('b').responses.create({ input: 'x' }));
});
