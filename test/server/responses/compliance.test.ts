// The compliance cases of Open Responses, each with the fields that its schema requires in a
// response, in its items and in every event. Over the fake engine, or over a real one if
// RECUA_TEST_URL names a server.
import t, { type Test } from 'tap';
import { post, startApp, subjectUrl } from '../app-under-test.js';

type Json = Record<string, unknown>;

const message = (role: string, content: unknown): Json => ({ type: 'message', role, content });
const weather = {
  type: 'function', name: 'get_weather', description: 'Get the current weather for a location',
  parameters: { type: 'object', properties: { location: { type: 'string', description: 'The city and state, e.g. San Francisco, CA' } }, required: ['location'] },
};
const inFrisco = [message('user', "What's the weather like in San Francisco?")];
/** Any model with tools can be forced to call one; a small one does not know when to. */
const mustCall = { tools: [weather], tool_choice: 'required' };

const cases: { name: string; body: Json; stream?: true; outputs: string }[] = [
  { name: 'a plain response', body: { input: [message('user', 'Say hello in exactly 3 words.')] }, outputs: 'message' },
  { name: 'a stream', body: { input: [message('user', 'Count from 1 to 5.')] }, stream: true, outputs: 'message' },
  { name: 'a system prompt', body: { input: [message('system', 'You are a pirate. Always respond in pirate speak.'), message('user', 'Say hello.')] }, outputs: 'message' },
  { name: 'a call of a tool', body: { input: inFrisco, ...mustCall }, outputs: 'function_call' },
  { name: 'a call of a tool in a stream', body: { input: inFrisco, ...mustCall }, stream: true, outputs: 'function_call' },
  {
    name: 'several turns', outputs: 'message',
    body: { input: [message('user', 'My name is Alice.'), message('assistant', 'Hello Alice! Nice to meet you. How can I help you today?'), message('user', 'What is my name?')] },
  },
];

for (const { name, body, stream, outputs } of cases) {
  t.test(name, async (t) => {
    const { url, real } = await subject(t, outputs === 'function_call');
    const reply = await post(`${url}/v1/responses`, { model: 'default', ...body, stream: stream ?? false });
    t.equal(reply.status, 200);
    const events = stream ? readEvents(await reply.text()) : [];
    const response = stream ? events.at(-1)!['response'] as Json : await reply.json() as Json;
    checkResponse(t, response);
    // A small model may continue until it is cut.
    t.ok(response['status'] === 'completed' || (real && response['status'] === 'incomplete'), String(response['status']));
    const output = response['output'] as Json[];
    t.ok(output.some(({ type }) => type === outputs), `has a ${outputs}`);
    for (const event of events) checkEvent(t, event);
    if (!stream) return;
    t.strictSame(events.map(({ sequence_number: number }) => number), events.map((_, index) => index));
    const types = events.map(({ type }) => type);
    const expected = outputs === 'message' ? ['response.output_text.delta', 'response.output_text.done'] : ['response.function_call_arguments.delta', 'response.function_call_arguments.done'];
    for (const type of ['response.created', 'response.in_progress', 'response.output_item.added', ...expected, 'response.output_item.done']) t.ok(types.includes(type), type);
  });
}

