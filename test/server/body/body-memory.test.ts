import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { BodyMemory, bytesPerByte } from '#recua/server/body/body-memory.js';
import { hello, post, startApp, until } from '../app-under-test.js';
import { deferred } from '../../deferred.js';

const path = '/v1/chat/completions';
const chatOf = (length: number) => ({ messages: [{ role: 'user', content: 'x'.repeat(length) }] });

t.test('bodies never hold more memory than there is, and release all of it', (t) => {
  const memory = new BodyMemory(1_000);
  const [one, two] = [memory.open('ann'), memory.open('bob')];
  one.add(600);
  t.throws(() => two.add(500), { code: 'body_memory_full' });
  two.add(400);
  t.throws(() => two.add(601), { code: 'body_too_large' });
  t.equal(memory.usedBytes, 1_000);
  one.release();
  one.release();
  one.add(5_000);
  t.equal(memory.usedBytes, 400, 'what comes after the end does not count');
  const gone = two.lend();
  two.release();
  t.equal(memory.usedBytes, 400, 'the engine has it');
  gone();
  gone();
  t.equal(memory.usedBytes, 0);
  t.end();
});

t.test('when memory is full, trickling bodies give way, the oldest first', (t) => {
  const memory = new BodyMemory(1_000, 0);
  const ended: string[] = [];
  const [old, young, whole, last] = [memory.open('ann'), memory.open('bob'), memory.open('cat'), memory.open('dan')];
  old.onRefusal = (error) => ended.push(`old ${error.code}`);
  young.onRefusal = () => ended.push('young');
  whole.onRefusal = () => ended.push('whole');
  old.add(300);
  young.add(300);
  whole.add(400);
  whole.arrived();
  last.add(200);
  t.same(ended, ['old request_timeout']);
  t.equal(memory.usedBytes, 900);
  last.add(300);
  t.same(ended, ['old request_timeout', 'young']);
  t.throws(() => last.add(200), { code: 'body_memory_full' }, 'one that is here stays');
  const patient = new BodyMemory(1_000, 1e9);
  patient.open('ann').add(1_000);
  t.throws(() => patient.open('bob').add(1), { code: 'body_memory_full' });
  t.end();
});

t.test('one client has half of the memory besides its largest body, and its slow bodies give way first', (t) => {
  const memory = new BodyMemory(1_000, 1e9);
  const mine = [200, 200, 300].map((bytes) => {
    const one = memory.open('ann');
    one.add(bytes);
    return one;
  });
  const more = memory.open('ann');
  more.add(100);
  t.throws(() => more.add(1), { code: 'body_memory_full', message: /same API key or from the same address/ });
  mine[2]!.add(50);
  memory.open('bob').add(150);
  t.throws(() => memory.open('bob').add(1), { code: 'body_memory_full', message: /^The bodies of other requests use/ });
  mine[2]!.release();
  more.add(350);
  t.equal(memory.usedBytes, 1_000, 'its largest body may be as large as there is room');
  const strict = new BodyMemory(1_000, 0);
  const ended: string[] = [];
  for (const [name, client, bytes] of [['other', 'bob', 100], ['old', 'ann', 300], ['young', 'ann', 400]] as const) {
    const one = strict.open(client);
    one.onRefusal = ({ code }) => ended.push(`${name} ${code}`);
    one.add(bytes);
  }
  strict.open('ann').add(201);
  t.same(ended, ['old request_timeout'], 'not those of others');
  t.end();
});

t.test('requests of one key that wait leave room for the bodies of another', async (t) => {
  const apiKeyFile = JSON.stringify({ keys: [{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }] });
  const { url, engine } = await startApp(t, { bodyMemoryBytes: 100_000, apiKeyFile });
  engine.acceptAfter = new Promise(() => undefined);
  const leaving = new AbortController();
  const ask = (key: string, length: number) => post(url + path, chatOf(length), { authorization: `Bearer ${key}` }, leaving.signal);
  const refused: number[] = [];
  const asked = Array.from({ length: 8 }, async () => {
    const { status } = await ask('a', 5_000);
    refused.push(status);
  });
  await until(() => engine.requests.length + refused.length === 8);
  t.same([...new Set(refused)], [503]);
  t.equal((await ask('a', 5_000)).status, 503);
  const others = engine.requests.length;
  const answer = ask('b', 5_000);
  await until(() => engine.requests.length === others + 1);
  leaving.abort();
  await Promise.allSettled([...asked, answer]);
});

