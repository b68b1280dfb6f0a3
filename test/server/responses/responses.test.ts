// POST /v1/responses over the fake engine: what the engine gets from a request, and what the client
// gets from an answer with thoughts and calls.
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { Delta } from '#recua/engine/protocol.js';
import { RecuaError } from '#recua/errors.js';
import { post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { echo, hang, messagesOf } from '../fake-engine.js';

type Input = OpenAI.Responses.ResponseInput;

async function start(t: Test): Promise<{ client: OpenAI; app: AppUnderTest }> {
  const app = await startApp(t);
  return { app, client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

function says(app: AppUnderTest, deltas: readonly Delta[]): void {
  app.engine.script = async function* () {
    for (const delta of deltas) {
      await new Promise(setImmediate);
      yield delta;
    }
  };
}

const tool = { type: 'function' as const, name: 'get_weather', description: 'The weather', parameters: { type: 'object', properties: {} }, strict: false };
const patch = { type: 'custom' as const, name: 'apply_patch', description: 'Patches', format: { type: 'grammar' as const, syntax: 'lark' as const, definition: 'start: "x"' } };

t.test('consecutive thoughts, text and calls are one turn', async (t) => {
  const { client, app } = await start(t);
  const input: Input = [
    { role: 'developer', content: 'Be short.' },
    { role: 'user', content: [{ type: 'input_text', text: 'Weather' }, { type: 'input_text', text: 'in Lima?' }] },
    { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'A tool.' }] },
    { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'I look.', annotations: [] }] },
    { type: 'function_call', call_id: 'a', name: 'get_weather', arguments: '{"city":"Lima"}' },
    { type: 'custom_tool_call', call_id: 'b', name: 'apply_patch', input: 'x' },
    { type: 'function_call_output', call_id: 'a', output: 'sunny' },
    { type: 'custom_tool_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'done' }] },
    { role: 'user', content: 'Thanks' },
  ];
  await client.responses.create({ model: 'default', input, instructions: 'You help.' });
  t.strictSame(messagesOf(app.engine.requests[0]!), [
    { role: 'system', content: 'You help.' },
    { role: 'system', content: 'Be short.' },
    { role: 'user', content: 'Weather\nin Lima?' },
    {
      role: 'assistant', content: 'I look.', reasoning_content: 'A tool.',
      tool_calls: [
        { id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Lima"}' } },
        { id: 'b', type: 'function', function: { name: 'apply_patch', arguments: '{"input":"x"}' } },
      ],
    },
    { role: 'tool', content: 'sunny', tool_call_id: 'a' },
    { role: 'tool', content: 'done', tool_call_id: 'b' },
    { role: 'user', content: 'Thanks' },
  ]);
});

t.test('thoughts, text and calls are items, whole and streamed alike', async (t) => {
  const { client, app } = await start(t);
  says(app, [
    { reasoning: 'Let me ' }, { reasoning: 'see.' }, { content: 'I will ' }, { content: 'look.' },
    { toolCalls: [{ index: 0, id: 'a1', name: 'get_weather' }] }, { toolCalls: [{ index: 0, arguments: '{"city":' }] }, { toolCalls: [{ index: 0, arguments: '"Lima"}' }] },
    { toolCalls: [{ index: 1, id: 'b2', name: 'apply_patch', arguments: '{"input":"a\\nb"}' }] },
  ]);
  app.engine.finish = { finishReason: 'tool_calls', usage: { promptTokens: 9, cachedTokens: 4, completionTokens: 8, reasoningTokens: 3 } };
  const ask = { model: 'default', input: 'x', tools: [tool, patch] };
  const whole = await client.responses.create(ask);
  const expected = [
    { type: 'reasoning', status: 'completed', content: [{ type: 'reasoning_text', text: 'Let me see.' }] },
    { type: 'message', status: 'completed', content: [{ type: 'output_text', text: 'I will look.' }] },
    { type: 'function_call', status: 'completed', call_id: 'a1', name: 'get_weather', arguments: '{"city":"Lima"}' },
    { type: 'custom_tool_call', status: 'completed', call_id: 'b2', name: 'apply_patch', input: 'a\nb' },
  ];
  t.match(whole.output, expected);
  t.match(whole.usage, {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 4 },
    output_tokens: 8,
    output_tokens_details: { reasoning_tokens: 3 },
  });
  t.match(whole, { status: 'completed', warnings: undefined });
  t.match(app.engine.requests[0]!.toolSources, [{ name: 'get_weather', input: undefined }, { name: 'apply_patch', input: { plain: 'input-of-1 ::= "x"\n' } }]);
  const text = await (await post(`${app.url}/v1/responses`, { ...ask, stream: true })).text();
  t.notOk(text.includes('[DONE]'));
  const events = text.trim().split('\n\n').map((event) => {
    const [, name, data] = /^event: (\S+)\ndata: (.*)$/.exec(event)!;
    const parsed = JSON.parse(data!) as { type: string; response?: { output: object[] }; item?: object };
    t.equal(parsed.type, name);
    return parsed;
  });
  t.match(events.at(-1)!.response!.output, expected);
  t.match(events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item), expected);
  t.match(events.filter(({ type }) => type.startsWith('response.custom_tool')), [{ delta: 'a\nb' }, { input: 'a\nb' }]);
  t.match((await client.responses.stream(ask).finalResponse()).output, expected);
});

