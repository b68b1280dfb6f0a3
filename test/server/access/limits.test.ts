// The models and the amounts that API keys may use, over HTTP.
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { WebSocket } from 'ws';
import { chosenModels } from '#recua/models/served-models.js';
import { TokenUsage } from '#recua/server/access/token-usage.js';
import { listen } from '#recua/server/listen.js';
import { makeConfig } from '#recua/settings/config.js';
import { FakeEngine, hang } from '../fake-engine.js';
import { FakePool } from '../fake-pool.js';
import { hello, ownFolder, post, startApp, until } from '../app-under-test.js';

const path = '/v1/chat/completions';
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });
const keyFile = (...keys: object[]): { apiKeyFile: string } => ({ apiKeyFile: JSON.stringify({ keys: [{ name: 'owner', key: 'owner', admin: true }, ...keys] }) });

async function* endless(): AsyncGenerator<{ content: string }> {
  for (;;) {
    yield { content: 'on and on ' };
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
const { script: short } = new FakeEngine();

t.test('requests per minute are limited', async (t) => {
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', requests_per_minute: 2 }, { name: 'bob', key: 'b' }));
  const first = await post(url + path, hello, bearer('a'));
  t.equal(first.status, 200);
  t.match(Object.fromEntries(first.headers), { 'x-ratelimit-limit-requests': '2', 'x-ratelimit-remaining-requests': '1', 'x-ratelimit-reset-requests': /^(29|30)s$/, 'access-control-expose-headers': /x-ratelimit-reset-tokens/ });
  t.equal((await post(url + path, hello, bearer('a'))).headers.get('x-ratelimit-remaining-requests'), '0');
  const refused = await post(url + path, 'not even read', bearer('a'));
  t.match(Object.fromEntries(refused.headers), { 'retry-after': /^(29|30)$/, 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m0s' });
  t.equal(refused.status, 429);
  t.match(await refused.json(), { error: { code: 'rate_limit_exceeded', message: /^The API key ann may send 2 requests per minute, and has sent that many; try again in \d+ s\.$/ } });
  const { now } = Date;
  Date.now = () => now() + 3_600_000;
  t.teardown(() => { Date.now = now; });
  t.equal((await post(url + path, hello, bearer('a'))).status, 429, 'a clock that is set forward refills nothing');
  Date.now = now;
  t.match(await (await post(`${url}/v1/messages`, { ...hello, max_tokens: 5 }, bearer('a'))).json(), { type: 'error', error: { type: 'rate_limit_error' } });
  t.match(await (await post(`${url}/api/chat`, hello, bearer('a'))).json(), { error: /2 requests per minute/ });
  t.equal((await fetch(`${url}/v1/models`, { headers: bearer('a') })).status, 200, 'looking is no work');
  const other = await post(url + path, hello, bearer('b'));
  t.equal(other.status, 200);
  t.equal(other.headers.get('x-ratelimit-limit-requests'), null);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'a', maxRetries: 0 });
  await t.rejects(client.chat.completions.create({ model: 'default', messages: [{ role: 'user', content: 'x' }] }), { status: 429, code: 'rate_limit_exceeded' });
});

t.test('the page tells a key who asked only if it may know, and only of its models', async (t) => {
  const { url, engine, logged } = await startApp(t, keyFile({ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }, { name: 'eve', key: 'e', models: ['other'] }));
  await (await post(url + path, hello, bearer('a'))).text();
  engine.script = hang;
  const leaving = new AbortController();
  t.teardown(() => leaving.abort());
  post(url + path, hello, bearer('a'), leaving.signal).catch(() => undefined);
  await until(() => engine.running.size === 1 && logged.some((line) => line.includes(' 200 by "ann"')));
  for (const place of ['requests', 'running']) {
    const shown = async (key: string): Promise<{ model: string; key?: string }[]> => (await (await fetch(`${url}/ui/${place}`, { headers: bearer(key) })).json()).data;
    for (const key of ['owner', 'a']) t.match(await shown(key), [{ model: 'owner/model', key: 'ann' }], `${place} for ${key}`);
    const [forOther] = await shown('b');
    t.equal(forOther?.model, 'owner/model');
    t.equal(forOther?.key, undefined, place);
    t.strictSame(await shown('e'), [], place);
  }
});

t.test('a message over a WebSocket counts as a request', async (t) => {
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', requests_per_minute: 1 }));
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers: bearer('a') });
  t.teardown(() => socket.terminate());
  const told: string[] = [];
  socket.on('message', (data: Buffer) => told.push(data.toString()));
  socket.once('open', () => {
    for (const _ of [1, 2]) socket.send(JSON.stringify({ type: 'response.create', input: 'hello wide world' }));
  });
  await until(() => told.some((one) => one.includes('rate_limit_exceeded')));
  t.equal(told.filter((one) => one.includes('"response.completed"')).length, 1);
});

