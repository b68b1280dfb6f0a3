// A stream, put together by the official client of each dialect, equals the whole answer: texts,
// tool calls, thoughts, log probabilities, several answers, finish reasons and usage. Against the
// real server on the built-in model. Each request is sent once before, with room for one
// conversation: a new prompt is evaluated in other steps than a cached one, and its numbers are
// rounded differently.
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { fileURLToPath } from 'node:url';
import { post, startService, weatherTool } from '../service/service.js';

/** Without fields that cannot be equal: names, times, and how much of a prompt was cached. */
function plain(value: unknown): unknown {
  const varies = new Set(['id', 'created', 'tool_call_id', '_request_id', 'timings', 'cached_tokens', 'cache_read_input_tokens', 'input_tokens', 'parsed', 'parsed_arguments', 'parsed_output']);
  return JSON.parse(JSON.stringify(value), (key, inner: unknown) => (varies.has(key) ? undefined : inner));
}

const oneSlot = ['-np', '1'];

const asks = [
  { what: 'a text', text: 'Tell me something about rain.', tools: false, most: 60 },
  { what: 'a text that is cut', text: 'Tell me something about rain.', tools: false, most: 3 },
  { what: 'a call', text: 'What is the weather in Paris?', tools: true, most: 60 },
];

t.test('a stream put together equals the whole answer, in every dialect', async (t) => {
  const { url } = await startService(t, oneSlot);
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ollama = new Ollama({ host: url });
  const { name, description, parameters } = weatherTool.function;
  for (const { what, text, tools, most } of asks) {
    const messages = [{ role: 'user' as const, content: text }];
    const chat = { model: 'default', messages, temperature: 0, max_tokens: most, ...(tools ? { tools: [weatherTool as OpenAI.ChatCompletionTool] } : {}) };
    await openai.chat.completions.create(chat);
    const streamed = await openai.chat.completions.stream({ ...chat, stream_options: { include_usage: true } }).finalChatCompletion();
    const { choices: [choice], usage } = await openai.chat.completions.create(chat);
    t.match(plain(streamed.choices[0]), plain({ message: { content: choice!.message.content, tool_calls: choice!.message.tool_calls }, finish_reason: choice!.finish_reason }), `chat: ${what}`);
    t.strictSame(plain(streamed.usage), plain(usage), `chat: ${what}`);

    const ask = { model: 'default', messages, temperature: 0, max_tokens: most, ...(tools ? { tools: [{ name, description, input_schema: parameters as Anthropic.Tool.InputSchema }] } : {}) };
    await anthropic.messages.create(ask);
    t.strictSame(plain(await anthropic.messages.stream(ask).finalMessage()), plain(await anthropic.messages.create(ask)), `messages: ${what}`);

    const local = { model: 'default', messages, options: { temperature: 0, num_predict: most }, ...(tools ? { tools: [weatherTool] } : {}) };
    await ollama.chat(local);
    const whole = await ollama.chat(local);
    const parts = [];
    for await (const part of await ollama.chat({ ...local, stream: true })) parts.push(part);
    t.equal(parts.map(({ message }) => message.content).join(''), whole.message.content, `ollama: ${what}`);
    t.strictSame(plain(parts.flatMap(({ message }) => message.tool_calls ?? [])), plain(whole.message.tool_calls ?? []), `ollama: ${what}`);
    const { done_reason: reason, eval_count: count, prompt_eval_count: read } = parts.at(-1)!;
    t.strictSame([reason, count, read], [whole.done_reason, whole.eval_count, whole.prompt_eval_count], `ollama: ${what}`);
  }
  const complete = { model: 'default', prompt: 'Once upon a time', temperature: 0, max_tokens: 12 };
  const { choices: [told] } = await openai.completions.create(complete);
  let text = '';
  let reason: string | null = null;
  for await (const { choices: [part] } of await openai.completions.create({ ...complete, stream: true })) {
    text += part?.text ?? '';
    reason = part?.finish_reason ?? reason;
  }
  t.strictSame([text, reason], [told!.text, told!.finish_reason], 'completions');
});

const thinker = fileURLToPath(new URL('../../vendor/llama.cpp/models/templates/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja', import.meta.url));

/** The data of the events, or the lines, of a stream. */
async function parts(url: string, path: string, body: object): Promise<any[]> {
  const text = await (await post(url, path, { ...body, stream: true })).text();
  return [...text.matchAll(/^(?:data: )?(\{.*\})$/gm)].map(([, data]) => JSON.parse(data!) as object);
}

async function whole(url: string, path: string, body: object): Promise<any> {
  await (await post(url, path, { ...body, stream: false })).text();
  const reply = await post(url, path, { ...body, stream: false });
  return await reply.json();
}