t.test('requests that wait for the engine hold memory, and others get 503 with Retry-After until it is free', async (t) => {
  const { url, engine } = await startApp(t, { bodyMemoryBytes: 100_000 });
  const { promise: accepted, resolve: accept } = deferred();
  engine.acceptAfter = accepted;
  const held = [1, 2].map(() => post(url + path, chatOf(10_000)));
  await until(() => engine.requests.length === 2);
  const refused = await post(url + path, chatOf(10_000));
  t.equal(refused.status, 503);
  t.ok(Number(refused.headers.get('retry-after')) > 0);
  t.match(await refused.json(), { error: { code: 'body_memory_full', type: 'unavailable_error' } });
  const small = post(url + path, hello);
  await until(() => engine.requests.length === 3);
  accept();
  for (const answer of [...held, small]) t.equal((await answer).status, 200);
  t.equal((await post(url + path, chatOf(10_000))).status, 200, 'all is free again');
});

t.test('a client that leaves while its request waits frees its memory', async (t) => {
  const { url, engine } = await startApp(t, { bodyMemoryBytes: 100_000 });
  engine.acceptAfter = new Promise(() => undefined);
  for (let times = 0; times < 5; times++) {
    const leaving = new AbortController();
    const gone = post(url + path, chatOf(20_000), {}, leaving.signal).catch(() => undefined);
    await until(() => engine.requests.length === times + 1);
    leaving.abort();
    await gone;
    await until(() => engine.cancelled === times + 1);
  }
  engine.acceptAfter = Promise.resolve();
  t.equal((await post(url + path, chatOf(20_000))).status, 200);
});

t.test('refused bodies hold nothing', async (t) => {
  const { url } = await startApp(t, { bodyMemoryBytes: 100_000 });
  for (let times = 0; times < 10; times++) {
    t.equal((await post(url + path, `{"messages":${' '.repeat(20_000)}`)).status, 400);
    t.equal((await post(url + path, { ...chatOf(20_000), temperature: 'hot' })).status, 400);
    t.equal((await post(url + '/v1/embeddings', { input: 'x'.repeat(20_000) })).status, 200);
  }
  t.equal((await post(url + path, chatOf(20_000))).status, 200);
});

t.test('a body that does not fit by itself is a 413, and so is one with too many fields', async (t) => {
  const { url, logged } = await startApp(t, { bodyMemoryBytes: 100_000 });
  t.ok(logged.some((line) => /^warn request bodies may have 25000 bytes, not 33554432/.test(line)), 'told at the start');
  const large = await post(url + path, chatOf(100_000 / bytesPerByte));
  t.equal(large.status, 413);
  t.match(await large.json(), { error: { message: /25000 bytes/ } });
  const fields = await post(url + path, `{${'"a":1,'.repeat(2_000)}"b":1}`);
  t.equal(fields.status, 413);
  t.match(await fields.json(), { error: { message: /more memory/ } });
});

t.test('compressed text does not kill a process with a small heap', async (t) => {
  const entry = fileURLToPath(new URL('../small-heap-main.js', import.meta.url));
  const child = fork(entry, [], { execArgv: ['--max-old-space-size=64'], stdio: ['ignore', 'inherit', 'ignore', 'ipc'] });
  let ended = false;
  child.once('exit', () => (ended = true));
  t.teardown(() => child.kill('SIGKILL'));
  const [url] = (await once(child, 'message')) as [string];
  // 4 MB of text each, at 16 bits per character in V8.
  const body = new Uint8Array(gzipSync(JSON.stringify({ messages: [{ role: 'user', content: `…${'x'.repeat(4_000_000)}` }] })));
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  t.ok(body.length < 10_000);
  const leaving = new AbortController();
  const statuses: Record<string, number> = {};
  const requests = Array.from({ length: 60 }, async () => {
    try {
      const res = await fetch(url + path, { method: 'POST', body, headers, signal: leaving.signal });
      statuses[res.status] = (statuses[res.status] ?? 0) + 1;
      await res.text();
    } catch {
      statuses['gone'] = (statuses['gone'] ?? 0) + 1;
    }
  });
  await until(() => ended || (statuses['503'] ?? 0) > 50);
  t.notOk(ended, 'it lives');
  // Waiting requests hold their text; a short one is served beside them.
  t.equal((await post(url + path, hello)).status, 200);
  leaving.abort();
  await Promise.all(requests);
  t.same(Object.keys(statuses).sort(), ['503', 'gone'], JSON.stringify(statuses));
  t.equal((await fetch(`${url}/health`)).status, 200);
});
