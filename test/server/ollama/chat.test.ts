// POST /api/chat and /api/generate over the fake engine: what the engine gets from a request, and
// what the client gets from an answer with thoughts and calls.
import { Ollama, type Message } from 'ollama';
import t, { type Test } from 'tap';
import type { ChatMessage } from '#recua/engine/protocol.js';
import { RecuaError } from '#recua/errors.js';
import { post, startApp, type AppUnderTest } from '../app-under-test.js';
import { messagesOf } from '../fake-engine.js';

const tool = { type: 'function', function: { name: 'get_weather', description: 'The weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const messages = [{ role: 'user', content: 'Hi' }];

async function start(t: Test): Promise<{ client: Ollama; app: AppUnderTest }> {
  const app = await startApp(t);
  return { app, client: new Ollama({ host: app.url }) };
}

t.test('a conversation with tools reaches the engine; results find their calls by name', async (t) => {
  const { client, app } = await start(t);
  const history: Message[] = [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: '', thinking: 'Two cities.', tool_calls: [{ function: { name: 'a', arguments: { x: 1 } } }, { function: { name: 'b', arguments: {} } }] },
    { role: 'tool', content: 'of b', tool_name: 'b' },
    { role: 'tool', content: 'of a', tool_name: 'a' },
  ];
  await client.chat({ model: 'default', messages: history, tools: [tool] });
  const [, assistant, b, a] = messagesOf(app.engine.requests[0]!) as [ChatMessage, ChatMessage, ChatMessage, ChatMessage];
  t.match(assistant, { role: 'assistant', content: null, reasoning_content: 'Two cities.', tool_calls: [{ function: { name: 'a', arguments: '{"x":1}' } }, { function: { name: 'b' } }] });
  t.match(b, { role: 'tool', content: 'of b', tool_call_id: assistant.tool_calls![1]!.id });
  t.match(a, { role: 'tool', content: 'of a', tool_call_id: assistant.tool_calls![0]!.id });
  // Templates print the ids: the next turn's prompt must begin with the same text.
  await client.chat({ model: 'default', messages: [...history, { role: 'user', content: 'And now?' }], tools: [tool] });
  t.strictSame(messagesOf(app.engine.requests[1]!).slice(0, 4), messagesOf(app.engine.requests[0]!));
  // Mistral's templates refuse other ids.
  for (const { id } of assistant.tool_calls!) t.match(id, /^[a-zA-Z0-9]{9}$/);
});

t.test('a result belongs to the oldest open call of its tool, or else to the oldest of all', async (t) => {
  const { app } = await start(t);
  const call = (name: string, id: string): object => ({ id, function: { name, arguments: {} } });
  const result = (name?: string): object => ({ role: 'tool', content: 'x', ...(name === undefined ? {} : { tool_name: name }) });
  const messages = [
    { role: 'assistant', tool_calls: [call('a', '1'), call('b', '2'), call('a', '3'), call('c', '4')] },
    ...['b', 'unknown', 'a', undefined, 'a'].map(result), { role: 'user', content: 'y' },
  ];
  t.equal((await post(`${app.url}/api/chat`, { messages, stream: false })).status, 200);
  const idsOf = (request: number): unknown[] => messagesOf(app.engine.requests[request]!).filter(({ role }) => role === 'tool').map(({ tool_call_id: id }) => id);
  t.strictSame(idsOf(0), ['2', '1', '3', '4', undefined]);
  messages.splice(1, 5, { ...result('a'), tool_call_id: '1' }, result('a'), result());
  t.equal((await post(`${app.url}/api/chat`, { messages, stream: false })).status, 200);
  t.strictSame(idsOf(1), ['1', '3', '2'], 'a call that a result names is answered');
});

t.test('thoughts, text and calls come whole and streamed alike', async (t) => {
  const { client, app } = await start(t);
  app.engine.script = async function* () {
    yield* [{ reasoning: 'Hm.' }, { content: 'I look.' }, { toolCalls: [{ index: 0, id: 'c', name: 'get_weather', arguments: '{"city":' }] }, { toolCalls: [{ index: 0, arguments: '"Lima"}' }] }];
  };
  app.engine.finish = { finishReason: 'tool_calls' };
  const whole = await client.chat({ model: 'default', messages, tools: [tool] });
  const call = { function: { name: 'get_weather', arguments: { city: 'Lima' } } };
  t.match(whole, { done_reason: 'stop', message: { thinking: 'Hm.', content: 'I look.', tool_calls: [call] } });
  const parts = [];
  for await (const part of await client.chat({ model: 'default', messages, tools: [tool], stream: true })) parts.push(part);
  t.equal(parts.map(({ message }) => message.content).join(''), 'I look.');
  t.equal(parts.map(({ message }) => message.thinking ?? '').join(''), 'Hm.');
  t.match(parts.flatMap(({ message }) => message.tool_calls ?? []), [call]);
  t.match(parts.at(-1), { done: true, message: { content: '' } });
});

t.test('a stream is one JSON text per line, and the default', async (t) => {
  const { app } = await start(t);
  const response = await post(`${app.url}/api/chat`, { messages: [{ role: 'user', content: 'a b c' }] });
  t.equal(response.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
  const lines = (await response.text()).trim().split('\n').map((line) => JSON.parse(line) as { done: boolean; model: string });
  t.ok(lines.length > 1);
  t.strictSame(lines.map(({ done }) => done), [...lines.slice(1).map(() => false), true]);
  t.equal(lines[0]!.model, 'owner/model');
});

t.test('an answer that fails in its stream ends with an error', async (t) => {
  const { client, app } = await start(t);
  app.engine.script = async function* () {
    yield { content: 'begun' };
    await new Promise(setImmediate);
    throw new RecuaError('model_crashed', 'The engine process died.');
  };
  await t.rejects((async () => {
    for await (const _ of await client.chat({ model: 'default', messages, stream: true }));
  })(), { message: /The engine process died/ });
});

t.test('options, format and think reach the engine; options that need a reload are a warning', async (t) => {
  const { app } = await start(t);
  const options = { temperature: 0.5, top_k: 7, num_predict: 3, stop: ['x'], repeat_last_n: 8, num_ctx: 1_000_000, num_gpu: 1 };
  const body = { messages, stream: false, options, format: { type: 'object' }, think: false };
  const reply = await (await post(`${app.url}/api/chat`, body)).json() as { warnings: string[] };
  t.match(app.engine.requests[0], {
    sampling: { temperature: 0.5, topK: 7, penaltyLastN: 8 }, maxTokens: 3, stop: ['x'], enableThinking: false,
    constraint: { kind: 'schema', schema: '{"type":"object"}', strict: false, param: 'format' },
  });
  t.match(reply.warnings, [/num_gpu/, /num_ctx is 1000000/]);
  await post(`${app.url}/api/generate`, { prompt: 'p', system: 's', stream: false, format: 'json', think: 'high', options: { num_predict: -1 } });
  t.match(app.engine.requests[1], { templateKwargs: { reasoning_effort: 'high' }, constraint: { kind: 'schema' }, maxTokens: 2_147_483_647 });
  t.strictSame(messagesOf(app.engine.requests[1]!), [{ role: 'system', content: 's' }, { role: 'user', content: 'p' }]);
  await post(`${app.url}/api/chat`, { messages, stream: false, tools: [{ function: { name: 'f' } }], options: { num_predict: 0 } });
  t.match(app.engine.requests.pop(), { maxTokens: 2_147_483_647, toolSources: [{ name: 'f' }] });
  await post(`${app.url}/api/chat`, { messages, stream: false, think: true });
  t.match(app.engine.requests[2], { enableThinking: true, templateKwargs: { enable_thinking: true } }, 'some templates think only where they are asked by name');
});

const refusals: [path: string, body: object, param: string][] = [
  ['chat', { messages: [{ role: 'user', content: 'x', images: ['AA=='] }] }, 'messages[0].images'],
  ['chat', { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: '{}' } }] }] }, 'messages[0].tool_calls[0].function.arguments'],
  ['chat', { messages, options: { temperature: 'hot' } }, 'options.temperature'],
  ['chat', { messages, think: 'hard' }, 'think'],
  ['chat', { messages, format: 3 }, 'format'],
  ['generate', { prompt: 'x', suffix: 'y' }, 'suffix'],
  ['generate', { prompt: 'x', context: [1, 2] }, 'context'],
  ['generate', { prompt: 'x', template: '{{ .Prompt }}' }, 'template'],
  ['embed', {}, 'input'],
];

t.test('a request for vectors of no text loads the model, and gets none', async (t) => {
  const { app } = await start(t);
  for (const input of ['', []]) t.match(await (await post(`${app.url}/api/embed`, { model: 'default', input })).json(), { model: /./, embeddings: [], prompt_eval_count: 0 });
  t.strictSame(await (await post(`${app.url}/api/embeddings`, { model: 'default', prompt: '' })).json(), { embedding: [] });
});

t.test('an impossible request is refused in Ollama’s shape, with the field', async (t) => {
  const { app } = await start(t);
  for (const [path, body, param] of refusals) {
    const response = await post(`${app.url}/api/${path}`, body);
    t.equal(response.status, 400, param);
    t.match(await response.json(), { error: /./, param, code: /^(invalid|unsupported)/ }, param);
  }
});
