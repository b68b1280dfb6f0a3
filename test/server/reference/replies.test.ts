// Real replies match the document, whole, streamed and as errors, and no field is undocumented.
import t, { type Test } from 'tap';
import { describeApi } from '#recua/server/app.js';
import { startApp, post } from '../app-under-test.js';
import { FakeEngine, description } from '../fake-engine.js';
import { FakePool } from '../fake-pool.js';
import { startRealApp } from '../real-engine.js';
import { makeConfig } from '#recua/settings/config.js';
import { listen } from '#recua/server/listen.js';
import { exact, faultOf, type Json } from './schemas.js';

const document = exact(describeApi().document);
const fault = faultOf(document);

/** By request path. */
function operationOf(method: string, path: string): Json {
  const plain = path.replace(/\?.*$/, '');
  const found = Object.entries(document.paths).find(([pattern]) => pattern === plain)
    ?? Object.entries(document.paths).find(([pattern]) => new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(plain));
  return found![1][method.toLowerCase()] as Json;
}

/** Sends a request and compares the reply with the document. */
async function ask(t: Test, url: string, method: string, path: string, body?: object): Promise<any> {
  const res = body === undefined || body instanceof FormData
    ? await fetch(url + path, { method, ...(body ? { body } : {}) })
    : await fetch(url + path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const text = await res.text();
  const what = `${method} ${path} ${JSON.stringify(body ?? null).slice(0, 200)}`;
  const reply = operationOf(method, path).responses[res.status] as Json | undefined;
  if (!reply) return t.fail(`${what}: ${res.status} is not documented: ${text.slice(0, 300)}`);
  const type = res.headers.get('content-type')?.split(';')[0] ?? '';
  const content = reply['content']?.[type];
  if (text === '' && !reply['content']) return { status: res.status };
  if (!content) return t.fail(`${what}: ${type} is not documented`);
  const parts = type === 'text/event-stream' ? [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data!))
    : type === 'application/x-ndjson' ? text.trim().split('\n').map((line) => JSON.parse(line))
      : type === 'application/json' ? [JSON.parse(text)] : [];
  for (const part of parts) {
    const wrong = fault(content.schema, part);
    if (wrong !== undefined) {
      t.fail(`${what}: ${wrong} in ${JSON.stringify(part).slice(0, 600)}`);
      break;
    }
  }
  if (res.status !== 200 && reply['x-error-codes']) {
    const code = parts[0].error.code ?? parts[0].code;
    if (!reply['x-error-codes'].includes(code)) t.fail(`${what}: ${code} is not documented`);
  }
  return { status: res.status, parts, type };
}

const hello = [{ role: 'user', content: 'hello' }];
const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { enum: ['Rome'] } }, required: ['city'], additionalProperties: false } } };
const look = { type: 'custom', custom: { name: 'look', format: { type: 'grammar', grammar: { syntax: 'regex', definition: '[a-c]{3}' } } } };
const few = { max_tokens: 4, temperature: 0 };
const claude = { max_tokens: 40, messages: hello };
const schema = { type: 'object', properties: { a: { enum: [1] } }, required: ['a'], additionalProperties: false };

/** Fields that show in a reply. Each request is sent whole and as a stream. */
const generating: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { ...few, messages: hello, n: 2, logprobs: true, top_logprobs: 2, return_tokens: true, timings_per_token: true, return_progress: true, stream_options: { include_usage: true } }],
  ['/v1/chat/completions', { ...few, messages: hello, logprobs: true, top_logprobs: 2, post_sampling_probs: true, keep_alive: 5, prediction: { type: 'content', content: 'a b' } }],
  ['/v1/chat/completions', { messages: hello, max_tokens: 100, tools: [weather], tool_choice: 'required' }],
  ['/v1/chat/completions', { messages: hello, max_tokens: 100, tools: [look], tool_choice: 'required' }],
  ['/v1/chat/completions', { messages: hello, max_tokens: 30, response_format: { type: 'json_schema', json_schema: { schema: { ...schema, uniqueItems: true, not: {} } } } }],
  ['/v1/completions', { ...few, prompt: ['a', 'b'], echo: true, logprobs: 2, return_tokens: true, n: 2 }],
  ['/v1/completions', { ...few, prompt: [1, 2, 3], echo: true, logprobs: 0, return_progress: true }],
  ['/v1/completions', { ...few, prompt: 'a', stream_options: { include_usage: true } }],
  ['/completion', { n_predict: 4, prompt: 'a', n_probs: 2, return_tokens: true, timings_per_token: true, return_progress: true }],
  ['/completion', { n_predict: 4, prompt: ['a', [1, 2]], n: 2, keep_alive: 1 }],
  ['/completion', { n_predict: 4, prompt: 'a', response_fields: ['content'] }],
  ['/v1/responses', { input: 'hello', max_output_tokens: 4, include: ['message.output_text.logprobs', 'reasoning.encrypted_content'], top_logprobs: 2, text: { verbosity: 'low' } }],
  ['/v1/responses', { input: 'hello', max_output_tokens: 100, instructions: 'a', metadata: { a: 'b' }, user: 'u', reasoning: { effort: 'low' }, tools: [{ type: 'function', ...weather.function }], tool_choice: 'required' }],
  ['/v1/responses', { input: 'hello', max_output_tokens: 100, tools: [{ type: 'custom', ...look.custom }, { type: 'web_search' }], tool_choice: 'required' }],
  ['/v1/messages', { ...claude, max_tokens: 4, stop_sequences: ['e'] }],
  ['/v1/messages', { ...claude, tools: [{ name: 'weather', input_schema: weather.function.parameters }], tool_choice: { type: 'any' } }],
  ['/v1/messages', { ...claude, thinking: { type: 'enabled', budget_tokens: 3 }, output_config: { format: { type: 'json_schema', schema } } }],
  ['/api/chat', { messages: hello, logprobs: true, top_logprobs: 2, options: { num_predict: 4, num_gpu: 3 } }],
  ['/api/chat', { messages: hello, tools: [weather], options: { num_predict: 40 } }],
  ['/api/generate', { prompt: 'hello', format: schema, options: { num_predict: 30 } }],
  ['/api/generate', { prompt: 'hello', raw: true, logprobs: true, options: { num_predict: 4 } }],
];

