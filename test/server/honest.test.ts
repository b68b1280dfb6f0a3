// Every field of a request takes effect, is refused, or is reported as a warning: in every dialect,
// never silently dropped. Over the fake engine.
import t from 'tap';
import { ownFolder, post, startApp, type AppUnderTest } from './app-under-test.js';
import { FakeEngine } from './fake-engine.js';

const messages = [{ role: 'user', content: 'hi' }];
const generating: [path: string, body: object][] = [
  ['/v1/chat/completions', { messages }], ['/v1/completions', { prompt: 'hi' }], ['/v1/responses', { input: 'hi' }], ['/v1/messages', { messages, max_tokens: 9 }],
  ['/api/chat', { messages, stream: false }], ['/api/generate', { prompt: 'hi', stream: false }], ['/completion', { prompt: 'hi' }],
];

interface Reply {
  status: number;
  code?: string;
  param?: string;
  message?: string;
  warnings?: string[];
}

/** Status, error and warnings, wherever the dialect puts them. */
async function ask(app: AppUnderTest, path: string, body: object): Promise<Reply> {
  const response = await post(app.url + path, body);
  const reply = await response.json();
  const error = typeof reply.error === 'object' && reply.error ? reply.error : { ...reply, message: reply.error };
  return { status: response.status, code: error.code, param: error.param, message: error.message, warnings: reply.warnings };
}

for (const [path, body] of generating) {
  t.test(`${path}: constraints under all their names hold, or are refused`, async (t) => {
    const app = await startApp(t);
    for (const [more, kind] of [
      [{ regex: '[a-c]+' }, 'grammar'], [{ choice: ['a', 'b'] }, 'grammar'], [{ guided_regex: 'x' }, 'grammar'], [{ guided_choice: ['a'] }, 'grammar'], [{ guided_json: { type: 'object' } }, 'schema'],
      [{ guided_grammar: 'root ::= "a"' }, 'grammar'], [{ structured_outputs: { regex: 'x' } }, 'grammar'], [{ grammar: 'root ::= "a"' }, 'grammar'], [{ json_schema: { type: 'object' } }, 'schema'],
      [{ response_format: { type: 'json_object' } }, 'schema'], [{ grammar: '' }, 'none'],
    ] as const) {
      t.match(await ask(app, path, { ...body, ...more }), { status: 200, warnings: undefined }, JSON.stringify(more));
      t.equal(app.engine.requests.at(-1)!.constraint.kind, kind, JSON.stringify(more));
    }
    for (const [more, param] of [
      [{ regex: '' }, 'regex'], [{ guided_regex: '' }, 'guided_regex'], [{ regex: 'a', choice: ['a'] }, 'regex'], [{ choice: ['a'], guided_json: {} }, 'choice'], [{ choice: '' }, 'choice'],
    ] as const) t.match(await ask(app, path, { ...body, ...more }), { status: 400, param }, JSON.stringify(more));
  });

  t.test(`${path}: a nearly known name is refused, and any other is reported`, async (t) => {
    const app = await startApp(t);
    t.match(await ask(app, path, { ...body, temprature: 1 }), path.startsWith('/api') ? { status: 200, warnings: [/"temprature"/] } : { status: 400, code: 'unknown_parameter', param: 'temprature' });
    t.match(await ask(app, path, { ...body, nonsense: 1, nothing: null }), { status: 200, warnings: ['Not fields of this request, and ignored: "nonsense".'] });
    t.match(await ask(app, path, { ...body, streem: 1 }), { status: 400, param: 'streem', message: /did you mean stream\?/ });
    for (const other of ['speed', 'mode', 'return_token_ids', 'modle']) t.match(await ask(app, path, { ...body, [other]: false }), { status: 200, warnings: [new RegExp(`"${other}"`)] }, other);
  });
}

