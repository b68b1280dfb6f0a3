import t, { type Test } from 'tap';
import { RecuaError } from '#recua/errors.js';
import { Probers } from '#recua/server/http/probers.js';
import { listen } from '#recua/server/listen.js';
import { makeConfig } from '#recua/settings/config.js';
import { hello, post, startApp, until } from './app-under-test.js';
import { description, hang } from './fake-engine.js';
import { FakePool } from './fake-pool.js';

t.test('GET /health is 200 when the model is loaded', async (t) => {
  const { url, engine } = await startApp(t);
  engine.crashes = 2;
  for (const path of ['/health', '/v1/health']) {
    const res = await fetch(url + path);
    t.equal(res.status, 200);
    t.same(await res.json(), { status: 'ok', model: 'loaded', running: 0, waiting: 0, requests: 0, crashes: 2 });
  }
});

t.test('while the model loads, health and inference are 503 with Retry-After', async (t) => {
  const { url, engine } = await startApp(t);
  for (const state of ['loading', 'restarting'] as const) {
    engine.state = { state, fraction: 0.5 };
    const res = await fetch(`${url}/health`);
    t.equal(res.status, 503);
    t.match(await res.json(), { status: 'loading', model: 'loading', progress: 0.5 });
    t.ok(Number(res.headers.get('retry-after')) > 0);
    if (state === 'restarting') continue;
    for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
      const refused = await post(url + path, hello);
      t.equal(refused.status, 503);
      t.ok(Number(refused.headers.get('retry-after')) > 0);
      t.match(await refused.json(), { error: { code: 'model_loading', type: 'unavailable_error' } });
    }
  }
  t.equal(engine.requests.length, 0);
});

t.test('while the engine starts again, requests wait, but those that can go elsewhere', async (t) => {
  const { url, engine } = await startApp(t);
  t.equal((await post(`${url}/v1/chat/completions`, hello)).status, 200);
  engine.state = { state: 'restarting', fraction: 0.5 };
  t.equal((await fetch(`${url}/health`)).status, 503);
  t.equal((await post(`${url}/v1/chat/completions`, hello)).status, 200, 'the engine keeps it for its next process');
  const refused = await post(`${url}/v1/chat/completions`, hello, { 'x-stream-opens': 'first-piece' });
  t.equal(refused.status, 503, 'a load balancer asks another replica');
  t.match(await refused.json(), { error: { code: 'model_loading' } });
});

t.test('a model that cannot be loaded is reported with its error, and clients are told not to retry', async (t) => {
  const { url, engine } = await startApp(t);
  engine.state = { state: 'failed', error: new RecuaError('model_unusable', 'Expected a known architecture, got "x".') };
  const res = await fetch(`${url}/health`);
  t.equal(res.status, 503);
  t.match(await res.json(), { status: 'error', model: 'failed', error: { code: 'model_unusable', message: /architecture/ } });
  const refused = await post(`${url}/v1/chat/completions`, hello);
  t.equal(refused.status, 500);
  t.equal(refused.headers.get('x-should-retry'), 'false');
  t.match(await refused.json(), { error: { code: 'model_unusable', type: 'server_error' } });
});

t.test('a closed engine is 503 shutting_down', async (t) => {
  const { url, engine } = await startApp(t);
  await engine.close();
  t.equal((await fetch(`${url}/health`)).status, 503);
  t.match(await (await post(`${url}/v1/chat/completions`, hello)).json(), { error: { code: 'shutting_down' } });
});

t.test('/health/live is 200 in every state, /health/ready says when requests can be served', async (t) => {
  const { url, engine, close } = await startApp(t, { apiKey: 'secret' });
  const ask = async (what: string): Promise<[number, any]> => {
    const res = await fetch(`${url}/health/${what}`);
    return [res.status, await res.json()];
  };
  t.same(await ask('live'), [200, { status: 'live' }], 'no key is asked for');
  t.same(await ask('ready'), [200, { status: 'ready' }]);
  const { state } = engine;
  engine.state = { state: 'restarting', fraction: 0.5 };
  t.match(await ask('ready'), [503, { status: 'loading', error: { code: 'model_loading' } }]);
  t.same(await ask('live'), [200, { status: 'live' }]);
  engine.state = { state: 'failed', error: new RecuaError('model_unusable', 'Expected a known architecture, got "x".') };
  t.match(await ask('ready'), [503, { status: 'failed', error: { code: 'model_unusable' } }]);
  t.same(await ask('live'), [200, { status: 'live' }]);
  engine.state = state;
  engine.script = hang;
  const running = post(`${url}/v1/chat/completions`, hello, { authorization: 'Bearer secret' }).catch(() => undefined);
  await until(() => engine.running.size === 1);
  const closed = close(1_000);
  t.match(await ask('ready'), [503, { status: 'stopping', error: { code: 'shutting_down' } }]);
  t.same(await ask('live'), [200, { status: 'live' }]);
  await Promise.all([running, closed]);
});