t.test('a cut answer is incomplete, and one that fails in its stream says so', async (t) => {
  const { client, app } = await start(t);
  says(app, [{ content: 'a' }]);
  app.engine.finish = { finishReason: 'length' };
  t.match(await client.responses.create({ model: 'default', input: 'x' }), { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
  app.engine.script = async function* () {
    yield { content: 'begun' };
    await new Promise(setImmediate);
    throw new RecuaError('model_crashed', 'The engine process died.');
  };
  const text = await (await post(`${app.url}/v1/responses`, { input: 'x', stream: true })).text();
  const types = [...text.matchAll(/^event: (\S+)$/gm)].map(([, type]) => type);
  t.strictSame(types.slice(-2), ['response.failed', 'error']);
  t.match(text, /"status":"failed".*"code":"model_crashed"/);
});

t.test('tools and formats reach the engine; hosted tools are left out and named', async (t) => {
  const { app } = await start(t);
  const send = async (more: object): Promise<unknown> => await (await post(`${app.url}/v1/responses`, { input: 'x', ...more })).json();
  t.match(await send({ tools: [tool, { type: 'web_search' }], tool_choice: { type: 'function', name: 'get_weather' } }), { warnings: [/"web_search" is left out/] });
  await send({ tools: [tool, patch], tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'get_weather' }] } });
  await send({ text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true } }, reasoning: { effort: 'none' } });
  await send({ reasoning: { effort: 'high' }, chat_template_kwargs: { enable_thinking: false } });
  t.match(await send({ chat_template_kwargs: Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`n${at}`, at])) }), { error: { code: 'invalid_value', param: 'chat_template_kwargs' } });
  const [named, allowed, format, thoughtless] = app.engine.requests;
  t.match(named, { toolChoice: 'required', toolSources: [{ name: 'get_weather' }] });
  t.match(allowed, { toolChoice: 'required' });
  t.strictSame(allowed!.toolSources.map(({ name }) => name), ['get_weather']);
  t.match(format, { enableThinking: false, constraint: { kind: 'schema', strict: true, param: 'text.format.schema' } });
  t.match(thoughtless, { enableThinking: false, templateKwargs: { reasoning_effort: 'high' } });
});

