// POST /v1/messages over the fake engine: what the engine gets from a request, and what the client
// gets from an answer with thoughts and calls.
import Anthropic from '@anthropic-ai/sdk';
import t, { type Test } from 'tap';
import type { ChatMessage, Delta } from '#recua/engine/protocol.js';
import { RecuaError } from '#recua/errors.js';
import { Fields } from '#recua/request/fields.js';
import { readMessages } from '#recua/server/anthropic/messages.js';
import { post, startApp, type AppUnderTest } from '../app-under-test.js';
import { messagesOf } from '../fake-engine.js';
import { startRealApp } from '../real-engine.js';

const tool = { name: 'get_weather', description: 'The weather', input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } } };
const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Hi' }];

async function start(t: Test): Promise<{ client: Anthropic; app: AppUnderTest }> {
  const app = await startApp(t);
  return { app, client: new Anthropic({ baseURL: app.url, apiKey: 'none', maxRetries: 0 }) };
}

function says(app: AppUnderTest, deltas: readonly Delta[]): void {
  app.engine.script = async function* () {
    for (const delta of deltas) {
      await new Promise(setImmediate);
      yield delta;
    }
  };
}

t.test('a conversation with tools reaches the engine in order', async (t) => {
  const { client, app } = await start(t);
  await client.messages.create({
    model: 'default', max_tokens: 10, system: [{ type: 'text', text: 'One.' }, { type: 'text', text: ' Two.', cache_control: { type: 'ephemeral' } }],
    tools: [tool], tool_choice: { type: 'any', disable_parallel_tool_use: true },
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'What is' }, { type: 'text', text: 'the weather?' }] },
      { role: 'assistant', content: [
        { type: 'thinking', thinking: 'I need a tool.', signature: '' }, { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Cusco' } },
      ] },
      { role: 'user', content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'no such city' }], is_error: true },
        { type: 'text', text: 'Try again.' },
      ] },
    ],
  });
  const [request] = app.engine.requests;
  const expected: ChatMessage[] = [
    { role: 'system', content: 'One. Two.' },
    { role: 'user', content: 'What is\nthe weather?' },
    {
      role: 'assistant', content: 'Let me look.', reasoning_content: 'I need a tool.',
      tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Cusco"}' } }],
    },
    { role: 'tool', content: 'Error: no such city', tool_call_id: 'toolu_1' },
    { role: 'user', content: 'Try again.' },
  ];
  t.strictSame(messagesOf(request!), expected);
  t.match(request, { toolChoice: 'required', parallelToolCalls: false, maxTokens: 10 });
  t.strictSame(JSON.parse(request!.tools), [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.input_schema } }]);
});

t.test('documents and search results are text, in messages and in results', (t) => {
  const found = { type: 'search_result', title: 'Cusco', source: 'https://x.example', content: [{ type: 'text', text: 'A city.' }] };
  const paper = { type: 'document', title: 'Paper', context: 'From 1998.', source: { type: 'text', data: 'Snow.' } };
  const body = {
    system: [],
    messages: [{ role: 'user', content: [paper, found] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [paper, { type: 'text', text: 'and' }, { ...found, content: 'A city.' }] }] }],
  };
  const [paperText, foundText] = ['Paper\n\nFrom 1998.\n\nSnow.', 'Cusco\n\nhttps://x.example\n\nA city.'];
  t.strictSame(readMessages(Fields.of(body)).messages, [
    { role: 'user', content: `${paperText}\n${foundText}` }, { role: 'tool', content: `${paperText}\nand\n${foundText}`, tool_call_id: 'a' },
  ]);
  t.end();
});

t.test('max_tokens 0 only reads the prompt', async (t) => {
  const { url } = await startRealApp(t);
  const reply = await post(`${url}/v1/messages`, { model: 'default', max_tokens: 0, thinking: { type: 'between_tools' }, messages });
  t.match(await reply.json(), { stop_reason: 'max_tokens', usage: { output_tokens: 0 } });
  t.equal(reply.status, 200);
});

t.test('thousands of turns of the assistant become one, each text written once', (t) => {
  const count = 2_000;
  const turns = Array.from({ length: count }, (_, index) => ({
    role: 'assistant',
    content: [{ type: 'thinking', thinking: `${index};`, signature: '' }, { type: 'text', text: 'x'.repeat(100) }, { type: 'tool_use', id: `t${index}`, name: 'f', input: {} }],
  }));
  let letters = 0;
  const { join } = Array.prototype;
  Array.prototype.join = function (this: unknown[], between?: string) {
    const text = join.call(this, between);
    letters += text.length;
    return text;
  };
  let read: ReturnType<typeof readMessages>;
  try {
    read = readMessages(Fields.of({ messages: [...messages, ...turns] }));
  } finally {
    Array.prototype.join = join;
  }
  const [, turn, ...rest] = read.messages;
  t.strictSame([rest, read.sources], [[], ['messages[0]', 'messages[1]']]);
  t.equal((turn!.content as string).length, count * 101 - 1);
  t.match(turn!.reasoning_content, /^0;1;2;.*;1999;$/s);
  t.strictSame(turn!.tool_calls!.map(({ id }) => id), turns.map((_, index) => `t${index}`));
  t.ok(letters < count * 250, `${letters} letters were joined`);
  t.end();
});

