// The API over a pool with several models.
import type { IncomingMessage, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import type { Config } from '#recua/settings/config.js';
import { makeConfig } from '#recua/settings/config.js';
import { RecuaError } from '#recua/errors.js';
import { listen } from '#recua/server/listen.js';
import type { RequestDefaults } from '#recua/request/sampling-fields.js';
import { deferred } from '../deferred.js';
import { events, hello, post, startApp, until } from './app-under-test.js';
import { description, FakeEngine, hang } from './fake-engine.js';
import { FakePool } from './fake-pool.js';

const path = '/v1/chat/completions';

async function startPool(t: Test, config: Partial<Config> = {}, defaultsOf?: (id: string) => Partial<RequestDefaults>) {
  const pool = new FakePool('owner/a', 'owner/b');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0, ...config }), ...(defaultsOf ? { defaultsOf } : {}) });
  t.teardown(() => close(0));
  return { pool, url, close };
}

const requests = { a: { ...hello, model: 'owner/a' }, b: { ...hello, model: 'owner/b-alias' } };

t.test('a request goes to the model that it names, and the answer names that model', async (t) => {
  const { pool, url } = await startPool(t);
  t.equal((await (await post(url + path, requests.b)).json()).model, 'owner/b');
  t.equal((await (await post(url + path, hello)).json()).model, 'owner/a');
  t.equal((await (await post(`${url}/v1/embeddings`, { model: 'owner/b', input: 'x' })).json()).model, 'owner/b');
  const streamed = events(await (await post(url + path, { ...requests.b, stream: true })).text());
  t.equal(JSON.parse(streamed[0]).model, 'owner/b');
  t.equal(JSON.parse(streamed[0]).system_fingerprint, 'llama.cpp-fake');
  t.same(pool.models.map(({ engine }) => engine.requests.length), [1, 2]);
  t.same(pool.models.map(({ leases }) => leases), [0, 0]);
});

t.test('a server of one model says that keep_alive changes nothing, and one of several obeys it', async (t) => {
  const { url } = await startApp(t);
  const { pool, url: several } = await startPool(t);
  const asked = { ...hello, keep_alive: '5m' };
  const warning = /^keep_alive changes nothing here: this server has a single model/;
  t.match((await (await post(url + path, asked)).json()).warnings, [warning]);
  t.notOk('warnings' in await (await post(url + path, hello)).json());
  const streamed = events(await (await post(url + path, { ...asked, stream: true })).text());
  t.match(JSON.parse(streamed.at(-2)!).warnings, [warning]);
  t.match((await (await post(`${url}/v1/embeddings`, { input: 'x', keep_alive: 0 })).json()).warnings, [warning]);
  t.notOk('warnings' in await (await post(several + path, asked)).json());
  t.strictSame(pool.keepAlives, [300_000]);
});

t.test('a stream whose model failed to load before its name was found stays closed', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 50 });
  const { find } = pool;
  const { promise: isFound, resolve: found } = deferred();
  pool.find = async (name) => {
    await isFound;
    return await find.call(pool, name);
  };
  pool.slow.add('owner/a');
  const asked = post(url + path, { ...hello, stream: true });
  await until(() => pool.entry('owner/a').waiting.length === 1);
  pool.finish('owner/a', new RecuaError('model_unusable', 'Its weights are damaged.'));
  const failed = await asked;
  t.equal(failed.status, 500);
  t.match(await failed.json(), { error: { code: 'model_unusable' } });
  found();
  // Longer than a ping: opened now, the stream would throw in a timer.
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal((await fetch(`${url}/health/live`)).status, 200);
});

t.test('a stream that opens while its model loads says of itself what any other says', async (t) => {
  const asked = async (loads: boolean): Promise<string> => {
    const { pool, url } = await startPool(t, { pingIntervalMs: 30 });
    if (loads) pool.slow.add('owner/a');
    const reply = post(`${url}/completion`, { model: 'owner/a', prompt: 'a b c', stream: true, seed: 1 });
    if (loads) {
      const { body } = await reply;
      t.ok(body, 'the headers came');
      pool.finish('owner/a');
    }
    const text = await (await reply).text();
    return text.split('\n').filter((line) => line.startsWith('data: ') && !/"content":"","tokens":\[\],"stop":false/.test(line)).join('\n').replaceAll(/"(prompt|predicted)_(per_token_)?ms":[\d.e-]+/g, '');
  };
  const [usual, early] = [await asked(false), await asked(true)];
  t.match(usual, /"tokens_evaluated":[1-9]/);
  t.equal(early, usual);
});