t.test('before a stop, who asks /health/ready regularly hears it twice, and requests are taken until then', async (t) => {
  const { url, close } = await startApp(t);
  const ready = async (): Promise<number> => (await fetch(`${url}/health/ready`)).status;
  t.equal(await ready(), 200);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  t.equal(await ready(), 200);
  const closed = close(60_000);
  for (const _ of [1, 2]) {
    const answered = await post(`${url}/v1/chat/completions`, hello);
    t.match([answered.status, answered.headers.get('connection')], [200, 'close']);
    t.equal(await ready(), 503);
  }
  await closed;
  await t.rejects(ready());
});

t.test('two that ask from one address are both told', async (t) => {
  const set = ownClock(t);
  const { url, close } = await startApp(t);
  const ready = async (): Promise<number> => (await fetch(`${url}/health/ready`)).status;
  let nowMs = 0;
  const both = async (): Promise<number[]> => {
    const first = await ready();
    set(nowMs += 200);
    return [first, await ready()];
  };
  for (const _ of [1, 2]) {
    t.strictSame(await both(), [200, 200]);
    set(nowMs += 1_000);
  }
  const closed = close(60_000);
  t.strictSame(await both(), [503, 503]);
  t.equal((await post(`${url}/v1/chat/completions`, hello)).status, 200);
  await closed;
});

/** A clock that stands still until it is set. */
function ownClock(t: Test): (ms: number) => void {
  const { now } = performance;
  t.teardown(() => (performance.now = now));
  let nowMs = 0;
  performance.now = () => nowMs;
  return (ms) => void (nowMs = ms);
}

t.test('a stop does not wait for who asked /health/ready once, or asks too rarely', async (t) => {
  const set = ownClock(t);
  const probers = new Probers();
  for (const address of ['rare', 'once', 'gone', 'gone']) probers.note(address);
  set(10_000);
  probers.note('rare');
  await probers.leave(60_000);
  t.ok(probers.isLeaving);
});

t.test('a stop waits for a balancer, whoever else asks from its address', async (t) => {
  const set = ownClock(t);
  const probers = new Probers();
  const ask = (): void => {
    probers.note('10.0.0.1 ');
    for (let at = 0; at < 200; at++) probers.note(`10.0.0.1 curl/${at}`);
  };
  for (const atMs of [0, 1_900, 3_800]) {
    set(atMs);
    ask();
  }
  set(4_800);
  let isOver = false;
  const left = probers.leave(60_000).then(() => (isOver = true));
  for (const _ of [1, 2]) {
    await new Promise(setImmediate);
    t.notOk(isOver, 'it has not heard it twice');
    ask();
  }
  await left;
});

t.test('of several models, one that can be loaded is enough to be ready', async (t) => {
  const pool = new FakePool('owner/a', 'owner/b');
  let isStarting = true;
  const { url, close } = await listen({ pool, isStarting: () => isStarting, config: makeConfig({ port: 0 }) });
  t.teardown(() => close(0));
  const ready = async (): Promise<[number, any]> => {
    const res = await fetch(`${url}/health/ready`);
    return [res.status, await res.json()];
  };
  const loading = { state: 'loading', fraction: 0 } as const;
  for (const id of ['owner/a', 'owner/b']) pool.change(id, loading);
  t.match(await ready(), [503, { status: 'loading' }], 'at the start');
  pool.change('owner/b', { state: 'unloaded' });
  t.match(await ready(), [503, { status: 'loading' }], 'one waits for its turn');
  pool.change('owner/a', { state: 'unloaded' });
  t.match(await ready(), [503, { status: 'loading' }], 'both wait');
  pool.change('owner/a', { state: 'loaded', model: description });
  t.same(await ready(), [200, { status: 'ready' }]);
  pool.change('owner/a', { state: 'unloaded' });
  pool.change('owner/b', loading);
  t.same(await ready(), [200, { status: 'ready' }], 'the second one pushed the first one out');
  isStarting = false;
  for (const id of ['owner/a', 'owner/b']) pool.change(id, { state: 'unloaded' });
  t.same(await ready(), [200, { status: 'ready' }], 'the first request loads one');
  for (const id of ['owner/a', 'owner/b']) pool.change(id, loading);
  t.same(await ready(), [200, { status: 'ready' }], 'models that take turns are all loading at times');
  const tooLarge = new RecuaError('model_too_large', 'It needs 9 GiB.');
  for (const id of ['owner/a', 'owner/b']) pool.broken.set(id, tooLarge);
  const failed = { state: 'failed', error: tooLarge.toPlain() } as const;
  pool.change('owner/a', failed);
  t.same(await ready(), [200, { status: 'ready' }]);
  pool.change('owner/b', failed);
  t.match(await ready(), [503, { status: 'failed', error: { code: 'model_too_large', message: /9 GiB/ } }]);
  pool.change('owner/b', loading);
  pool.entry('owner/b').hasFailed = true;
  t.match(await ready(), [503, { status: 'loading' }], 'one that failed is only tried again');
  pool.change('owner/b', failed);
  pool.models[0]!.engine.crashes = 2;
  t.match(await (await fetch(`${url}/health`)).json(), { crashes: 2 }, 'those of all models');
  pool.models.splice(0);
  t.match(await ready(), [503, { status: 'failed', error: { code: 'model_not_found' } }]);
});