/** Requests that are sent once. */
const others: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['POST', '/v1/embeddings', { input: ['a', 'b'], encoding_format: 'base64', keep_alive: 3 }], ['POST', '/api/embed', { input: 'a' }], ['POST', '/api/embeddings', { prompt: 'a' }],
  ['POST', '/tokenize', { content: 'a \u{1f999}', with_pieces: true }], ['POST', '/tokenize', { content: 'a' }], ['POST', '/detokenize', { tokens: [] }],
  ['POST', '/api/chat', { messages: [] }], ['POST', '/api/generate', {}], ['GET', '/health'], ['GET', '/v1/health'], ['GET', '/v1/models'], ['GET', '/v1/models/small'], ['GET', '/v1/models/nobody'],
  ['GET', '/props'], ['POST', '/props'], ['GET', '/slots'], ['POST', '/slots/0?action=erase'], ['GET', '/api/tags'], ['GET', '/api/ps'], ['GET', '/api/version'], ['GET', '/'], ['GET', '/openapi.json'], ['GET', '/health/live'], ['GET', '/health/ready'], ['GET', '/metrics'],
  ['POST', '/v1/messages', { messages: [] }], ['POST', '/api/chat', { messages: [{}] }], ['POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(5_000) }] }],
  ['POST', '/v1/messages', { messages: [{ role: 'user', content: 'word '.repeat(5_000) }] }], ['POST', '/v1/chat/completions', { messages: hello, model: 'nobody' }], ['POST', '/v1/rerank', { query: 'a', documents: ['a'] }],
  ['GET', '/v1/responses/resp_x'], ['GET', '/v1/files?limit=0'], ['GET', '/v1/files/file-x'], ['GET', '/v1/batches/batch_x'], ['GET', '/v1/batches?after=x'], ['POST', '/v1/batches', { input_file_id: 'file-x', endpoint: '/v1/embeddings', completion_window: '24h' }],
];

t.test('the example of each route gets the documented reply', async (t) => {
  const { url } = await startRealApp(t);
  /** Routes that a server with one fixed model cannot serve. */
  const elsewhere = ['/v1/chat/completions/control', '/chat/completions/control', '/infill', '/slots/{id}', '/models/load', '/models/unload', '/sessions', '/sessions/{name}', '/api/pull', '/api/copy', '/api/delete', '/v1/batches', '/batches', '/v1/rerank', '/v1/reranking', '/rerank', '/reranking'];
  for (const [path, all] of Object.entries(document.paths)) {
    for (const [method, { requestBody }] of Object.entries(all)) {
      const example = requestBody?.content['application/json']?.example as object | undefined;
      if (!example) continue;
      const { status } = await ask(t, url, method.toUpperCase(), path, example);
      t.equal(status === 200, !elsewhere.includes(path), `${method} ${path}: ${status}`);
    }
  }
});

t.test('whole answers, streams and errors match the document', async (t) => {
  const { url } = await startRealApp(t);
  for (const [path, body] of generating) {
    for (const stream of [false, true]) {
      const { status, type } = await ask(t, url, 'POST', path, { ...body, stream });
      t.equal(status, 200, `${path} ${JSON.stringify(body)}`);
      t.equal(type !== 'application/json', stream);
    }
  }
  for (const [method, path, body] of others) await ask(t, url, method, path, body);
});

