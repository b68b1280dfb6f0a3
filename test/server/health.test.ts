import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { hello, post, startApp } from './app-under-test.js';

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
    for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
      const refused = await post(url + path, hello);
      t.equal(refused.status, 503);
      t.ok(Number(refused.headers.get('retry-after')) > 0);
      t.match(await refused.json(), { error: { code: 'model_loading', type: 'unavailable_error' } });
    }
  }
  t.equal(engine.requests.length, 0);
});

t.test('a model that cannot be loaded is told with its error, and clients are told not to retry', async (t) => {
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