t.test('a named tool is the only one offered, and none offers none', async (t) => {
  const { client, app } = await start(t);
  const other = { ...tool, name: 'other' };
  await client.messages.create({ model: 'default', max_tokens: 5, messages, tools: [tool, other], tool_choice: { type: 'tool', name: 'other' } });
  t.match(app.engine.requests[0], { toolChoice: 'required', toolSources: [{ name: 'other', param: 'tools[1].input_schema' }] });
  t.equal(app.engine.requests[0]!.toolSources.length, 1);
  await client.messages.create({ model: 'default', max_tokens: 5, messages, tools: [tool], tool_choice: { type: 'none' } });
  t.equal(app.engine.requests[1]!.toolChoice, 'none');
  await t.rejects(client.messages.create({ model: 'default', max_tokens: 5, messages, tools: [tool], tool_choice: { type: 'tool', name: 'absent' } }), { message: /tool_choice.name/, status: 400 });
});

t.test('thoughts, text and calls are blocks of their own, whole and streamed alike', async (t) => {
  const { client, app } = await start(t);
  says(app, [
    { reasoning: 'Let me ' }, { reasoning: 'see.' }, { content: 'I will ' }, { content: 'look.' },
    { toolCalls: [{ index: 0, id: 'a1', name: 'get_weather' }] }, { toolCalls: [{ index: 0, arguments: '{"city":' }] }, { toolCalls: [{ index: 0, arguments: '"Lima"}' }] },
    { toolCalls: [{ index: 1, id: 'b2', name: 'get_weather', arguments: '{}' }] },
  ]);
  app.engine.finish = { finishReason: 'tool_calls', usage: { promptTokens: 9, cachedTokens: 4, completionTokens: 8 } };
  const ask = { model: 'default', max_tokens: 50, messages, tools: [tool] };
  const whole = await client.messages.create(ask);
  t.match(whole.content, [
    { type: 'thinking', thinking: 'Let me see.', signature: '' }, { type: 'text', text: 'I will look.' },
    { type: 'tool_use', id: 'a1', name: 'get_weather', input: { city: 'Lima' } }, { type: 'tool_use', id: 'b2', name: 'get_weather', input: {} },
  ]);
  t.equal(whole.stop_reason, 'tool_use');
  t.match(whole.usage, { input_tokens: 5, cache_read_input_tokens: 4, cache_creation_input_tokens: 0, output_tokens: 8 });
  const streamed = await client.messages.stream(ask).finalMessage();
  const plain = (content: unknown): unknown => JSON.parse(JSON.stringify(content));
  t.strictSame(plain(streamed.content), plain(whole.content));
  t.equal(streamed.stop_reason, 'tool_use');
  t.match(streamed.usage, { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 8 });
});

t.test('events come in the order of the protocol, each with its name', async (t) => {
  const { app } = await start(t);
  says(app, [{ content: 'a' }, { toolCalls: [{ index: 0, name: 'f', arguments: '{}' }] }]);
  const text = await (await post(`${app.url}/v1/messages`, { max_tokens: 5, messages, stream: true })).text();
  const events = text.trim().split('\n\n').map((event) => /^event: (\w+)\ndata: (.*)$/.exec(event)!);
  t.strictSame(events.map(([, name]) => name), [
    'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop',
    'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
  ]);
  for (const [, name, data] of events) t.equal((JSON.parse(data!) as { type: string }).type, name);
  t.notOk(text.includes('[DONE]'));
});

t.test('an answer that fails in its stream ends with an error event', async (t) => {
  const { client, app } = await start(t);
  app.engine.script = async function* () {
    yield { content: 'begun' };
    await new Promise(setImmediate);
    throw new RecuaError('model_crashed', 'The engine process died.');
  };
  await t.rejects(client.messages.stream({ model: 'default', max_tokens: 5, messages }).finalMessage(), { message: /The engine process died/ });
  const response = await post(`${app.url}/v1/messages`, { max_tokens: 5, messages, stream: true });
  t.match(await response.text(), `"request_id":"${response.headers.get('request-id')!}"`);
});

