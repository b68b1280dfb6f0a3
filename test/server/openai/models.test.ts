import t from 'tap';
import { post, served, startApp } from '../app-under-test.js';
import { FakeEngine, description } from '../fake-engine.js';

t.test('GET /v1/models lists the model with its effective context', async (t) => {
  const { url, engine } = await startApp(t);
  engine.state = { state: 'ready', model: description, status: { running: 2, waiting: 1, tokens: 0 } };
  engine.tokensPerSecond = 12.345;
  const list = await (await fetch(`${url}/v1/models`)).json();
  t.equal(list.object, 'list');
  t.same(list.data, [{
    id: served.id, object: 'model', created: served.createdSeconds, owned_by: 'recua', aliases: ['small'],
    status: { value: 'loaded', running: 2, waiting: 1, tokens_per_second: 12.3 },
    file_bytes: description.sizeBytes, memory_bytes: description.sizeBytes, requests: 0, pinned: true, expires_at: null, fixed: true,
    max_model_len: description.contextSize, context_length: description.contextSize, context_window: description.contextSize,
    capabilities: ['completion', 'embedding', 'tools'],
    meta: { vocab_type: 2, n_vocab: 100, n_ctx: 1024, n_ctx_train: 4096, n_embd: 8, n_params: 1000, size: 4000, ftype: 'F32', devices: [], device_memory_bytes: 0, n_gpu_layers: 0, n_layers: 3, description: 'fake 1K F32', fingerprint: 'f1' },
  }]);
});

t.test('GET /v1/models/:id finds it by id, alias and default, with slashes plain or encoded', async (t) => {
  const { url } = await startApp(t);
  for (const name of ['owner/model', 'owner%2Fmodel', 'OWNER/Model', 'small', 'default', '%2Ffolder%2Fsmall.gguf']) {
    const res = await fetch(`${url}/v1/models/${name}`);
    t.equal(res.status, 200, name);
    t.equal((await res.json()).id, served.id);
  }
});

t.test('an unknown model is a 404 that names those served', async (t) => {
  const { url, engine } = await startApp(t);
  const answers = [
    await fetch(`${url}/v1/models/gpt-4`),
    await post(`${url}/v1/chat/completions`, { model: 'gpt-4', messages: [{ role: 'user', content: 'hi' }] }),
    await post(`${url}/v1/embeddings`, { model: 'gpt-4', input: 'hi' }),
  ];
  for (const res of answers) {
    t.equal(res.status, 404);
    t.match(await res.json(), { error: { code: 'model_not_found', param: 'model', message: /"gpt-4".*"owner\/model", "small"\.$/ } });
  }
  t.equal(engine.requests.length, 0);
});

t.test('an invalid percent-encoding in a name is a 400', async (t) => {
  const { url } = await startApp(t);
  const res = await fetch(`${url}/v1/models/%E0%A4%A`);
  t.equal(res.status, 400);
  t.match(await res.json(), { error: { code: 'invalid_value' } });
});

t.test('models are listed while the engine loads, and keep their details over a restart', async (t) => {
  const engine = new FakeEngine();
  const ready = engine.state;
  engine.state = { state: 'loading', fraction: 0 };
  const { url } = await startApp(t, {}, engine);
  const loading = (await (await fetch(`${url}/v1/models`)).json()).data[0];
  t.same(loading, {
    id: served.id, object: 'model', created: served.createdSeconds, owned_by: 'recua', aliases: ['small'],
    status: { value: 'loading', fraction: 0, running: 0, waiting: 0, tokens_per_second: 0 }, memory_bytes: 0, requests: 0, pinned: true, expires_at: null, fixed: true,
  });
  engine.state = ready;
  await (await fetch(`${url}/v1/models`)).json();
  engine.crash();
  t.match((await (await fetch(`${url}/v1/models`)).json()).data[0], { status: { value: 'loading' }, meta: { n_ctx: 1024 } });
});
