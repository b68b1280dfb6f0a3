// Which tools are called, and how many, is enforced during sampling, in the fields of each dialect:
// the built-in model would call another tool, or keep calling. Parts of an answer that do not parse
// are text with a warning.
import t from 'tap';
import { post, startApp } from './app-under-test.js';
import { chatPath, startReal, user, type RealApp } from './real-app.js';

let app: RealApp;
let callToken: number;
t.before(async () => {
  app = await startReal(t);
  const { tokens } = await app.ask('/tokenize', { content: '<tool_call>', parse_special: true });
  t.equal(tokens.length, 1, 'a call begins with one token');
  [callToken] = tokens;
});

const messages = user('What is the weather in Paris?');
const parameters = (name: string, schema: object) => ({ type: 'object', properties: { [name]: schema }, required: [name], additionalProperties: false });
const weather = { name: 'get_weather', description: 'Get the weather of a city', parameters: parameters('city', { type: 'string' }) };
const clock = { name: 'set_clock', description: 'Set a clock', parameters: parameters('hour', { enum: [7, 11] }) };
const lamp = { name: 'lamp', description: 'Switch a lamp', parameters: parameters('on', { type: 'boolean' }) };
const all = [weather, clock, lamp];

/** A tool choice in each dialect, and the names of the called tools. */
interface Dialect {
  path: string;
  body(choice: unknown, more?: object): object;
  one(name: string): unknown;
  called(reply: any): { name: string; input: unknown }[];
}

const chat: Dialect = {
  path: chatPath,
  body: (choice, more) => ({
    messages,
    tools: all.map((one) => ({ type: 'function', function: one })),
    tool_choice: choice,
    max_tokens: 120,
    ...more,
  }),
  one: (name) => ({ type: 'function', function: { name } }),
  called: ({ choices }) =>
    (choices[0].message.tool_calls ?? []).map((call: any) => ({ name: call.function.name, input: JSON.parse(call.function.arguments) })),
};
const responses: Dialect = {
  path: '/v1/responses',
  body: (choice, more) => ({ input: messages[0]!.content, tools: all.map((one) => ({ type: 'function', ...one })), tool_choice: choice, max_output_tokens: 120, ...more }),
  one: (name) => ({ type: 'function', name }),
  called: ({ output }) => output.filter(({ type }: any) => type === 'function_call').map((call: any) => ({ name: call.name, input: JSON.parse(call.arguments) })),
};
const anthropic: Dialect = {
  path: '/v1/messages',
  body: (choice, more) => ({
    messages,
    tools: all.map(({ parameters: schema, ...one }) => ({ ...one, input_schema: schema })),
    tool_choice: choice,
    max_tokens: 120,
    ...more,
  }),
  one: (name) => ({ type: 'tool', name }),
  called: ({ content }) => content.filter(({ type }: any) => type === 'tool_use').map(({ name, input }: any) => ({ name, input })),
};

t.test('a named tool is the one that is called', async (t) => {
  for (const dialect of [chat, responses, anthropic]) {
    const free = dialect.called(await app.ask(dialect.path, dialect.body(dialect === anthropic ? { type: 'auto' } : 'auto')));
    t.match(free, [{ name: 'get_weather' }], `${dialect.path}: the model’s own choice is another`);
    const named = dialect.called(await app.ask(dialect.path, dialect.body(dialect.one('set_clock'))));
    t.match(named, [{ name: 'set_clock' }], dialect.path);
    t.ok([7, 11].includes((named[0]!.input as { hour: number }).hour), 'and its schema holds');
  }
});

t.test('allowed tools are the only ones, required or not', async (t) => {
  const chatTools = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'lamp' } }, { type: 'function', function: { name: 'set_clock' } }] } };
  const flat = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'lamp' }, { type: 'function', name: 'set_clock' }] };
  for (const [dialect, choice] of [[chat, chatTools], [responses, flat]] as const) {
    const [call] = dialect.called(await app.ask(dialect.path, dialect.body(choice)));
    t.match(call?.name, /^(lamp|set_clock)$/, dialect.path);
  }
  const auto = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'lamp' } }] } };
  const called = chat.called(await app.ask(chatPath, chat.body(auto)));
  t.ok(called.every(({ name }) => name === 'lamp'));
  t.match(await app.refused(chatPath, chat.body({ type: 'allowed_tools', allowed_tools: { tools: [{ type: 'function', function: { name: 'nope' } }] } })), { status: 400, error: { param: 'tool_choice.allowed_tools.tools[0].function.name' } });
});

t.test('the field of each dialect for one call reaches the engine', async (t) => {
  const { url, engine } = await startApp(t);
  const bodies: [Dialect, object][] = [
    [chat, chat.body('auto', { parallel_tool_calls: false })], [responses, responses.body('auto', { parallel_tool_calls: false })],
    [anthropic, anthropic.body({ type: 'any', disable_parallel_tool_use: true })], [anthropic, anthropic.body({ type: 'tool', name: 'lamp', disable_parallel_tool_use: true })],
  ];
  for (const [{ path }, body] of bodies) t.equal((await post(url + path, body)).status, 200);
  t.strictSame(engine.requests.map(({ parallelToolCalls }) => parallelToolCalls), bodies.map(() => false));
  await post(url + chatPath, chat.body('auto'));
  t.equal(engine.requests.at(-1)!.parallelToolCalls, undefined);
});