t.test('concurrent requests are limited', async (t) => {
  const engine = new FakeEngine();
  engine.script = endless;
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', concurrency: 1 }), engine);
  const leave = new AbortController();
  const slow = await post(url + path, { ...hello, stream: true }, bearer('a'), leave.signal).catch(() => undefined);
  t.equal(slow?.status, 200);
  const refused = await post(url + path, hello, bearer('a'));
  t.equal(refused.status, 429);
  const control = await post(`${url}${path}/control`, { id: 'chatcmpl-none', action: 'reasoning_end' }, bearer('a'));
  t.equal(control.status, 404, 'ending an answer is no work');
  t.equal(refused.headers.get('retry-after'), '1');
  t.match(await refused.text(), /may have 1 request at once, and has that many/);
  leave.abort();
  engine.script = short;
  let status = 0;
  for (let tries = 0; status !== 200 && tries < 200; tries++) ({ status } = await post(url + path, hello, bearer('a')));
  t.equal(status, 200, 'who leaves makes room');
});

t.test('a background response whose client watches it is one request', async (t) => {
  const engine = new FakeEngine();
  engine.script = endless;
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', concurrency: 2 }), engine);
  const ask = (): Promise<Response> => post(`${url}/v1/responses`, { input: 'x', background: true, stream: true }, bearer('a'));
  const watched: Response[] = [];
  for (const count of [1, 2]) {
    watched.push(await ask());
    await until(() => engine.running.size === count);
  }
  t.strictSame(watched.map(({ status }) => status), [200, 200]);
  t.equal((await ask()).status, 429);
  await watched[0]!.body!.cancel();
  t.equal((await ask()).status, 429, 'it goes on without its client');
});

t.test('tokens per day are limited, over prompts and answers, and across a restart', async (t) => {
  const keepIn = ownFolder(t);
  const keys = keyFile({ name: 'ann', key: 'a', tokens_per_day: 20 });
  const start = () => startApp(t, keys, new FakeEngine(), { keepIn });
  const first = await start();
  let used = 0;
  for (let asked = 0; used < 20 && asked < 20; asked++) {
    const reply = await post(first.url + path, hello, bearer('a'));
    t.equal(reply.status, 200);
    t.equal(Number(reply.headers.get('x-ratelimit-remaining-tokens')), 20 - used);
    used += ((await reply.json()) as { usage: { total_tokens: number } }).usage.total_tokens;
  }
  const refused = await post(first.url + path, hello, bearer('a'));
  t.equal(refused.status, 429);
  t.match(await refused.text(), /has used its 20 tokens for today/);
  t.equal(refused.headers.get('x-should-retry'), 'false');
  const seconds = Number(refused.headers.get('retry-after'));
  t.ok(seconds > 0 && seconds <= 86_400);
  await first.close(0);

  const second = await start();
  t.equal((await post(second.url + path, hello, bearer('a'))).status, 429);
  t.equal((await post(second.url + path, hello, bearer('owner'))).status, 200);
});

t.test('several answers to a prompt have used what their usage says', async (t) => {
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', tokens_per_day: 1_000 }), new FakeEngine());
  let used = 0;
  for (const n of [3, 1]) {
    const reply = await post(url + path, { ...hello, n }, bearer('a'));
    t.equal(Number(reply.headers.get('x-ratelimit-remaining-tokens')), 1_000 - used);
    used += ((await reply.json()) as { usage: { total_tokens: number } }).usage.total_tokens;
  }
});