t.test('a constraint of a dialect’s own cannot be combined with another', async (t) => {
  const app = await startApp(t);
  const schema = { type: 'object' };
  for (const [path, body] of [
    ['/v1/messages', { messages, max_tokens: 9, output_config: { format: { type: 'json_schema', schema } } }], ['/api/chat', { messages, stream: false, format: 'json' }],
    ['/v1/responses', { input: 'x', text: { format: { type: 'json_object' } } }], ['/api/chat', { messages, stream: false, options: { grammar: 'root ::= "a"' } }],
  ] as const) t.match(await ask(app, path, { ...body, regex: 'a' }), { status: 400, code: 'invalid_value' }, path);
  const tool = { type: 'function', name: 'f', input_schema: schema, parameters: schema, function: { name: 'f' } };
  const custom = { name: 'f', input_schema: schema };
  t.match(await ask(app, '/v1/messages', { messages, max_tokens: 9, tools: [custom], regex: 'a' }), { status: 400, param: 'regex' });
  for (const path of ['/v1/responses', '/api/chat']) t.match(await ask(app, path, { messages, input: 'x', tools: [tool], regex: 'a' }), { status: 400, param: 'regex' }, path);
  await ask(app, '/api/chat', { messages, stream: false, options: { regex: 'a' } });
  t.match(app.engine.requests.at(-1)!.constraint, { kind: 'grammar', param: 'options.regex' });
});

t.test('Ollama’s options are reported like fields of the body', async (t) => {
  const app = await startApp(t);
  const chat = (options: object): Promise<Reply> => ask(app, '/api/chat', { messages, stream: false, options });
  t.match(await chat({ temprature: 1 }), { status: 400, code: 'unknown_parameter', param: 'options.temprature', message: /did you mean options\.temperature\?/ });
  t.match(await chat({ penalize_newline: true, seed: 1 }), { status: 200, warnings: [/"options\.penalize_newline"/] });
});

t.test('a misspelled text does not load a model of Ollama’s', async (t) => {
  const app = await startApp(t);
  const empty = { model: 'default', keep_alive: 5 };
  for (const [path, body, param, meant] of [
    ['/api/chat', { message: messages }, 'message', 'messages'], ['/api/chat', { messages: [], mesages: messages }, 'mesages', 'messages'], ['/api/generate', { promt: 'x' }, 'promt', 'prompt'],
    ['/api/generate', { prompts: 'x' }, 'prompts', 'prompt'], ['/api/generate', { prompt: '', option: {} }, 'option', 'options'], ['/api/generate', { options: { temprature: 1 } }, 'options.temprature', 'options.temperature'],
  ] as const) t.match(await ask(app, path, { ...empty, ...body }), { status: 400, code: 'unknown_parameter', param, message: new RegExp(`did you mean ${meant}\\?`) }, `${path} ${param}`);
  t.match(await ask(app, '/api/generate', { ...empty, options: { num_ctx: 'x' } }), { status: 400, param: 'options.num_ctx' });
  t.match(await (await post(`${app.url}/api/generate`, { ...empty, color: 'red', options: { num_gpu: 3 } })).json(), { done_reason: 'load', warnings: [/^keep_alive/, /num_gpu has no effect/, /"color"/] });
  t.match((await (await post(`${app.url}/api/generate`, { model: 'default', system: 'x', stream: false, options: { seed: 1 } })).json()), { done_reason: 'load', warnings: undefined });
});

t.test('known fields that change nothing are not reported', async (t) => {
  const app = await startApp(t);
  const common = { user: 'u', metadata: { a: 'b' }, store: false, service_tier: 'auto', stream_options: { include_usage: true, include_obfuscation: false } };
  t.match(await ask(app, '/v1/chat/completions', { messages, ...common, cache_prompt: true, id_slot: -1, dry_sequence_breakers: [], post_sampling_probs: false, prompt_cache_key: 'k' }), { status: 200, warnings: undefined });
  t.match(await ask(app, '/v1/completions', { prompt: 'x', ...common }), { status: 200, warnings: undefined });
  t.match(await ask(app, '/v1/responses', { input: 'x', ...common, text: { verbosity: 'medium', format: { type: 'text' } }, reasoning: { effort: 'low', summary: 'auto' } }), { status: 200, warnings: undefined });
  t.match(await ask(app, '/v1/messages', { messages, max_tokens: 9, metadata: { user_id: 'u' }, service_tier: 'auto', thinking: { type: 'disabled' } }), { status: 200, warnings: undefined });
});