t.test('an image is refused by a model that cannot see', async (t) => {
  const { url } = await subject(t, false);
  const image = { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' };
  const reply = await post(`${url}/v1/responses`, { model: 'default', input: [message('user', [{ type: 'input_text', text: 'What is it?' }, image])] });
  t.equal(reply.status, 400);
  t.match(await reply.json(), { error: { code: 'unsupported_content', param: 'input[0].content[1]' } });
});

async function subject(t: Test, calls: boolean): Promise<{ url: string; real: boolean }> {
  if (process.env['RECUA_TEST_URL'] !== undefined) return { url: await subjectUrl(t), real: true };
  const app = await startApp(t);
  if (calls) {
    app.engine.script = async function* () {
      yield { toolCalls: [{ index: 0, id: 'a1', name: 'get_weather', arguments: '{"location":' }] };
      await new Promise(setImmediate);
      yield { toolCalls: [{ index: 0, arguments: '"San Francisco, CA"}' }] };
    };
    app.engine.finish = { finishReason: 'tool_calls' };
  }
  return { url: app.url, real: false };
}

/** Each event's name is its type, and no line marks the end. */
function readEvents(text: string): Json[] {
  return text.trim().split('\n\n').map((event) => {
    const [, name, data] = /^event: (\S+)\ndata: (.*)$/.exec(event)!;
    const value = JSON.parse(data!) as Json;
    if (value['type'] !== name) throw new Error(`${name} has the type ${String(value['type'])}`);
    return value;
  });
}

type Check = (value: unknown) => boolean;
const text: Check = (value) => typeof value === 'string';
const whole: Check = Number.isInteger;
const number: Check = (value) => typeof value === 'number';
const flag: Check = (value) => typeof value === 'boolean';
const list: Check = Array.isArray;
const object: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const orNull = (check: Check): Check => (value) => value === null || check(value);
const word = (...words: string[]): Check => (value) => words.includes(value as string);

const ofResponse: Record<string, Check> = {
  id: text,
  object: word('response'),
  created_at: whole,
  completed_at: orNull(whole),
  status: word('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'),
  incomplete_details: orNull(object),
  model: text,
  previous_response_id: orNull(text),
  instructions: orNull(text),
  output: list,
  error: orNull(object),
  tools: list,
  tool_choice: (value) => text(value) || object(value),
  truncation: word('auto', 'disabled'),
  parallel_tool_calls: flag,
  text: object,
  top_p: number,
  presence_penalty: number,
  frequency_penalty: number,
  top_logprobs: whole,
  temperature: number,
  reasoning: orNull(object),
  user: orNull(text),
  usage: orNull(object),
  max_output_tokens: orNull(whole),
  max_tool_calls: orNull(whole),
  store: flag,
  background: flag,
  service_tier: text,
  metadata: object,
  safety_identifier: orNull(text),
  prompt_cache_key: orNull(text),
};
const ofUsage: Record<string, Check> = {
  input_tokens: whole,
  output_tokens: whole,
  total_tokens: whole,
  input_tokens_details: object,
  output_tokens_details: object,
};
const ofTool: Record<string, Check> = { type: word('function'), name: text, description: orNull(text), parameters: orNull(object), strict: orNull(flag) };
const ofItem: Record<string, Record<string, Check>> = {
  message: { id: text, status: word('in_progress', 'completed', 'incomplete'), role: word('assistant'), content: list },
  function_call: { id: text, call_id: text, name: text, arguments: text, status: word('in_progress', 'completed', 'incomplete') },
  reasoning: { id: text, summary: list },
};
const ofPart: Record<string, Check> = { type: word('output_text', 'reasoning_text'), text };
const inItem = { item_id: text, output_index: whole };
const inPart = { ...inItem, content_index: whole };
const ofEvent: Record<string, Record<string, Check>> = {
  'response.created': { response: object }, 'response.in_progress': { response: object }, 'response.completed': { response: object }, 'response.incomplete': { response: object },
  'response.output_item.added': { output_index: whole, item: object }, 'response.output_item.done': { output_index: whole, item: object },
  'response.content_part.added': { ...inPart, part: object }, 'response.content_part.done': { ...inPart, part: object },
  'response.output_text.delta': { ...inPart, delta: text, logprobs: list }, 'response.output_text.done': { ...inPart, text, logprobs: list },
  'response.reasoning_text.delta': { ...inPart, delta: text }, 'response.reasoning_text.done': { ...inPart, text },
  'response.function_call_arguments.delta': { ...inItem, delta: text }, 'response.function_call_arguments.done': { ...inItem, arguments: text },
};

function check(t: Test, value: unknown, fields: Record<string, Check>, what: string): void {
  const given = value as Json;
  t.strictSame(Object.entries(fields).filter(([name, holds]) => !holds(given[name])).map(([name]) => `${name}: ${JSON.stringify(given[name])}`), [], what);
}

function checkResponse(t: Test, response: Json): void {
  check(t, response, ofResponse, 'the response');
  check(t, response['text'], { format: object }, 'text');
  if (response['usage'] !== null) check(t, response['usage'], ofUsage, 'usage');
  for (const tool of response['tools'] as Json[]) check(t, tool, ofTool, 'a tool');
  for (const item of response['output'] as Json[]) checkItem(t, item);
}

function checkItem(t: Test, item: Json): void {
  const { type } = item;
  check(t, item, ofItem[String(type)]!, `an item of type ${String(type)}`);
  if (type === 'message') for (const part of item['content'] as Json[]) check(t, part, { ...ofPart, annotations: list, logprobs: list }, 'its content');
}

function checkEvent(t: Test, event: Json): void {
  const type = String(event['type']);
  check(t, event, { sequence_number: whole, ...ofEvent[type]! }, type);
  if (object(event['response'])) checkResponse(t, event['response'] as Json);
  if (object(event['item'])) checkItem(t, event['item'] as Json);
}