t.test('a client that hangs up has used what was written by then', async (t) => {
  const engine = new FakeEngine();
  engine.script = endless;
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', tokens_per_day: 1_000_000 }), engine);
  const leave = new AbortController();
  await post(url + path, { ...hello, stream: true }, bearer('a'), leave.signal);
  leave.abort();
  let left = '1000000';
  for (let tries = 0; left === '1000000' && tries < 200; tries++) left = (await post(`${url}/tokenize`, { content: '' }, bearer('a'))).headers.get('x-ratelimit-remaining-tokens')!;
  t.ok(Number(left) < 1_000_000, left);
});

t.test('a client that hangs up while prompts wait for a place has used what was written', async (t) => {
  for (const stream of [true, false]) {
    const engine = new FakeEngine();
    engine.places = 1;
    engine.script = async function* (request, signal) {
      yield { content: 'x', soFar: { usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 7 }, timings: { queueMs: 0, promptMs: 0, generateMs: 0 } } };
      yield* hang(request, signal);
    };
    const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', tokens_per_day: 1_000_000 }), engine);
    const leave = new AbortController();
    post(`${url}/v1/completions`, { prompt: ['a', 'b', 'c'], stream }, bearer('a'), leave.signal).catch(() => undefined);
    await until(() => engine.delivered > 0);
    leave.abort();
    let left = '1000000';
    for (let tries = 0; left === '1000000' && tries < 200; tries++) left = (await post(`${url}/tokenize`, { content: '' }, bearer('a'))).headers.get('x-ratelimit-remaining-tokens')!;
    t.equal(Number(left), 1_000_000 - 8);
  }
});

t.test('a client that reads nothing and leaves has used what was generated', async (t) => {
  const engine = new FakeEngine();
  const count = 300;
  engine.script = async function* (_request, signal) {
    for (let completionTokens = 1; completionTokens <= count; completionTokens++) {
      await new Promise(setImmediate);
      yield { content: 'x'.repeat(100_000), soFar: { usage: { promptTokens: 1, cachedTokens: 0, completionTokens }, timings: { queueMs: 0, promptMs: 0, generateMs: 0 } } };
    }
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  };
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', tokens_per_day: 1_000_000 }), engine);
  const { port } = new URL(url);
  const body = JSON.stringify({ ...hello, stream: true, max_tokens: 1_000 });
  const client = connect(Number(port), '127.0.0.1').pause();
  client.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  while (engine.produced < count) await new Promise((resolve) => setTimeout(resolve, 10));
  t.ok(engine.delivered < count, 'most of it is not read');
  client.destroy();
  let left = '1000000';
  for (let tries = 0; left === '1000000' && tries < 200; tries++) left = (await post(`${url}/tokenize`, { content: '' }, bearer('a'))).headers.get('x-ratelimit-remaining-tokens')!;
  t.equal(Number(left), 1_000_000 - count - 1);
});

t.test('the count is shared between servers, and starts over each day', async (t) => {
  const file = join(ownFolder(t), 'tokens.json');
  const told: string[] = [];
  let nowMs = Date.parse('2026-06-01T23:59:00Z');
  const make = (): TokenUsage => new TokenUsage(() => Promise.resolve(file), (text) => told.push(text), () => nowMs);
  const [one, two] = [make(), make()];
  one.add('ann', 5);
  two.add('ann', 7);
  await one.flush();
  await two.flush();
  t.equal(two.usedBy('ann'), 12);
  await one.flush();
  t.equal(one.usedBy('ann'), 12);
  t.equal(one.leftSeconds, 60);
  nowMs += 60_000;
  t.equal(one.usedBy('ann'), 0);
  one.add('ann', 3);
  await one.flush();
  t.strictSame(JSON.parse(readFileSync(file, 'utf8')), { day: '2026-06-02', tokens: { ann: 3 } });
  for (const text of ['', '{', '[]', 'null', '{"day":"2026-06-02","tokens":{"ann":-1,"bob":"x"}}', '{"day":1,"tokens":7}']) {
    writeFileSync(file, text);
    const read = make();
    await read.ready();
    t.equal(read.usedBy('ann'), 0, text);
  }
  t.strictSame(told, []);
  const nowhere = new TokenUsage(() => Promise.resolve('/dev/null/tokens.json'), (text) => told.push(text), () => nowMs);
  nowhere.add('ann', 4);
  await nowhere.flush();
  await nowhere.flush();
  t.equal(nowhere.usedBy('ann'), 4, 'and counts on in memory');
  t.match(told, [/kept in memory only/]);
  t.equal(told.length, 1);
});