/** Numbers from two evaluations are nearly equal. */
function alike(t: Test, got: unknown, wanted: unknown, what: string): void {
  const round = (value: unknown): unknown => JSON.parse(JSON.stringify(value), (key, inner: unknown) => (key === 'logprob' ? 0 : inner));
  t.strictSame(round(got), round(wanted), what);
  const numbers = (value: unknown): number[] => [...JSON.stringify(value).matchAll(/"logprob":(-?[\d.e-]+)/g)].map(([, number]) => Number(number));
  const [a, b] = [numbers(got), numbers(wanted)];
  t.ok(a.every((number, index) => Math.abs(number - b[index]!) < 1e-3), `${what}: log probabilities`);
}

t.test('several answers with log probabilities equal a stream', async (t) => {
  const { url } = await startService(t, oneSlot);
  const ask = { messages: [{ role: 'user', content: 'What is the weather in Paris?' }], temperature: 1, seed: 3, max_tokens: 30, n: 2, logprobs: true, top_logprobs: 2, tools: [weatherTool] };
  const { choices, usage } = await whole(url, '/v1/chat/completions', ask);
  const chunks = await parts(url, '/v1/chat/completions', { ...ask, stream_options: { include_usage: true } });
  t.strictSame(plain(chunks.at(-1).usage), plain(usage));
  for (const { index, message, logprobs, finish_reason: reason } of choices) {
    const own = chunks.flatMap((chunk) => chunk.choices).filter((choice: any) => choice.index === index);
    t.equal(own.map(({ delta }: any) => delta.content ?? '').join(''), message.content ?? '');
    const calls: { name: string; arguments: string }[] = [];
    for (const call of own.flatMap(({ delta }: any) => delta.tool_calls ?? [])) {
      if (call.function.name) calls[call.index] = { name: call.function.name, arguments: '' };
      calls[call.index]!.arguments += call.function.arguments ?? '';
    }
    t.strictSame(calls, (message.tool_calls ?? []).map(({ function: { name, arguments: text } }: any) => ({ name, arguments: text })));
    alike(t, own.flatMap((choice: any) => choice.logprobs?.content ?? []), logprobs.content, `answer ${index}`);
    t.equal(own.at(-1).finish_reason, reason);
  }
});

t.test('thoughts and log probabilities of each dialect equal a stream', async (t) => {
  const { url } = await startService(t, [...oneSlot, '--chat-template-file', thinker]);
  const messages = [{ role: 'user', content: 'What is the weather?' }];
  const common = { temperature: 0, thinking_budget_tokens: 12 };

  const chat = { ...common, messages, max_tokens: 60, logprobs: true, top_logprobs: 1 };
  const { choices: [{ message, logprobs, finish_reason: reason }], usage } = await whole(url, '/v1/chat/completions', chat);
  t.ok(message.reasoning_content && message.content, 'it thinks, then says something');
  const chunks = await parts(url, '/v1/chat/completions', { ...chat, stream_options: { include_usage: true } });
  const choices = chunks.flatMap((chunk) => chunk.choices);
  for (const field of ['reasoning_content', 'content']) t.equal(choices.map(({ delta }) => delta[field] ?? '').join(''), message[field], `chat: ${field}`);
  alike(t, choices.flatMap((choice) => choice.logprobs?.content ?? []), logprobs.content, 'chat');
  t.equal(choices.at(-1).finish_reason, reason);
  t.strictSame(plain(chunks.at(-1).usage), plain(usage), 'chat');

  const respond = { ...common, input: 'What is the weather?', max_output_tokens: 60, top_logprobs: 1, store: false, include: ['message.output_text.logprobs'] };
  const response = await whole(url, '/v1/responses', respond);
  const events = await parts(url, '/v1/responses', respond);
  const times = (value: object): object => JSON.parse(JSON.stringify(value), (key, inner: unknown) => (['created_at', 'completed_at'].includes(key) ? undefined : inner)) as object;
  alike(t, times(plain(events.at(-1).response) as object), times(plain(response) as object), 'responses');
  for (const [index, item] of response.output.entries()) {
    const deltas = events.filter(({ type, output_index: at }) => at === index && /_text\.delta$/.test(type));
    t.equal(deltas.map(({ delta }) => delta as string).join(''), item.content[0].text, `responses: ${item.type}`);
  }

  const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ask = { model: 'default', messages: messages as Anthropic.MessageParam[], temperature: 0, max_tokens: 60, thinking: { type: 'enabled' as const, budget_tokens: 12 } };
  await anthropic.messages.create(ask);
  const said = await anthropic.messages.create(ask);
  t.match(said.content, [{ type: 'thinking' }, { type: 'text' }]);
  t.strictSame(plain(await anthropic.messages.stream(ask).finalMessage()), plain(said), 'messages');

  const local = { ...common, messages, think: true, options: { temperature: 0, num_predict: 60 }, logprobs: true, top_logprobs: 1 };
  const answer = await whole(url, '/api/chat', local);
  const lines = await parts(url, '/api/chat', local);
  for (const field of ['thinking', 'content']) t.equal(lines.map(({ message: part }) => part[field] ?? '').join(''), answer.message[field], `ollama: ${field}`);
  alike(t, lines.flatMap((line) => line.logprobs ?? []), answer.logprobs, 'ollama');
});
