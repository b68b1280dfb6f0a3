import { checkBySchema } from '#recua/library/schema.js';
import { openModels, tool, type ChatResult, type Message, type Model, type Reply, type Tools } from 'recua';
import { codeOf, inBothModes } from './modes.js';

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const description = 'Get the weather of a city';
const question = 'What is the weather in Paris?';
const greedy = { temperature: 0 };

inBothModes('calls without execute are the answer, and their results continue the chat', async (t, load) => {
  const model = await load(t);
  const conversation: Message[] = [{ role: 'user', content: question }];
  const options = { ...greedy, tools: { get_weather: { description, parameters } } };
  const reply = model.chat(conversation, options);
  let text = '';
  let id: string | undefined;
  for await (const { toolCalls = [] } of reply) {
    for (const call of toolCalls) {
      id ??= call.id;
      text += call.arguments ?? '';
    }
  }
  const first = await reply;
  t.match(first, { finishReason: 'tool_calls', toolCalls: [{ id: /./, name: 'get_weather', arguments: { city: 'Paris' } }] });
  t.equal(first.toolCalls[0].id, id);
  t.same(JSON.parse(text), { city: 'Paris' });
  conversation.push(...first.messages, { role: 'tool', toolCallId: first.toolCalls[0].id, content: 'Sunny' });
  const second = await model.chat(conversation, options);
  t.match(second, { finishReason: 'stop', content: /Sunny/, toolCalls: [] });
});

inBothModes('null means no function and no schema', async (t, load) => {
  const model = await load(t);
  const unset = { get_weather: { description, parameters, execute: null } } as unknown as Tools;
  const call = await model.chat(question, { ...greedy, tools: unset, toolChoice: 'required' });
  t.match(call, { finishReason: 'tool_calls', toolCalls: [{ name: 'get_weather' }] });
  t.equal(await checkBySchema(null as unknown as undefined, 5), 5);
});

inBothModes('tools with execute run, and the model continues', async (t, load) => {
  const model = await load(t);
  const asked: unknown[] = [];
  const tools = {
    get_weather: tool({
      description, parameters,
      execute({ city }, { id, signal }) {
        asked.push([city, typeof id, signal.aborted]);
        return { weather: `Rain over ${city}` };
      },
    }),
  };
  const reply = model.chat(question, { ...greedy, tools, toolChoice: 'required' });
  let text = '';
  for await (const { content } of reply) text += content ?? '';
  const result = await reply;
  t.strictSame(asked, [['Paris', 'string', false]]);
  t.match(result, { finishReason: 'stop', toolCalls: [], content: text });
  t.match(result.messages, [
    { role: 'assistant', toolCalls: [{ name: 'get_weather' }] },
    { role: 'tool', content: '{"weather":"Rain over Paris"}' },
    { role: 'assistant', content: text },
  ]);
  t.ok(result.usage.cachedTokens > 0);
});

inBothModes('a named tool is the only one for the first answer, and all are offered after its result', async (t, load) => {
  const model = await load(t);
  const weather = { get_weather: tool({ description, parameters, execute: () => 'Sunny' }) };
  const tools = { ...weather, get_time: { description: 'Get the time in a city', parameters } };
  const { messages, usage } = await model.chat(question, { ...greedy, tools, toolChoice: { name: 'get_weather' } });
  t.match(messages, [{ role: 'assistant', toolCalls: [{ name: 'get_weather' }] }, { role: 'tool' }, { role: 'assistant' }]);
  const count = async (conversation: Message[], offered: Tools) =>
    (await model.chat(conversation, { ...greedy, tools: offered, maxTokens: 1 })).usage.promptTokens;
  const asked: Message = { role: 'user', content: question };
  t.equal(usage.promptTokens, await count([asked], weather) + await count([asked, ...messages.slice(0, 2)], tools));
});

inBothModes('a result that is cut within a character loses only this character', async (t, load) => {
  const model = await load(t);
  const { messages } = await model.chat(question, { ...greedy, tools: { get_weather: tool({ description, parameters, execute: () => 'Sunny 🌞'.slice(0, 7) }) } });
  t.match(messages[1], { role: 'tool', content: 'Sunny \ufffd' });
  t.match(messages[2], { role: 'assistant', content: /Sunny/ });
});