t.test('a name that is too long is refused, and no model is looked for', async (t) => {
  const { pool, url } = await startPool(t);
  const { find } = pool;
  let longest = 0;
  pool.find = async (name) => {
    longest = Math.max(longest, name?.length ?? 0);
    return await find.call(pool, name);
  };
  const name = `a/b${'@'.repeat(100_000)}:latest`;
  for (const [route, body] of Object.entries({ chat: { model: name }, show: { name }, 'show?': { model: name }, generate: { model: name, prompt: 'x' }, embed: { model: name, input: 'x' } })) {
    const refused = await post(`${url}/api/${route}`, { messages: hello.messages, ...body });
    t.equal(refused.status, 400, route);
    t.match((await refused.json()).error, /the name of a model, of at most 4096 characters/);
  }
  t.ok(longest < 100, String(longest));
});

t.test('a model is released however its answer ends', async (t) => {
  const { pool, url } = await startPool(t);
  const { engine } = pool.entry('owner/a');
  const idle = () => until(() => pool.models.every(({ leases }) => leases === 0));
  t.equal((await post(url + path, { ...hello, temperature: -1 })).status, 400);
  await idle();
  engine.early = new RecuaError('context_length_exceeded', 'Too long.');
  t.equal((await post(url + path, hello)).status, 400);
  t.equal((await post(`${url}/v1/embeddings`, { input: 'x' })).status, 400);
  await idle();
  engine.early = undefined;
  engine.script = hang;
  for (const stream of [true, false]) {
    const leaving = new AbortController();
    const answer = post(url + path, { ...hello, stream }, {}, leaving.signal).then((res) => res.text()).catch(() => 'left');
    await until(() => engine.running.size === 1);
    t.equal(pool.entry('owner/a').leases, 1);
    leaving.abort();
    t.equal(await answer, 'left');
    await idle();
  }
  const crashing = post(url + path, { ...hello, stream: true }).then((res) => res.text());
  await until(() => engine.running.size === 1);
  engine.crash();
  t.match(await crashing, /model_crashed/);
  await idle();
});

t.test('a stream that opens while its model is loaded repeats that model\'s settings', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 5 }, (id) => (id === 'owner/b' ? { temperature: 0.25, maxTokens: 5 } : {}));
  pool.slow.add('owner/b');
  const response = await post(`${url}/v1/responses`, { model: 'owner/b', input: 'Hi', stream: true });
  pool.finish('owner/b');
  const told = events(await response.text()).map((event) => event.replace(/^event: \S+\n(data: )?/, '')).filter((event) => event.startsWith('{'));
  const parsed = told.map((event) => JSON.parse(event) as { response?: { temperature: number } });
  const all = parsed.flatMap(({ response: one }) => (one ? [one.temperature] : []));
  t.ok(all.length >= 2);
  t.strictSame([...new Set(all)], [0.25]);
  t.equal(pool.entry('owner/b').engine.requests[0]!.maxTokens, 5);
});

t.test('a stream that its model\'s settings make invalid is refused while the model loads', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 5 }, (id) => (id === 'owner/b' ? { sampling: { topK: 0 } } : {}));
  pool.slow.add('owner/b');
  for (const stream of [true, false]) {
    const asked = post(url + path, { ...requests.b, stream, samplers: ['top_k', 'infill'] });
    if (!stream) {
      await until(() => pool.entry('owner/b').waiting.length > 0);
      pool.finish('owner/b');
    }
    const refused = await asked;
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { code: 'invalid_value' } });
  }
  t.equal((await fetch(`${url}/health/live`)).status, 200);
});

t.test('the durations of Ollama\'s answers include the load', async (t) => {
  const { pool, url } = await startPool(t);
  pool.slow.add('owner/b');
  const waitMs = 60;
  const answering = post(`${url}/api/chat`, { ...requests.b, stream: false }).then((response) => response.json() as Promise<{ total_duration: number; load_duration: number }>);
  await until(() => pool.entry('owner/b').waiting.length === 1);
  await new Promise((resolve) => setTimeout(resolve, waitMs));
  pool.finish('owner/b');
  const { total_duration: total, load_duration: load } = await answering;
  t.ok(load >= waitMs * 0.9 * 1e6, `${load} ns`);
  t.ok(total >= load);
});

