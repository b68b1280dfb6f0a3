// 1,000 bodies from a seeded generator: valid requests with something broken, and plain noise. Only
// 2xx and 4xx may come back. Needs nothing that only the fake engine can do.
import t from 'tap';
import { post, subjectUrl } from './app-under-test.js';
import { below, mutated, pick, random, seed, set, spoiled, strange } from './strange.js';

const chatFields = ['messages', 'model', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'typical_p',
  'top_n_sigma', 'presence_penalty', 'frequency_penalty', 'repeat_penalty', 'repeat_last_n', 'penalty_last_n', 'dry_multiplier', 'dry_base', 'dry_allowed_length',
  'dry_penalty_last_n', 'xtc_probability', 'xtc_threshold', 'mirostat', 'mirostat_tau', 'mirostat_eta', 'seed', 'stop', 'logit_bias', 'grammar', 'response_format',
  'json_schema', 'min_tokens', 'samplers', 'dynatemp_range', 'dynatemp_exponent', 'adaptive_decay', 'min_keep', 'dry_sequence_breakers', 'n_probs',
  'post_sampling_probs', 'return_tokens', 'return_progress', 'timings_per_token', 'tools', 'tool_choice', 'parallel_tool_calls', 'chat_template_kwargs', 'enable_thinking', 'reasoning_effort', 'ignore_eos', 'n', 'logprobs',
  'top_logprobs', 'functions', 'function_call', 'audio', 'modalities', 'prediction', 'n_predict', 't_max_predict_ms', 'adaptive_target', 'reasoning_format', 'verbosity', 'user', 'metadata',
  'regex', 'choice', 'guided_regex', 'guided_choice', 'guided_json', 'guided_grammar', 'structured_outputs', 'reasoning_budget_tokens',
  'thinking_budget_tokens', 'reasoning_budget_message', 'reasoning_control', '__proto__', 'constructor', 'nonsense'];
const messageFields = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content', 'function_call'];

function chatBody(): object {
  const messages = Array.from({ length: 1 + below(3) }, () => ({ role: pick(['system', 'developer', 'user', 'assistant', 'tool']), content: pick(['hi', 'count to three', '']) }));
  const body = { max_tokens: 1 + below(4), messages };
  for (let times = below(4); times > 0; times--) set(body, pick(chatFields), strange());
  if (random() < 0.3) set(pick(messages), pick(messageFields), strange());
  return body;
}

function embeddingsBody(): object {
  const body = { input: pick<unknown>(['text', ['a', 'b'], [1, 2], [[1], [2, 3]], strange(), [strange(), strange()], [[strange()]]]) };
  if (random() < 0.5) set(body, pick(['model', 'encoding_format', 'dimensions', 'input', 'user']), strange());
  return body;
}

const count = 1_000;

