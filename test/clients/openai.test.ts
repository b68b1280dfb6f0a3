// Features of OpenAI's official client (tools, parsing, batches, background) against the real
// server on the built-in model. test/server tests the single calls.
import OpenAI, { toFile } from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start, type Running } from '../cli/recua.js';
import { gpuFlags } from '../device.js';

const person = z.object({ name: z.string(), age: z.number().int() });
const chat = '/v1/chat/completions';

interface Started extends Running {
  client: OpenAI;
}

async function startServer(t: Test, home: string): Promise<Started> {
  const running = start(['api', 'builtin', '--port', '0', '--parallel', '2', ...gpuFlags], { env: { SERVICE_HOME: home, HOME: home } });
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  return { ...running, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

function homeOf(t: Test): string {
  const home = mkdtempSync(join(tmpdir(), 'recua-clients-'));
  t.teardown(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
  return home;
}

t.test('tools run, and answers are parsed', async (t) => {
  const { client } = await startServer(t, homeOf(t));
  const runner = client.chat.completions.runTools({
    model: 'default', temperature: 0, max_tokens: 60, messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
    tools: [{ type: 'function', function: {
      name: 'get_weather', description: 'Get the weather of a city', parse: JSON.parse, function: ({ city }: { city: string }) => `${city}: sunny, 21 degrees`,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    } }],
  });
  t.match(await runner.finalContent(), /sunny|21/);
  const ask = { model: 'default', temperature: 0, max_tokens: 200, messages: [{ role: 'user' as const, content: 'Invent a person.' }], response_format: zodResponseFormat(person, 'person') };
  const parsed = (await client.chat.completions.parse(ask)).choices[0]!.message.parsed;
  t.ok(person.safeParse(parsed).success);
  t.strictSame((await client.chat.completions.stream(ask).finalChatCompletion()).choices[0]!.message.parsed, parsed);
  const respond = { model: 'default', temperature: 0, max_output_tokens: 200, input: 'Invent a person.', text: { format: zodTextFormat(person, 'person') } };
  const { output_parsed: whole } = await client.responses.parse(respond);
  t.ok(person.safeParse(whole).success);
  t.strictSame((await client.responses.stream(respond).finalResponse()).output_parsed, whole);
});

t.test('a batch continues after kill -9, and so does a conversation; no line appears twice', async (t) => {
  const home = homeOf(t);
  const first = await startServer(t, home);
  const { id: response } = await first.client.responses.create({ model: 'default', input: 'My name is Zorblax.', max_output_tokens: 20 });
  const lines = Array.from({ length: 24 }, (_, index) => JSON.stringify({
    custom_id: `line ${index}`, method: 'POST', url: chat, body: { model: 'default', temperature: 0, max_tokens: 12, messages: [{ role: 'user', content: `Count to ${index}.` }] },
  }));
  const file = await first.client.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' });
  const { id } = await first.client.batches.create({ input_file_id: file.id, endpoint: chat, completion_window: '24h' });
  await untilBatch(first.client, id, ({ request_counts: counts }) => counts!.completed >= 4);
  const { id: background } = await first.client.responses.create({ model: 'default', input: 'Count to a million.', max_output_tokens: 2_000, background: true });
  first.child.kill('SIGKILL');
  await first.ended;
  const { client } = await startServer(t, home);
  const done = await untilBatch(client, id, ({ status }) => status === 'completed');
  t.match(done.request_counts, { total: 24, completed: 24, failed: 0 });
  const answers = (await (await client.files.content(done.output_file_id!)).text()).trimEnd().split('\n').map((line) => JSON.parse(line) as { custom_id: string });
  t.strictSame(
    answers.map(({ custom_id: custom }) => custom).sort(),
    lines.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id).sort(),
  );
  t.match(await client.responses.create({ model: 'default', input: 'What is my name?', previous_response_id: response, max_output_tokens: 40, temperature: 0 }), { output_text: /Zorblax/ });
  t.match(await client.responses.retrieve(background), { status: 'failed', error: { code: 'shutting_down' } });
});

t.test('an answer in the background is cancelled while the model writes', async (t) => {
  const { client } = await startServer(t, homeOf(t));
  // It cannot end by itself.
  const asked = { model: 'default', input: 'Count to a million.', max_output_tokens: 3_900, regex: '[a-z ]+', ignore_eos: true, background: true, stream: true } as const;
  const stream = await client.responses.create(asked);
  let id = '';
  for await (const event of stream) {
    if (event.type === 'response.created') id = event.response.id;
    if (event.type === 'response.output_text.delta') break;
  }
  t.match(await client.responses.cancel(id), { status: 'cancelled' });
  const { output_text: text } = await client.responses.create({ model: 'default', input: 'Say hello.', max_output_tokens: 10 });
  t.ok(text.length > 0, 'the model is free again');
});

async function untilBatch(client: OpenAI, id: string, holds: (batch: OpenAI.Batch) => boolean): Promise<OpenAI.Batch> {
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (holds(batch)) return batch;
    if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) throw new Error(`the batch is ${batch.status}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