t.test('a model that failed is tried again for a balancer, which sends no request that would do it', async (t) => {
  const pool = new FakePool('owner/a', 'owner/b');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  t.teardown(() => close(0));
  const crash = new RecuaError('model_crashed', 'It died five times.');
  for (const id of ['owner/a', 'owner/b']) {
    pool.change(id, { state: 'failed', error: crash.toPlain() });
    pool.entry(id).hasFailed = true;
  }
  pool.broken.set('owner/a', crash);
  pool.slow.add('owner/b');
  const ready = async (): Promise<number> => (await fetch(`${url}/health/ready`)).status;
  for (const _ of [1, 2, 3]) t.equal(await ready(), 503);
  await until(() => pool.entry('owner/b').state.state === 'loading');
  t.equal(pool.keepAlives.length, 2, 'each once');
  pool.finish('owner/b');
  t.equal(await ready(), 200);
  t.equal(pool.entry('owner/b').leases, 0);
});

t.test('a failed model whose load hangs does not keep the others from being tried', async (t) => {
  const pool = new FakePool('owner/hangs', 'owner/b');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  t.teardown(() => close(0));
  for (const id of ['owner/hangs', 'owner/b']) pool.change(id, { state: 'failed', error: new RecuaError('model_crashed', 'It died.').toPlain() });
  pool.slow.add('owner/hangs');
  t.equal((await fetch(`${url}/health/ready`)).status, 503);
  await until(() => pool.entry('owner/b').state.state === 'loaded');
  t.equal((await fetch(`${url}/health/ready`)).status, 200);
  t.equal(pool.cancelled, 1, 'one is enough');
  pool.broken.set('owner/b', new RecuaError('model_crashed', 'It died.'));
  pool.change('owner/b', { state: 'failed', error: new RecuaError('model_crashed', 'It died.').toPlain() });
  pool.entry('owner/hangs').hasFailed = true;
  pool.change('owner/hangs', { state: 'loading', fraction: 0 });
  t.match(await (await fetch(`${url}/health/ready`)).json(), { status: 'loading' });
  pool.broken.clear();
  while (!(await fetch(`${url}/health/ready`)).ok) await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(pool.entry('owner/hangs').state.state, 'loading');
});

t.test('without a key only the code of a failure is told, not the file\'s words', async (t) => {
  const error = new RecuaError('model_unusable', 'In /home/ann/x.gguf expected a known architecture, got "x".');
  const one = await startApp(t, { apiKey: 'secret' });
  one.engine.state = { state: 'failed', error };
  const pool = new FakePool('small');
  pool.broken.set('small', error);
  pool.change('small', { state: 'failed', error: error.toPlain() });
  const several = await listen({ pool, config: makeConfig({ port: 0, apiKey: 'secret' }) });
  t.teardown(() => several.close(0));
  for (const { url } of [one, several]) {
    for (const path of ['/health', '/health/ready']) {
      const stranger = await (await fetch(url + path)).text();
      t.match(stranger, /model_unusable.*The model (owner\/model|small) cannot be loaded|The model (owner\/model|small) cannot be loaded.*model_unusable/, path);
      t.notMatch(stranger, /home|architecture/);
      t.match(await (await fetch(url + path, { headers: { 'x-api-key': 'secret' } })).text(), /home.*architecture/);
    }
  }
});