t.test('unsupported features are refused by name, or reported', async (t) => {
  const app = await startApp(t);
  const refused: [string, object, string][] = [
    ['/v1/chat/completions', { messages, stop_token_ids: [5] }, 'stop_token_ids'], ['/v1/completions', { prompt: 'x', bad_words: ['a'] }, 'bad_words'],
    ['/completion', { prompt: 'x', include_stop_str_in_output: true }, 'include_stop_str_in_output'], ['/v1/chat/completions', { messages, id_slot: 'x' }, 'id_slot'],
    ['/completion', { prompt: 'x', cache_prompt: 1 }, 'cache_prompt'], ['/v1/responses', { input: 'x', include: ['x'] }, 'include[0]'], ['/v1/responses', { input: 'x', include: [5] }, 'include[0]'],
    ['/v1/chat/completions', { messages, verbosity: 'loud' }, 'verbosity'], ['/v1/responses', { input: 'x', text: { verbosity: 5 } }, 'text.verbosity'],
    ['/v1/chat/completions', { messages, logprobs: true, top_logprobs: 2, n_probs: 3 }, 'n_probs'], ['/v1/chat/completions', { messages, choice: ['a'], min_tokens: 5 }, 'min_tokens'],
    ['/api/embed', { input: 'x', dimensions: 9 }, 'dimensions'], ['/api/embed', { input: 'x', options: 'y' }, 'options'], ['/api/generate', { prompt: [] }, 'prompt'],
    ['/api/chat', { messages: '' }, 'messages'], ['/v1/chat/completions', { messages, store: 'x' }, 'store'], ['/v1/responses', { input: 'x', background: true, store: false }, 'store'],
    ['/v1/responses', { input: 'x', background: true, temprature: 1 }, 'temprature'], ['/v1/embeddings', { input: 'x', dimension: 4 }, 'dimension'], ['/tokenize', { content: 'x', with_piece: true }, 'with_piece'],
  ];
  for (const [path, body, param] of refused) t.match(await ask(app, path, body), { status: 400, param }, `${path} ${JSON.stringify(body)}`);
  for (const [path, body, warning] of [
    ['/v1/chat/completions', { messages, verbosity: 'low' }, /^verbosity has no effect/], ['/v1/responses', { input: 'x', text: { verbosity: 'high' } }, /^text\.verbosity has no effect/],
    ['/v1/chat/completions', { messages, id_slot: 3 }, /^id_slot has no effect/], ['/completion', { prompt: 'x', cache_prompt: false }, /^cache_prompt has no effect/],
    ['/v1/embeddings', { input: 'x', truncate_prompt_tokens: 5 }, /"truncate_prompt_tokens"/],
  ] as const) t.match(await ask(app, path, body), { status: 200, warnings: [warning] }, path);
});

t.test('Ollama’s vectors are as short as requested, and of length 1', async (t) => {
  const app = await startApp(t);
  const embed = async (more: object): Promise<number[]> => (await (await post(`${app.url}/api/embed`, { input: 'abc', ...more })).json()).embeddings[0];
  const [whole, short] = [await embed({}), await embed({ dimensions: 3, truncate: true })];
  t.equal(short.length, 3);
  t.ok(Math.abs(Math.hypot(...short) - 1) < 1e-6);
  t.ok(Math.abs(short[0]! / short[1]! - whole[0]! / whole[1]!) < 1e-6);
});