t.test('a stream gets pings while its model is loaded, then the answer', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 20 });
  pool.slow.add('owner/b');
  const res = await post(url + path, { ...requests.b, stream: true, stream_options: { include_usage: true } });
  t.equal(res.status, 200);
  t.equal(pool.entry('owner/b').engine.requests.length, 0);
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (events(text).length < 3) text += (await reader.read()).value;
  pool.finish('owner/b');
  for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
  const [role, ping, ...rest] = events(text).filter((data) => data !== '[DONE]').map((data) => JSON.parse(data));
  t.match(role, { id: /^chatcmpl-/, object: 'chat.completion.chunk', model: 'owner/b', choices: [{ delta: { role: 'assistant' } }], usage: null });
  t.same(ping.choices[0].delta, {});
  t.ok([ping, ...rest].every(({ id, model }) => id === role.id && model === 'owner/b'));
  t.equal([ping, ...rest].filter(({ choices }) => choices[0]?.delta.role).length, 0, 'the role comes once');
  t.equal(rest.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), 'hello wide world');
  t.match(rest.at(-1), { choices: [], usage: { completion_tokens: 3 }, system_fingerprint: 'llama.cpp-fake' });
  t.ok(text.endsWith('data: [DONE]\n\n'));
});

t.test('without pings a stream and a whole answer wait for the model alike', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 0 });
  pool.slow.add('owner/b');
  const answers = Promise.all([post(url + path, { ...requests.b, stream: true }), post(url + path, requests.b)]);
  await until(() => pool.entry('owner/b').waiting.length === 2);
  pool.finish('owner/b', new RecuaError('model_unusable', 'Bad weights.'));
  for (const res of await answers) {
    t.equal(res.status, 500);
    t.match(await res.json(), { error: { code: 'model_unusable' } });
  }
  pool.finish('owner/b');
  t.equal((await post(url + path, requests.b)).status, 200);
});

t.test('a load that fails after pings were sent is an event of the stream', async (t) => {
  const { pool, url } = await startPool(t, { pingIntervalMs: 5 });
  pool.slow.add('owner/b');
  const res = await post(url + path, { ...requests.b, stream: true });
  pool.finish('owner/b', new RecuaError('model_unusable', 'Bad weights.'));
  const said = events(await res.text());
  t.match(JSON.parse(said.at(-1)!), { error: { code: 'model_unusable', message: 'Bad weights.' } });
  t.notOk(said.includes('[DONE]'));
  t.equal(pool.entry('owner/b').leases, 0);
});

t.test('a client that leaves during a load no longer waits for the model', async (t) => {
  const { pool, url } = await startPool(t);
  pool.slow.add('owner/b');
  for (const body of [requests.b, { ...requests.b, stream: true }]) {
    const leaving = new AbortController();
    const answer = post(url + path, body, {}, leaving.signal).catch(() => 'left');
    await until(() => pool.entry('owner/b').leases === 1);
    leaving.abort();
    t.equal(await answer, 'left');
    await until(() => pool.entry('owner/b').leases === 0);
  }
  t.equal(pool.cancelled, 2);
  t.equal(pool.entry('owner/b').engine.requests.length, 0);
});

t.test('a request that is wrong for any model is refused before one is loaded for it', async (t) => {
  const { pool, url } = await startPool(t);
  pool.slow.add('owner/b');
  const cases: [string, object, string][] = [
    [path, { ...requests.b, temperature: -1 }, 'temperature'], [path, { model: 'owner/b' }, 'messages'],
    ['/v1/embeddings', { model: 'owner/b', input: '' }, 'input'], ['/v1/rerank', { model: 'owner/b', query: 'x', documents: [] }, 'documents'],
    [path, { ...requests.b, keep_alive: 'soon' }, 'keep_alive'], [path, { ...requests.b, keep_alive: true }, 'keep_alive'],
  ];
  for (const [route, body, param] of cases) {
    const res = await post(url + route, body);
    t.equal(res.status, 400);
    t.equal((await res.json()).error.param, param);
  }
  t.equal(pool.entry('owner/b').leases, 0);
});