t.test('a prompt that is too long is reported in the words that Claude Code looks for', async (t) => {
  const { client, app } = await start(t);
  app.engine.early = new RecuaError('context_length_exceeded', 'Shorten it.', { param: 'messages', details: { n_prompt_tokens: 60_000, n_ctx: 4_096 } });
  for (const stream of [true, false]) {
    await t.rejects(client.messages.create({ model: 'default', max_tokens: 5, messages, stream }), {
      status: 400, message: /prompt is too long: 60000 tokens > 4096 maximum. Shorten it\./,
    });
  }
});

t.test('a tool runner, which would keep a thread on the server, sends the whole conversation', async (t) => {
  const { client, app } = await start(t);
  says(app, [{ toolCalls: [{ index: 0, id: 'a', name: 'get_weather', arguments: '{"city":"Lima"}' }] }]);
  app.engine.finish = { finishReason: 'tool_calls' };
  const run = (): string => {
    says(app, [{ content: 'Grey.' }]);
    app.engine.finish = {};
    return 'grey';
  };
  const last = await client.beta.messages.toolRunner({ model: 'default', max_tokens: 10, messages, tools: [{ ...tool, run, parse: (input: unknown) => input }] });
  t.match(last.content, [{ type: 'text', text: 'Grey.' }]);
  t.match(app.engine.requests.map((request) => messagesOf(request).map(({ role }) => role)), [['user'], ['user', 'assistant', 'tool']]);
  t.match(app.engine.requests.map(({ tools }) => (JSON.parse(tools) as unknown[]).length), [1, 1]);
});

t.test('a tool input that is cut off is reported and not lost', async (t) => {
  const { client, app } = await start(t);
  says(app, [{ toolCalls: [{ index: 0, id: 'a', name: 'f', arguments: '{"city": "Li' }] }]);
  app.engine.finish = { finishReason: 'length' };
  const whole = await client.messages.create({ model: 'default', max_tokens: 5, messages, tools: [tool] });
  t.match(whole, { stop_reason: 'max_tokens', content: [{ type: 'tool_use', input: {} }], warnings: [/\{"city": "Li$/] });
});

t.test('the changing line of Claude Code does not change the prompt', async (t) => {
  const { client, app } = await start(t);
  for (const sum of ['a5145', '00fc1']) {
    const system = [{ type: 'text' as const, text: `x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=${sum};` }, { type: 'text' as const, text: 'You are a coder.' }];
    await client.messages.create({ model: 'default', max_tokens: 5, messages, system });
  }
  const [first, second] = app.engine.requests.map(messagesOf);
  t.strictSame(first, second);
  t.equal(first![0]!.content, 'x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=fffff;You are a coder.');
});

t.test('thinking, its budget, effort and format reach the engine', async (t) => {
  const { app } = await start(t);
  const send = async (more: object): Promise<Response> => await post(`${app.url}/v1/messages`, { max_tokens: 5, messages, ...more });
  await send({ thinking: { type: 'enabled', budget_tokens: 1_024 } });
  await send({ thinking: { type: 'disabled' }, output_config: { effort: 'low', format: { type: 'json_schema', schema: { type: 'object' } } } });
  t.match(app.engine.requests, [
    { enableThinking: true, templateKwargs: { enable_thinking: true }, constraint: { kind: 'none' }, thoughts: { budget: 1_024, param: 'thinking.budget_tokens' } },
    { enableThinking: false, templateKwargs: { reasoning_effort: 'low' }, constraint: { kind: 'schema', schema: '{"type":"object"}', strict: true, param: 'output_config.format.schema' } },
  ]);
});

const refusals: [body: object, param: string][] = [
  [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
  [{ messages: [{ role: 'robot', content: 'x' }] }, 'messages[0].role'],
  [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0].content[0].text'],
  [{ messages: [{ role: 'assistant', content: [{ type: 'tool_use', name: 'f', input: 'x' }] }] }, 'messages[0].content[0].input'],
  [{ messages, max_tokens: -1 }, 'max_tokens'],
  [{ messages, tools: [{ name: 'f' }] }, 'tools[0].input_schema'],
  [{ messages, tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools[0].type'],
  [{ messages, tool_choice: { type: 'maybe' } }, 'tool_choice.type'],
  [{ messages, mcp_servers: [{}] }, 'mcp_servers'],
  [{ messages, thread: { type: 'create' } }, 'thread'],
  [{ messages, system: [{ type: 'image' }] }, 'system[0].type'],
  [{ messages, thinking: {} }, 'thinking.type'],
];

t.test('an impossible request is refused in Anthropic’s shape, with the field', async (t) => {
  const { app } = await start(t);
  for (const [body, param] of refusals) {
    const response = await post(`${app.url}/v1/messages`, body);
    t.equal(response.status, 400);
    t.match(await response.json(), { type: 'error', error: { type: 'invalid_request_error', param }, request_id: /^req_/ }, param);
  }
  t.match(await (await post(`${app.url}/v1/messages`, '{"a":')).json(), { type: 'error', error: { code: 'invalid_json' } }, 'before the body is read, too');
});