t.test('unknown paths are reported in the words of their dialect', async (t) => {
  const { url } = await startApp(t);
  t.match(await (await fetch(`${url}/api/nothing`)).json(), { error: /No route GET \/api\/nothing/, code: 'route_not_found' });
  t.match(await (await post(`${url}/v1/messages/nothing`, {})).json(), { type: 'error', error: { type: 'not_found_error' }, request_id: /^req_/ });
  t.match(await (await fetch(`${url}/v1/messages`)).json(), { type: 'error' }, 'and another method');
  t.match(await (await fetch(`${url}/apix`)).json(), { error: { code: 'route_not_found' } }, 'no other');
});

t.test('Ollama’s routes take what curl -d sends, and no form of a page', async (t) => {
  const { url } = await startApp(t);
  const send = (headers: Record<string, string>, path = '/api/generate', body = '{"prompt":"a b","stream":false}') => fetch(url + path, { method: 'POST', headers: { 'user-agent': 'curl/8', ...headers }, body });
  const form = 'application/x-www-form-urlencoded';
  for (const type of [form, 'text/plain', 'application/octet-stream']) t.match(await (await send({ 'content-type': type })).json(), { response: 'a b' }, type);
  t.equal((await send({ 'content-type': form }, '/api/generate', 'prompt=x')).status, 400);
  t.equal((await send({ 'content-type': form }, '/v1/chat/completions', JSON.stringify({ messages }))).status, 415, 'its routes alone');
  const browsers: Record<string, string>[] = [{ origin: 'https://page.example' }, { origin: 'null' }, { 'user-agent': 'Mozilla/5.0 (X11) Firefox/140' }];
  for (const browser of browsers) {
    const refused = await send({ 'content-type': form, ...browser });
    t.equal(refused.status, 415, JSON.stringify(browser));
    t.match(await refused.json(), { code: 'unsupported_media_type' });
  }
  t.equal((await send({ 'content-type': 'application/json', origin: 'https://page.example' })).status, 200, 'a page that says JSON was asked by its browser');
});

t.test('a server of one model says that it stays when a client of Ollama unloads it', async (t) => {
  const { url } = await startApp(t);
  for (const path of ['/api/chat', '/api/generate']) {
    t.match(await (await post(url + path, { model: 'default', keep_alive: 0 })).json(), { done: true, done_reason: 'load', warnings: [/^keep_alive changes nothing here/] }, path);
  }
});

t.test('a request that llama-server takes without a body is refused for the right reason', async (t) => {
  const { url } = await startApp(t);
  for (const path of ['/slots/0?action=erase', '/props']) t.match(await (await fetch(url + path, { method: 'POST' })).json(), { error: { code: 'not_implemented' } }, path);
});

t.test('a response whose ancestor is gone says which one', async (t) => {
  const { url } = await startApp(t, {}, new FakeEngine(), { keepIn: ownFolder(t) });
  const create = async (more: object): Promise<any> => (await post(`${url}/v1/responses`, { input: 'x', ...more })).json();
  const first = await create({});
  const second = await create({ previous_response_id: first.id });
  await fetch(`${url}/v1/responses/${first.id}`, { method: 'DELETE' });
  const { error } = await create({ previous_response_id: second.id });
  t.match(error, { code: 'response_not_found', param: 'previous_response_id' });
  t.match(error.message, new RegExp(`^The response ${second.id} continues earlier responses.*${first.id}`));
});

t.test('an answer limit under the name of another dialect is refused with the right name', async (t) => {
  const app = await startApp(t);
  t.match(await ask(app, '/v1/responses', { input: 'x', max_tokens: 5 }), { status: 400, message: /did you mean max_output_tokens\?/ });
  t.match(await ask(app, '/api/chat', { messages, stream: false, options: { max_tokens: 5 } }), { status: 400, message: /did you mean options\.num_predict\?/ });
});