t.test(`fuzzed bodies get 2xx or 4xx in the shape of OpenAI (seed ${seed})`, async (t) => {
  const url = await subjectUrl(t);
  const statuses: Record<number, number> = {};
  const wrong: string[] = [];
  const one = async (): Promise<void> => {
    const chat = random() < 0.75;
    const body = spoiled(chat ? chatBody() : embeddingsBody());
    const res = await post(`${url}/v1/${chat ? 'chat/completions' : 'embeddings'}`, body);
    const text = await res.text();
    statuses[res.status] = (statuses[res.status] ?? 0) + 1;
    if (res.status >= 500 || (res.status !== 200 && !isErrorBody(text)) || /^data: \{"error"/m.test(text)) wrong.push(`${res.status} for ${body.slice(0, 500)}: ${text.slice(0, 300)}`);
  };
  for (let done = 0; done < count; done += 4) await Promise.all([one(), one(), one(), one()]);
  t.comment(`statuses ${JSON.stringify(statuses)}`);
  t.same(wrong, []);
  t.ok(statuses[400] > count / 4 && statuses[200] > count / 20, 'both sides of the line were met');
  t.equal((await fetch(`${url}/health`)).status, 200);
});

/** A request that uses all fields of a route, and the shape of its errors. */
const routes: { path: string; body: object; error: RegExp }[] = [
  {
    path: '/v1/messages', error: /^\{"type":"error","error":\{.*"type":"\w+".*"message":".*"request_id":"req_/,
    body: {
      model: 'default', max_tokens: 3, system: [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }], stop_sequences: ['END'], stream: false, temperature: 0.5,
      thinking: { type: 'enabled', budget_tokens: 100 }, tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      tools: [{ name: 'f', description: 'F', input_schema: { type: 'object', properties: { a: { type: 'string' } } } }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi' }, { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'd' } }] },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'x', signature: '' }, { type: 'tool_use', id: 'a', name: 'f', input: { a: 'b' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'r' }], is_error: true }] },
      ],
    },
  },
  {
    path: '/v1/responses', error: /^\{"error":\{.*"code":"\w+"/,
    body: {
      model: 'default', max_output_tokens: 3, instructions: 'Be short.', stream: false, reasoning: { effort: 'low' }, text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' } } },
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }, { type: 'custom', name: 'g', format: { type: 'grammar', syntax: 'regex', definition: 'x' } }],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'f' }] }, store: false, background: false, previous_response_id: '',
      include: ['reasoning.encrypted_content'], metadata: { a: 'b' }, max_tool_calls: 3, prompt_cache_key: 'k',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'hi' }] }, { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'x' }], encrypted_content: 'recua:eA==' },
        { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: 'a', output: 'r' },
      ],
    },
  },
  {
    path: '/api/chat', error: /^\{"error":"/,
    body: {
      model: 'default', stream: false, logprobs: true, top_logprobs: 2, think: false, format: 'json', keep_alive: '5m', options: { temperature: 1, num_predict: 3, stop: ['x'], num_ctx: 100, seed: 1 },
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
      messages: [{ role: 'user', content: 'hi', images: [] }, { role: 'assistant', content: '', tool_calls: [{ function: { name: 'f', arguments: {} } }] }, { role: 'tool', tool_name: 'f', content: 'r' }],
    },
  },
  { path: '/api/generate', error: /^\{"error":"/, body: { model: 'default', prompt: 'hi', system: 's', raw: true, stream: false, format: { type: 'object' }, options: { num_predict: 3 } } },
  { path: '/api/embed', error: /^\{"error":"/, body: { model: 'default', input: ['a', 'b'], truncate: true } },
  {
    path: '/v1/completions', error: /^\{"error":\{.*"code":"\w+"/,
    body: { prompt: ['a', [1, 2]], n: 2, best_of: 3, max_tokens: 2, echo: true, logprobs: 2, suffix: '', stop: ['x'], seed: 1, stream: false, logit_bias: [['a', false], [1, 2]] },
  },
  {
    path: '/completion', error: /^\{"error":\{.*"code":"\w+"/,
    body: { prompt: ['a', [1, 2], { prompt_string: 'x' }], n_predict: 2, n_probs: 3, response_fields: ['content', 'timings/predicted_n'], samplers: ['top_k'], stop: ['x'], stream: false },
  },
  { path: '/infill', error: /^\{"error":\{.*"code":"\w+"/, body: { input_prefix: 'a', input_suffix: 'b', prompt: 'c', input_extra: [{ filename: 'f', text: 't' }], n_predict: 2 } },
  { path: '/v1/chat/completions', error: /^\{"error":\{.*"code":"\w+"/, body: { messages: [{ role: 'user', content: 'a' }], max_tokens: 2, prediction: { type: 'content', content: [{ type: 'text', text: 'x' }] }, logprobs: true, top_logprobs: 3 } },
  {
    path: '/v1/batches', error: /^\{"error":\{.*"code":"\w+"/,
    body: { input_file_id: 'file-x', endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { a: 'b' }, output_expires_after: { anchor: 'created_at', seconds: 3_600 } },
  },
  { path: '/tokenize', error: /^\{"error":\{.*"code":"\w+"/, body: { content: 'a b', with_pieces: true, add_special: true } },
  { path: '/detokenize', error: /^\{"error":\{.*"code":"\w+"/, body: { tokens: [1, 2, 3] } },
];

for (const { path, body, error } of routes) {
  t.test(`${path}: bodies with something broken get 2xx or 4xx in the dialect’s shape (seed ${seed})`, async (t) => {
    const url = await subjectUrl(t);
    const statuses: Record<number, number> = {};
    const wrong: string[] = [];
    const one = async (): Promise<void> => {
      const sent = spoiled(mutated(body));
      const res = await post(url + path, sent);
      const text = await res.text();
      statuses[res.status] = (statuses[res.status] ?? 0) + 1;
      if (res.status >= 500 || (res.status !== 200 && !error.test(text))) wrong.push(`${res.status} for ${sent.slice(0, 500)}: ${text.slice(0, 300)}`);
    };
    for (let done = 0; done < 120; done += 4) await Promise.all([one(), one(), one(), one()]);
    t.comment(`statuses ${JSON.stringify(statuses)}`);
    t.same(wrong, []);
    t.ok(statuses[400] > 10, 'some were refused');
    t.equal((await fetch(`${url}/health`)).status, 200);
  });
}

t.test('any query string and any path gets 2xx or 4xx', async (t) => {
  const url = await subjectUrl(t);
  const { id } = await (await post(`${url}/v1/responses`, { input: 'hi', max_output_tokens: 1 })).json() as { id: string };
  const paths = [`/v1/responses/${id}`, `/v1/responses/${id}/input_items`, '/v1/files', '/v1/batches', '/v1/files/file-x/content', '/v1/batches/batch_x'];
  const names = ['limit', 'after', 'order', 'stream', 'starting_after', 'purpose', 'include[]', '__proto__'];
  const values = ['', '0', '-1', '1', '1e9', '99999999999999999999', 'true', 'asc', 'x', '%00', '%', '%F0%9F%92%A5', 'a'.repeat(3_000)];
  const wrong: string[] = [];
  for (let done = 0; done < 200; done++) {
    const query = Array.from({ length: below(4) }, () => `${pick(names)}=${pick(values)}`).join('&');
    const path = `${random() < 0.1 ? `${pick(paths)}${pick(['/', '%', '%2f..', '/x', '%00'])}` : pick(paths)}?${query}`;
    const res = await fetch(url + path, { method: pick(['GET', 'GET', 'GET', 'HEAD', 'PUT']) });
    await res.text();
    if (res.status >= 500) wrong.push(`${res.status} for ${path.slice(0, 200)}`);
  }
  t.strictSame(wrong, []);
});

t.test('a body of 64 MiB is a 413', async (t) => {
  const url = await subjectUrl(t);
  const res = await post(`${url}/v1/chat/completions`, `{"messages":[{"role":"user","content":"${'x'.repeat(64 * 1024 * 1024)}"}]}`);
  t.equal(res.status, 413);
});

function isErrorBody(text: string): boolean {
  try {
    const { error } = JSON.parse(text);
    return typeof error.message === 'string' && typeof error.type === 'string' && typeof error.code === 'string' && 'param' in error;
  } catch {
    return false;
  }
}