t.test('none makes no call, and required makes one', async (t) => {
  for (const dialect of [chat, responses, anthropic]) {
    const none = dialect === anthropic ? { type: 'none' } : 'none';
    t.strictSame(
      dialect.called(
        await app.ask(
          dialect.path,
          dialect.body(none, {
            logit_bias: { [callToken]: 100 },
            ...(dialect === responses ? { max_output_tokens: 8 } : { max_tokens: 8 }),
          }),
        ),
      ),
      [],
      dialect.path,
    );
    const some = dialect === anthropic ? { type: 'any' } : 'required';
    t.equal(dialect.called(await app.ask(dialect.path, dialect.body(some, { parallel_tool_calls: false }))).length, 1, dialect.path);
  }
  const { message } = await app.ask('/api/chat', { messages, stream: false, tools: all.map((one) => ({ type: 'function', function: one })), options: { temperature: 0, num_predict: 80 } });
  t.match(message.tool_calls, [{ function: { name: 'get_weather', arguments: { city: 'Paris' } } }]);
});

t.test('a strict tool that cannot be enforced is refused; otherwise a warning names it', async (t) => {
  const odd = { ...weather, parameters: { ...weather.parameters, not: { required: ['x'] } } };
  const send = (strict?: boolean) => ({ messages, tools: [{ type: 'function', function: { ...odd, ...(strict === undefined ? {} : { strict }) } }], max_tokens: 60 });
  t.match(await app.refused(chatPath, send(true)), { status: 400, error: { code: 'invalid_schema', param: 'tools[0].function.parameters' } });
  for (const strict of [undefined, false]) t.match((await app.ask(chatPath, send(strict))).warnings, [/\/not/]);
});

t.test('an answer cut off anywhere in a call is never an error, and loses nothing', async (t) => {
  for (let most = 1; most <= 24; most += 3) {
    const body = chat.body('required', { max_tokens: most, parallel_tool_calls: false });
    const whole = await app.ask(chatPath, body);
    const { message, finish_reason: reason } = whole.choices[0];
    const said = (message.content ?? '') + (message.tool_calls ?? []).map((call: any) => call.function.name + call.function.arguments).join('');
    if (reason === 'length') t.ok(said !== '' || most < 5, `${most} tokens: ${JSON.stringify(message)}`);
    if (reason === 'length' && message.content) t.match(whole.warnings, [/cut off within a tool call/]);
    const chunks = await app.stream(chatPath, body);
    const streamed = chunks.flatMap(({ choices }) => choices).map(({ delta }: any) => (delta.content ?? '') + (delta.tool_calls ?? []).map((call: any) => (call.function.name ?? '') + call.function.arguments).join('')).join('');
    t.equal(streamed, said, 'streamed alike');
    t.equal((await app.ask('/v1/messages', anthropic.body({ type: 'any' }, { max_tokens: most }))).type, 'message');
    t.equal((await app.ask('/v1/responses', responses.body('required', { max_output_tokens: most }))).object, 'response');
  }
});

t.test('a required call that a stop string prevents is reported', async (t) => {
  const reply = await app.ask(chatPath, chat.body('required', { stop: ['{'] }));
  t.strictSame([reply.choices[0].message.tool_calls ?? [], reply.choices[0].finish_reason], [[], 'stop']);
  t.match(reply.warnings, [/A tool call was required/]);
});

t.test('text that looks like a broken call is text, with a warning', async (t) => {
  const broken = ['<tool_call>\n{"name": "get_weather", "arg', '<tool_call>oops</tool_call>', '</tool_call>', '{"name": "get_weather"}</tool_call>'];
  for (const text of broken) {
    const reply = await app.ask(chatPath, { messages, regex: text.replace(/[{}()[\]*+?.\\^$|]/g, '\\$&'), max_tokens: 60 });
    t.equal(reply.choices[0].message.content, text);
  }
  // The answer continues an assistant message that began a call.
  const reply = await app.ask(chatPath, { messages: [...messages, { role: 'assistant', content: 'Well: <tool_call>\n{"name": ' }], tools: all.map((one) => ({ type: 'function', function: one })), max_tokens: 12 });
  t.equal(reply.choices.length, 1);
});

t.test('tools that the chat template does not show are warned of', async (t) => {
  const { ask } = await startReal(t, 'microsoft-Phi-3.5-mini-instruct.jinja');
  const body = { messages: user('Turn on the lamp.'), tools: [{ type: 'function', function: { name: 'lamp', parameters: { type: 'object' } } }], max_tokens: 3 };
  t.match((await ask(chatPath, body)).warnings, [/^tools have no effect: this chat template/]);
  t.equal((await ask(chatPath, { ...body, tool_choice: 'none' })).warnings, undefined);
});