t.test('an unknown name is a 404 on every route, and no model answers for it', async (t) => {
  const { pool, url } = await startPool(t);
  const model = 'owner/c';
  const answers = [
    await post(url + path, { ...hello, model }), await post(url + path, { ...hello, model, stream: true }),
    await post(`${url}/v1/embeddings`, { model, input: 'x' }), await post(`${url}/v1/rerank`, { model, query: 'x', documents: ['y'] }),
    await fetch(`${url}/v1/models/${model}`), await post(`${url}/models/load`, { model }), await post(`${url}/models/unload`, { model }),
  ];
  for (const res of answers) {
    t.equal(res.status, 404);
    t.match(await res.json(), { error: { code: 'model_not_found', param: 'model', message: /Did you mean/ } });
  }
  t.ok(pool.models.every(({ engine, state }) => engine.requests.length === 0 && state.state === 'unloaded'));
});

t.test('keep_alive of a request is seconds, or a text with a unit', async (t) => {
  const { pool, url } = await startPool(t);
  for (const keepAlive of [undefined, 0, 30, 1.5, -1, '10m', '1h', '250ms', '-1', '45']) await post(url + path, { ...hello, keep_alive: keepAlive });
  t.same(pool.keepAlives, [undefined, 0, 30_000, 1_500, Infinity, 600_000, 3_600_000, 250, Infinity, 45_000]);
});

t.test('a model has its own defaults for absent fields', async (t) => {
  const { pool, url } = await startPool(t, { temperature: 0.5 }, (id) => (id === 'owner/b' ? { temperature: 0.25, maxTokens: 2, sampling: { topK: 7 } } : {}));
  await post(url + path, requests.a);
  const short = await (await post(url + path, requests.b)).json();
  t.equal(short.choices[0].finish_reason, 'length');
  await post(url + path, { ...requests.b, temperature: 1, top_k: 3, max_tokens: 9 });
  t.match(pool.entry('owner/a').engine.requests, [{ sampling: { temperature: 0.5, topK: 40 }, maxTokens: 2048 }]);
  t.match(pool.entry('owner/b').engine.requests, [
    { sampling: { temperature: 0.25, topK: 7 }, maxTokens: 2 }, { sampling: { temperature: 1, topK: 3 }, maxTokens: 9 },
  ]);
});

t.test('GET /v1/models and /models list every model with its state', async (t) => {
  const { pool, url } = await startPool(t);
  const bare = { object: 'model', created: 7, owned_by: 'recua', memory_bytes: 4_000, requests: 0, pinned: false, expires_at: null };
  const list = async (route = '/v1/models') => (await (await fetch(url + route)).json()).data;
  t.same(await list(), ['owner/a', 'owner/b'].map((id) => ({ ...bare, id, aliases: [`${id}-alias`], status: { value: 'unloaded' } })));
  pool.finish('owner/a');
  pool.change('owner/b', { state: 'loading', fraction: 0.25 });
  const [a, b] = await list('/models');
  t.match(a, { id: 'owner/a', status: { value: 'loaded' }, context_window: description.contextSize, meta: { n_ctx: description.contextSize }, expires_at: 1_700_000_001 });
  t.same(b.status, { value: 'loading', fraction: 0.25, running: 0, waiting: 0, tokens_per_second: 0 });
  pool.finish('owner/b', new RecuaError('invalid_gguf', 'Not a model.'));
  const failed = { value: 'failed', failed: true, reason: { code: 'invalid_gguf', message: 'Not a model.' } };
  t.same((await (await fetch(`${url}/v1/models/owner/b-alias`)).json()).status, failed);
  pool.change('owner/b', { state: 'unloading' });
  t.match(await list(), [{}, { status: { value: 'unloading' } }]);
});