t.test('tools in namespaces count among the most that a request may have', async (t) => {
  const { url } = await startApp(t);
  const named = (count: number): object[] => Array.from({ length: count }, (_, i) => ({ type: 'function', name: `f${i}` }));
  for (const tools of [[{ type: 'namespace', name: 'a', tools: named(600) }, { type: 'namespace', name: 'b', tools: named(600) }], [{ type: 'namespace', name: 'a', tools: Array.from({ length: 1_024 }, () => ({ type: 'x' })) }, { type: 'x' }]]) {
    const refused = await post(`${url}/v1/responses`, { input: 'Hi', tools });
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { param: 'tools', message: 'Expected at most 1024 tools for tools, with those in namespaces, got more.' } });
  }
  t.equal((await post(`${url}/v1/responses`, { input: 'Hi', tools: [{ type: 'namespace', name: 'a', tools: named(1_024) }] })).status, 200);
});

t.test('the model sees a tool of a namespace as namespace__name, and the client gets both parts', async (t) => {
  const { app } = await start(t);
  const tools = [tool, { type: 'namespace', name: 'mcp__files__', description: 'Files', tools: [{ ...tool, name: 'read' }, { ...patch, name: 'change' }] }, { type: 'namespace', name: 'agents', tools: [{ ...tool, name: 'read' }] }];
  app.engine.script = async function* () {
    for (const [index, name] of ['agents__read', 'mcp__files__change'].entries()) {
      yield { toolCalls: [{ index, id: `call_${index}`, name, arguments: '{"input":"x"}' }] };
      await new Promise(setImmediate);
    }
  };
  const ask = { input: [{ role: 'user', content: 'x' }], tools };
  const { output, warnings } = await (await post(`${app.url}/v1/responses`, ask)).json() as { output: object[]; warnings?: string[] };
  t.equal(warnings, undefined);
  t.match(output, [
    { type: 'function_call', namespace: 'agents', name: 'read', arguments: '{"input":"x"}' }, { type: 'custom_tool_call', namespace: 'mcp__files__', name: 'change', input: 'x' },
  ]);
  const text = await (await post(`${app.url}/v1/responses`, { ...ask, stream: true })).text();
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as { type: string; item: object });
  t.match(events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item), [{ namespace: 'agents', name: 'read' }, { namespace: 'mcp__files__', name: 'change' }]);
  const results = [{ type: 'function_call_output', call_id: 'call_0', output: 'a' }, { type: 'custom_tool_call_output', call_id: 'call_1', output: 'b' }];
  await post(`${app.url}/v1/responses`, { ...ask, input: [...ask.input, ...output, ...results] });
  t.strictSame(app.engine.requests[0]!.toolSources.map(({ name }) => name), ['get_weather', 'mcp__files__read', 'mcp__files__change', 'agents__read']);
  t.match(messagesOf(app.engine.requests.at(-1)!)[1], { tool_calls: [{ function: { name: 'agents__read' } }, { function: { name: 'mcp__files__change' } }] });
});

const refusals: [body: object, param: string][] = [
  [{}, 'input'], [{ input: 3 }, 'input'], [{ input: [{}] }, 'input[0].type'], [{ input: [{ role: 'robot', content: 'x' }] }, 'input[0].role'],
  [{ input: [{ role: 'user', content: [{ type: 'input_image' }] }] }, 'input[0].content[0]'], [{ input: [{ type: 'computer_call', id: 'x' }] }, 'input[0].type'],
  [{ input: [{ type: 'function_call', name: 'f' }] }, 'input[0].arguments'], [{ input: 'x', conversation: 'c' }, 'conversation'],
  [{ input: 'x', include: 'all' }, 'include'], [{ input: 'x', truncation: 'some' }, 'truncation'], [{ input: 'x', background: true, store: false }, 'store'], [{ input: 'x', tools: [{}] }, 'tools[0].type'], [{ input: 'x', max_output_tokens: 0 }, 'max_output_tokens'],
];

t.test('an impossible request is refused, with the field', async (t) => {
  const { app } = await start(t);
  for (const [body, param] of refusals) {
    const response = await post(`${app.url}/v1/responses`, body);
    t.equal(response.status, 400, param);
    t.match(await response.json(), { error: { param } }, param);
  }
});

