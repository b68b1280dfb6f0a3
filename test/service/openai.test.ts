// The suites of test/server that need only a URL, over the real engine, and tests that need a real
// model.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { gpuLayers } from '../device.js';
import { startService } from './service.js';

const suite = (name: string): string => fileURLToPath(new URL(`../server/${name}.test.js`, import.meta.url));
const children = (pid: number): string => execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' }).trim();

t.test('the suites of the clients pass over the real engine', async (t) => {
  const { url } = await startService(t, ['--parallel', '4']);
  for (const name of ['openai', 'responses', 'responses/compliance', 'anthropic', 'ollama']) {
    await t.spawn(process.execPath, [suite(name)], { env: { ...process.env, RECUA_TEST_URL: url } }, `${name} client`);
  }
});

t.test('in Anthropic’s dialect a stop sequence of the request is reported, and so is a cut answer', async (t) => {
  const { url } = await startService(t);
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ask = { model: 'default', messages: [{ role: 'user' as const, content: 'Hello! My name is Zorblax.' }], temperature: 0, max_tokens: 40 };
  const [block] = (await client.messages.create(ask)).content;
  const stop = block?.type === 'text' ? block.text.slice(2, 5) : '';
  t.match(await client.messages.create({ ...ask, stop_sequences: [stop] }), { stop_reason: 'stop_sequence', stop_sequence: stop });
  t.match(await client.messages.create({ ...ask, max_tokens: 1 }), { stop_reason: 'max_tokens', stop_sequence: null });
});

// On a GPU the number of rows in a step decides the rounding, and so, now and then, a token.
const onGpu = gpuLayers !== 0 && 'rows in company round otherwise on a GPU';

t.test('n answers equal those of n seeds', { skip: onGpu }, async (t) => {
  const { url } = await startService(t, ['--parallel', '4']);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const ask = { model: 'default', messages: [{ role: 'user' as const, content: 'Tell me something about rain.' }], temperature: 1.5, max_tokens: 24, seed: 11 };
  const together = await client.chat.completions.create({ ...ask, n: 4 });
  const alone = [];
  for (let at = 0; at < 4; at++) alone.push((await client.chat.completions.create({ ...ask, seed: 11 + at })).choices[0].message.content);
  t.strictSame(together.choices.map(({ message }) => message.content), alone);
  t.ok(new Set(alone).size > 1, 'seeds make a difference');
});

t.test('1,000 fuzzed bodies leave the same two processes alive', async (t) => {
  const service = await startService(t, ['--parallel', '4', '-c', '512']);
  const engine = children(service.child.pid!);
  await t.spawn(process.execPath, [suite('fuzz')], { env: { ...process.env, RECUA_TEST_URL: service.url } }, 'fuzzed bodies');
  t.equal(children(service.child.pid!), engine, 'the engine process is the same');
  t.match(await (await fetch(`${service.url}/health`)).json(), { status: 'ok', crashes: 0 });
});

t.test('a chat of two turns recalls a name, streamed and not', async (t) => {
  const { url } = await startService(t);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  for (const name of ['Zorblax', 'Ifeoma', 'Wilhelmina']) {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: `Hello! My name is ${name}.` }];
    const first = await client.chat.completions.create({ model: 'default', messages, temperature: 0 });
    messages.push(first.choices[0].message, { role: 'user', content: 'What is my name?' });
    let text = '';
    for await (const chunk of await client.chat.completions.create({ model: 'default', messages, temperature: 0, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
    }
    t.ok(text.includes(name), text);
  }
});

t.test('1, 33 and 2,048 inputs embed in one call, in order', async (t) => {
  const { url } = await startService(t);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const text = (i: number): string => `text ${i % 50}`;
  const [reference] = await Promise.all([client.embeddings.create({ model: 'default', input: Array.from({ length: 50 }, (_, i) => text(i)) })]);
  for (const count of [1, 33, 2048]) {
    const { data, usage } = await client.embeddings.create({ model: 'default', input: Array.from({ length: count }, (_, i) => text(i)) });
    t.equal(data.length, count);
    t.ok(usage.prompt_tokens > count);
    let worst = 1;
    for (const [i, { embedding, index }] of data.entries()) {
      if (index !== i) t.fail(`index ${index} at ${i}`);
      worst = Math.min(worst, embedding.reduce((sum, x, j) => sum + x * reference.data[i % 50].embedding[j], 0));
    }
    t.ok(worst > 0.9999, `${count} inputs: least cosine ${worst}`);
  }
});

t.test('a tool call is made, and its result is answered', async (t) => {
  const { url } = await startService(t);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const tools: OpenAI.ChatCompletionTool[] = [{
    type: 'function',
    function: { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  }];
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const { choices: [choice] } = await client.chat.completions.create({ model: 'default', messages, tools, temperature: 0 });
  t.equal(choice.finish_reason, 'tool_calls');
  t.equal(choice.message.content, null);
  const [call] = choice.message.tool_calls!;
  t.match(call, { type: 'function', function: { name: 'get_weather' } });
  t.same(JSON.parse((call as OpenAI.ChatCompletionMessageFunctionToolCall).function.arguments), { city: 'Paris' });
  messages.push(choice.message, { role: 'tool', tool_call_id: call.id, content: 'sunny, 21 degrees' });
  const { choices: [answer] } = await client.chat.completions.create({ model: 'default', messages, tools, temperature: 0 });
  t.equal(answer.finish_reason, 'stop');
  t.match(answer.message.content, /sunny|21/);
});