t.test('replies to slot actions match the document', async (t) => {
  const { engine } = await startRealApp(t);
  const { url } = await startApp(t, { slotSavePath: t.testdir({}) }, engine);
  await ask(t, url, 'POST', '/v1/completions', { prompt: 'a b c', ...few });
  for (const [action, body] of [['save', { filename: 'a' }], ['restore', { filename: 'a' }], ['erase', undefined], ['save', { filename: '../a' }], ['restore', { filename: 'b' }], ['explode', {}]] as const) {
    const { status } = await ask(t, url, 'POST', `/slots/0?action=${action}`, body);
    t.ok(status, `${action}: ${status}`);
  }
});

t.test('stored objects match the document', async (t) => {
  const { url } = await startRealApp(t);
  const { parts: [{ id }] } = await ask(t, url, 'POST', '/v1/responses', { input: 'hello', max_output_tokens: 3 });
  await ask(t, url, 'POST', '/v1/responses/input_tokens', { input: 'hello', previous_response_id: id });
  for (const rest of ['', '?stream=true', '?stream=true&starting_after=1', '/input_items', '/input_items?limit=1&order=asc']) t.equal((await ask(t, url, 'GET', `/v1/responses/${id}${rest}`)).status, 200);
  await ask(t, url, 'POST', `/v1/responses/${id}/cancel`);
  t.equal((await ask(t, url, 'DELETE', `/v1/responses/${id}`)).status, 200);
  const { parts: [background] } = await ask(t, url, 'POST', '/v1/responses', { input: 'hello', background: true, max_output_tokens: 300 });
  await ask(t, url, 'GET', `/v1/responses/${background.id}`);
  await ask(t, url, 'POST', `/v1/responses/${background.id}/cancel`);
  await ask(t, url, 'GET', `/v1/responses/${background.id}?stream=true`);
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([`${JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { ...few, messages: hello } })}\n`]), 'requests.jsonl');
  form.set('expires_after[anchor]', 'created_at');
  form.set('expires_after[seconds]', '3600');
  const { parts: [file] } = await ask(t, url, 'POST', '/v1/files', form);
  const { parts: [batch], status } = await ask(t, url, 'POST', '/v1/batches', { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { a: 'b' } });
  t.equal(status, 200);
  for (const path of ['/v1/files', `/v1/files/${file.id}`, `/v1/files/${file.id}/content`, '/v1/batches', `/v1/batches/${batch.id}`]) t.equal((await ask(t, url, 'GET', path)).status, 200);
  await ask(t, url, 'POST', `/v1/batches/${batch.id}/cancel`);
  t.equal((await ask(t, url, 'DELETE', `/v1/files/${file.id}`)).status, 200);
  // While an answer runs.
  const told = await post(`${url}/v1/chat/completions`, { messages: hello, max_tokens: 400, ignore_eos: true, stream: true, reasoning_control: true });
  const [, chat] = /"id":"([^"]+)"/.exec(new TextDecoder().decode((await told.body!.getReader().read()).value))!;
  const { parts: [controlled] } = await ask(t, url, 'POST', '/v1/chat/completions/control', { id: chat, action: 'reasoning_end' });
  t.equal(controlled.success, true);
});

t.test('the routes of several models, and of a reranker, match the document', async (t) => {
  const pool = new FakePool('chat', 'rank');
  const shelf = {
    open: async () => ({
      files: [],
      run: async (tell: (file: { digest: string; totalBytes: number }, done: number) => void) =>
        tell({ digest: 'sha256:abc', totalBytes: 10 }, 10),
    }),
    search: async () => [],
    offers: async () => [],
    unfinished: async () => [],
    aliases: async () => [],
    ownNames: async () => [],
    remove: async () => undefined,
    copy: async () => undefined,
    describe: async () => undefined,
  };
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }), shelf });
  t.teardown(() => close(0));
  for (const [method, path, body] of [
    ['POST', '/models/load', { model: 'chat', keep_alive: '5m' }], ['GET', '/models'], ['GET', '/health'], ['GET', '/api/ps'], ['GET', '/props?model=chat'], ['POST', '/models/unload', { model: 'chat' }],
    ['POST', '/api/pull', { model: 'a/b' }], ['POST', '/api/pull', { model: 'a/b', stream: false }], ['POST', '/api/copy', { source: 'a', destination: 'b' }], ['DELETE', '/api/delete', { model: 'a' }],
    ['POST', '/api/chat', { model: 'chat', messages: [], keep_alive: 0 }],
  ] as const) t.equal((await ask(t, url, method, path, body)).status, 200, `${method} ${path}`);
  const engine = new FakeEngine();
  engine.state = { state: 'ready', model: { ...description, canRerank: true }, status: { running: 0, waiting: 0, tokens: 0 } };
  const { url: ranking } = await startApp(t, {}, engine);
  for (const body of [{ documents: ['a', { text: 'b' }], return_documents: true, keep_alive: 1 }, { texts: ['a'], return_text: true }]) {
    t.equal((await ask(t, ranking, 'POST', '/v1/rerank', { query: 'a', ...body })).status, 200);
  }
});