t.test('earlier turns of a conversation count as memory of its body', async (t) => {
  const app = await startApp(t, { bodyMemoryBytes: 600_000 });
  const input = 'word '.repeat(8_000);
  let previous: string | undefined;
  const statuses: number[] = [];
  for (let turn = 0; turn < 8; turn++) {
    const response = await post(`${app.url}/v1/responses`, { input, max_output_tokens: 1, ...(previous ? { previous_response_id: previous } : {}) });
    statuses.push(response.status);
    if (response.status === 200) previous = ((await response.json()) as { id: string }).id;
    else t.match(await response.json(), { error: { code: 'body_too_large' } });
  }
  t.equal(statuses[0], 200);
  t.equal(statuses.at(-1), 413);
});

t.test('items that a request refers to count as often as it does, like a body', async (t) => {
  const app = await startApp(t, { bodyLimitBytes: 100_000 });
  const ask = async (body: object, path = '/v1/responses'): Promise<[number, any]> => {
    const response = await post(app.url + path, { max_output_tokens: 1, ...body });
    return [response.status, await response.json()];
  };
  app.engine.script = async function* () {
    yield { content: 'short' };
  };
  const input = 'word '.repeat(8_000);
  const [, { id }] = await ask({ input });
  const item = { type: 'item_reference', id: `in_${id.slice('resp_'.length)}0000` };
  const tooLarge = (param: string): object => ({ error: { code: 'body_too_large', param, message: /more than 100000 bytes together/ } });
  t.equal((await ask({ input: [item, item] }))[0], 200);
  for (const path of ['/v1/responses', '/v1/responses/input_tokens']) t.match(await ask({ input: [item, item, item] }, path), [413, tooLarge('input')]);
  t.match(await ask({ input: [item, item, item], background: true }), [413, tooLarge('input')]);
  const [, second] = await ask({ input, previous_response_id: id });
  t.equal((await ask({ input: 'x', previous_response_id: second.id }))[0], 200);
  t.match(await ask({ input: [item], previous_response_id: second.id }), [413, tooLarge('input')]);
  const [, third] = await ask({ input, previous_response_id: second.id });
  t.match(await ask({ input: 'x', previous_response_id: third.id }), [413, tooLarge('previous_response_id')]);
});

t.test('each copy of an item that a request refers to counts as memory of its body', async (t) => {
  const app = await startApp(t, { bodyMemoryBytes: 600_000 });
  const { id } = (await (await post(`${app.url}/v1/responses`, { input: 'word '.repeat(4_000), max_output_tokens: 1 })).json()) as { id: string };
  const references = (count: number): object => ({ input: Array.from({ length: count }, () => ({ type: 'item_reference', id: `in_${id.slice('resp_'.length)}0000` })), max_output_tokens: 1 });
  t.equal((await post(`${app.url}/v1/responses`, references(4))).status, 200);
  t.match(await (await post(`${app.url}/v1/responses`, references(8))).json(), { error: { code: 'body_too_large', message: /more memory than there is for all bodies/ } });
});

t.test('a body counts until its response has ended, since the response repeats it', async (t) => {
  const app = await startApp(t, { bodyMemoryBytes: 600_000 });
  app.engine.script = hang;
  const abort = new AbortController();
  const input = 'word '.repeat(20_000);
  const first = post(`${app.url}/v1/responses`, { input, stream: true }, {}, abort.signal);
  await first;
  await until(() => app.engine.running.size === 1);
  t.match(await (await post(`${app.url}/v1/responses`, { input })).json(), { error: { code: 'body_memory_full' } });
  abort.abort();
  await until(() => app.engine.running.size === 0);
  app.engine.script = echo;
  t.equal((await post(`${app.url}/v1/responses`, { input, max_output_tokens: 1 })).status, 200);
});