t.test('a key may use its models and no others', async (t) => {
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', models: ['small'] }, { name: 'bob', key: 'b', models: ['elsewhere'] }));
  const listed = async (key: string): Promise<number> => ((await (await fetch(`${url}/v1/models`, { headers: bearer(key) })).json()) as { data: object[] }).data.length;
  t.equal(await listed('a'), 1, 'by an alias, too');
  t.equal(await listed('b'), 0);
  t.match(await (await fetch(`${url}/api/tags`, { headers: bearer('b') })).json(), { models: [] });
  for (const model of ['small', 'owner/model']) t.equal((await post(url + path, { ...hello, model }, bearer('a'))).status, 200, model);
  for (const [at, body] of [[path, { ...hello, model: 'small' }], [path, hello], ['/v1/embeddings', { input: 'x' }], ['/v1/responses', { input: 'x' }], ['/v1/responses', { input: 'x', background: true }], ['/tokenize', { content: 'x' }], ['/api/chat', { model: 'small', messages: [] }], ['/completion', { prompt: 'x' }]] as const) {
    const refused = await post(url + at, body, bearer('b'));
    t.equal(refused.status, 403, `${at} ${JSON.stringify(body)}`);
    t.match(await refused.text(), /The API key bob may use elsewhere, but not /);
  }
  for (const at of ['/v1/models/small', '/props']) t.equal((await fetch(url + at, { headers: bearer('b') })).status, 403, at);
});

t.test('no request has a higher priority than its key', async (t) => {
  const engine = new FakeEngine();
  const { url } = await startApp(t, keyFile({ name: 'ann', key: 'a', priority: 'flex' }, { name: 'bob', key: 'b', priority: 'default' }), engine);
  for (const [key, tier, expected] of [['a', 'priority', -1], ['a', undefined, -1], ['b', 'priority', 0], ['b', 'flex', -1], ['owner', 'priority', 1]] as const) {
    await post(url + path, { ...hello, ...(tier === undefined ? {} : { service_tier: tier }) }, bearer(key));
    t.equal(engine.requests.at(-1)!.asker!.priority, expected, `${key} ${tier}`);
  }
});

t.test('a key is told of no other models by errors', async (t) => {
  const pool = new FakePool('small', 'large');
  const models = chosenModels(['small', 'large'].map((id) => ({ id, key: id, path: id, aliases: ['same'], unlisted: [], createdSeconds: 0, repo: undefined, file: undefined })));
  pool.find = async (name) => ({ ...(await pool.list())[0]!, ...await models.find(name) });
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0, ...keyFile({ name: 'ann', key: 'a', models: ['small'] }) }) });
  t.teardown(() => close(0));
  for (const at of ['/slots', '/slots?model=larg', '/slots?model=same', '/v1/models/larg', '/props']) {
    const told = await (await fetch(url + at, { headers: bearer('a') })).text();
    t.match(told, /The API key ann may use small\./, at);
    t.notMatch(told, /large/, at);
  }
});

t.test('only an admin decides how long models stay loaded', async (t) => {
  const pool = new FakePool('one', 'two');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0, ...keyFile({ name: 'ann', key: 'a' }) }) });
  t.teardown(() => close(0));
  const ask = async (at: string, body: object, key: string) => await (await post(url + at, { model: 'one', ...body }, bearer(key))).json() as { warnings?: string[]; done_reason?: string };
  for (const [at, body] of [[path, hello], ['/api/chat', { ...hello, stream: false }], ['/api/chat', { messages: [] }]] as const) {
    t.match(await ask(at, { ...body, keep_alive: -1 }, 'a'), { warnings: [/keep_alive changes nothing here: the API key ann /] }, at);
    t.equal(pool.keepAlives.at(-1), undefined, `${at}: it stays as long as others`);
    t.equal((await ask(at, { ...body, keep_alive: -1 }, 'owner')).warnings, undefined);
    t.equal(pool.keepAlives.at(-1), Infinity, at);
  }
  t.match(await ask('/api/chat', { messages: [], keep_alive: 0 }, 'a'), { error: /admin/ });
  t.equal(pool.entry('one').state.state, 'loaded', 'it is not unloaded');
  t.match(await ask('/api/chat', { messages: [], keep_alive: 0 }, 'owner'), { done_reason: 'unload' });
});