inBothModes('a call that maxTokens cuts is not run, and the answer says that it was cut', async (t, load) => {
  const model = await load(t);
  let runs = 0;
  const tools = { get_weather: tool({ description, parameters, execute: () => String(runs++) }) };
  for (const maxTokens of [12, 16, 20]) {
    const result = await model.chat(question, { ...greedy, tools, toolChoice: 'required', maxTokens });
    t.match(result, { finishReason: 'length', usage: { completionTokens: maxTokens }, messages: { length: 1 } }, String(maxTokens));
  }
  t.equal(runs, 0);
});

inBothModes('rounds are limited, an exception rejects, and a cancel ends the loop', async (t, load) => {
  const model = await load(t);
  const tools = { get_weather: tool({ description, parameters, execute: () => 'Sunny' }) };
  t.match(await model.chat(question, { ...greedy, tools, maxToolRounds: 0 }), { finishReason: 'tool_calls', toolCalls: [{ name: 'get_weather' }] });
  const own = new Error('no network');
  const throwing = { get_weather: tool({ description, parameters, execute: () => Promise.reject(own) }) };
  await t.rejects(Promise.resolve(model.chat(question, { ...greedy, tools: throwing })), own);
  const reply: Reply<ChatResult> = model.chat(question, {
    ...greedy,
    tools: { get_weather: tool({ description, parameters, execute: () => reply.cancel() }) },
  });
  await t.rejects(Promise.resolve(reply), { code: 'cancelled' });
});

inBothModes('a tool that never ends holds up neither a cancel nor dispose, and its signal aborts', async (t, load) => {
  const model = await load(t);
  const start = async (from: Model) => {
    let begun = (_: AbortSignal): void => undefined;
    const signal = new Promise<AbortSignal>((resolve) => (begun = resolve));
    const execute = (_: unknown, context: { signal: AbortSignal }) => {
      begun(context.signal);
      return new Promise(() => {});
    };
    const reply = from.chat(question, { ...greedy, tools: { get_weather: tool({ description, parameters, execute }) } });
    return { reply, signal: await signal };
  };
  const one = await start(model);
  one.reply.cancel();
  t.equal(await codeOf(one.reply), 'cancelled');
  const other = await start(model);
  await model.dispose();
  t.equal(await codeOf(other.reply), 'closed');

  const models = await openModels({ models: { chat: { model: 'builtin' } }, contextSize: 512, threads: 1 });
  t.teardown(() => models.dispose());
  const leased = await models.lease();
  const third = await start(leased);
  await leased.dispose();
  t.match(await models.list(), [{ leases: 0 }]);
  const last = await start(await models.lease());
  await models.dispose();
  t.same(await Promise.all([third.reply, last.reply].map(codeOf)), ['closed', 'closed']);
  for (const { signal } of [one, other, third, last]) t.ok(signal.aborted);
});

inBothModes('dispose lets an answer run its tools and end', async (t, load) => {
  const model = await load(t);
  let disposing: Promise<void> | undefined;
  const execute = (): string => {
    disposing = model.dispose({ drainMs: 60_000 });
    return 'Sunny';
  };
  t.match(await model.chat(question, { ...greedy, tools: { get_weather: tool({ description, parameters, execute }) } }), { content: /Sunny/ });
  await disposing;
});

inBothModes('the model is told which arguments a library’s schema refuses', async (t, load) => {
  const model = await load(t);
  const strict = {
    '~standard': { version: 1 as const, vendor: 'test', validate: () => ({ issues: [{ message: 'no such city' }] }) },
    toJSONSchema: () => parameters,
  };
  const { messages } = await model.chat(question, { ...greedy, maxToolRounds: 1, tools: { get_weather: { description, parameters: strict, execute: () => 'never' } } });
  t.match(messages[1], { role: 'tool', content: /no such city/ });
});
