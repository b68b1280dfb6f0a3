// What comes as a stream is, put together by each dialect's own client, what comes whole: texts,
// calls of tools, how it ended, and what it took. Against the real server on the embedded model.
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import t from 'tap';
import { startService, weatherTool } from '../service/service.js';

/** Without what cannot be the same: names and times, and how much of a prompt was there already. */
function plain(value: unknown): unknown {
  const varies = new Set(['id', 'created', 'tool_call_id', '_request_id', 'timings', 'cached_tokens', 'cache_read_input_tokens', 'input_tokens', 'parsed', 'parsed_arguments', 'parsed_output']);
  return JSON.parse(JSON.stringify(value), (key, inner: unknown) => (varies.has(key) ? undefined : inner));
}

const asks = [
  { what: 'a text', text: 'Tell me something about rain.', tools: false, most: 60 },
  { what: 'a text that is cut', text: 'Tell me something about rain.', tools: false, most: 3 },
  { what: 'a call', text: 'What is the weather in Paris?', tools: true, most: 60 },
];

t.test('a stream put together is the whole answer, in every dialect', async (t) => {
  const { url } = await startService(t);
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ollama = new Ollama({ host: url });
  const { name, description, parameters } = weatherTool.function;
  for (const { what, text, tools, most } of asks) {
    const messages = [{ role: 'user' as const, content: text }];
    const chat = { model: 'default', messages, temperature: 0, max_tokens: most, ...(tools ? { tools: [weatherTool as OpenAI.ChatCompletionTool] } : {}) };
    const streamed = await openai.chat.completions.stream({ ...chat, stream_options: { include_usage: true } }).finalChatCompletion();
    const { choices: [choice], usage } = await openai.chat.completions.create(chat);
    t.match(plain(streamed.choices[0]), plain({ message: { content: choice!.message.content, tool_calls: choice!.message.tool_calls }, finish_reason: choice!.finish_reason }), `chat: ${what}`);
    t.strictSame(plain(streamed.usage), plain(usage), `chat: ${what}`);

    const ask = { model: 'default', messages, temperature: 0, max_tokens: most, ...(tools ? { tools: [{ name, description, input_schema: parameters as Anthropic.Tool.InputSchema }] } : {}) };
    t.strictSame(plain(await anthropic.messages.stream(ask).finalMessage()), plain(await anthropic.messages.create(ask)), `messages: ${what}`);

    const local = { model: 'default', messages, options: { temperature: 0, num_predict: most }, ...(tools ? { tools: [weatherTool] } : {}) };
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