t.test('models are loaded and unloaded by name', async (t) => {
  const { pool, url } = await startPool(t);
  const loaded = await post(`${url}/models/load`, { model: 'owner/b-alias' });
  t.match(await loaded.json(), { success: true, model: { id: 'owner/b', status: { value: 'loaded' } } });
  t.match(await (await post(`${url}/models/unload`, { model: 'owner/b' })).json(), { success: true, model: { status: { value: 'unloaded' } } });
  t.same(pool.keepAlives, [undefined]);
  await post(`${url}/models/load`, { model: 'owner/b', keep_alive: -1 });
  await post(`${url}/models/unload`, { model: 'owner/b' });
  t.same(pool.keepAlives, [undefined, Infinity]);
  t.match(await (await post(`${url}/models/load`, { model: 'owner/b', keep_alive: 'long' })).json(), { error: { param: 'keep_alive', code: 'invalid_value' } });
  for (const body of [{}, { model: '' }, { model: 1 }]) {
    const res = await post(`${url}/models/load`, body);
    t.equal(res.status, 400);
    t.match(await res.json(), { error: { param: 'model', code: 'invalid_type' } });
  }
  t.same(pool.models.map(({ state }) => state.state), ['unloaded', 'unloaded']);
});

t.test('GET /models/sse reports each change of state, and a stop does not wait for its clients', async (t) => {
  const { pool, url, close } = await startPool(t);
  const res = await fetch(`${url}/models/sse`);
  t.match(res.headers.get('content-type'), 'text/event-stream');
  pool.change('owner/a', { state: 'loading', fraction: 0.5 });
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  const next = async () => events((await reader.read()).value!).map((data) => JSON.parse(data) as object);
  t.same(await next(), [{ model: 'owner/a', event: 'status_change', data: { status: 'loading', progress: 0.5 } }]);
  pool.finish('owner/a', new RecuaError('model_unusable', 'Bad.'));
  t.same(await next(), [{ model: 'owner/a', event: 'status_change', data: { status: 'failed', error: { message: 'Bad.', code: 'model_unusable' } } }]);
  const [, last] = await Promise.all([close(60 * 60_000), reader.read()]);
  t.equal(last.done, true, 'the stream ends, and is not cut off');
  t.equal(pool.listeners, 0);
});

t.test('GET /health is 200 whatever the state of its models, and reports each', async (t) => {
  const { pool, url } = await startPool(t);
  pool.finish('owner/a');
  pool.change('owner/b', { state: 'loading', fraction: 0.25 });
  const res = await fetch(`${url}/health`);
  t.equal(res.status, 200);
  t.same(await res.json(), {
    status: 'ok', models: { 'owner/a': { value: 'loaded' }, 'owner/b': { value: 'loading', fraction: 0.25 } }, running: 0, requests: 0, crashes: 0,
  });
});

t.test('a slot of a model that the address names', async (t) => {
  const pool = new FakePool('one', 'two');
  const { url } = await startApp(t, { slotSavePath: t.testdir() }, new FakeEngine(), { pool });
  const erase = async (query: string, body?: object): Promise<number> => (await (body ? post(`${url}/slots/0?action=erase${query}`, body) : fetch(`${url}/slots/0?action=erase${query}`, { method: 'POST' }))).status;
  t.equal(await erase('&model=two'), 200);
  t.equal(await erase('&model=three'), 404);
  t.equal(await erase('&model=three', { model: 'two' }), 200, 'the body counts');
});

t.test('lists that are asked for at once go out one by one, so that others wait for one of them', async (t) => {
  const pool = new FakePool('one', 'two');
  const { list } = pool;
  const { url, server } = await startApp(t, {}, new FakeEngine(), { pool });
  for (const route of ['/v1/models', '/api/tags', '/health']) {
    let [asked, written, most] = [0, 0, 0];
    const { promise: begun, resolve: begin } = deferred();
    // All wait for one reading of the store.
    pool.list = async () => {
      asked++;
      await begun;
      return await list.call(pool);
    };
    const count = (_req: IncomingMessage, res: ServerResponse): void => {
      const end = res.end.bind(res) as (...parts: unknown[]) => ServerResponse;
      res.end = ((...parts: unknown[]) => {
        written++;
        return end(...parts);
      }) as typeof res.end;
    };
    server.prependListener('request', count);
    const replies = Array.from({ length: 20 }, async () => (await fetch(url + route)).status);
    await until(() => asked === 20);
    begin();
    for (let before = 0; written < 20; before = written) {
      await new Promise(setImmediate);
      most = Math.max(most, written - before);
    }
    t.strictSame(await Promise.all(replies), Array(20).fill(200));
    t.ok(most <= 2, `${route}: ${most} in one turn of the event loop`);
    server.off('request', count);
  }
});
