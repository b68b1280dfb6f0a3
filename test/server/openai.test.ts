// The official client against the server. Needs nothing that only the fake engine can do.
import OpenAI from 'openai';
import t from 'tap';
import { subjectUrl } from './app-under-test.js';

const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Say hello to the whole world, please.' }];

async function startClient(t: Parameters<typeof subjectUrl>[0]): Promise<OpenAI> {
  const url = await subjectUrl(t);
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
}

t.test('the openai client lists and gets models', async (t) => {
  const client = await startClient(t);
  const { data } = await client.models.list();
  t.equal(data.length, 1);
  t.equal((await client.models.retrieve(data[0].id)).id, data[0].id);
  t.equal((await client.models.retrieve('default')).id, data[0].id);
  await t.rejects(client.models.retrieve('nothing/here'), { status: 404, code: 'model_not_found' });
});

t.test('the openai client chats, whole and streamed, with the same result', async (t) => {
  const client = await startClient(t);
  const ask = { model: 'default', messages, temperature: 0, max_tokens: 40 };
  const whole = await client.chat.completions.create(ask);
  t.type(whole.choices[0].message.content, 'string');
  t.equal(whole.usage?.total_tokens, whole.usage!.prompt_tokens + whole.usage!.completion_tokens);
  t.match(whole._request_id, /^req_/);
  const runner = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
  const final = await runner.finalChatCompletion();
  t.equal(final.choices[0].message.content, whole.choices[0].message.content);
  t.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
  t.equal(final.model, whole.model);
  t.same({ ...final.usage, prompt_tokens_details: null }, { ...whole.usage, prompt_tokens_details: null });
});

t.test('the openai client embeds, by default through base64', async (t) => {
  const client = await startClient(t);
  const input = ['first text', 'second text', 'third'];
  const { data, usage } = await client.embeddings.create({ model: 'default', input });
  const floats = await client.embeddings.create({ model: 'default', input, encoding_format: 'float' });
  t.same(data.map(({ index }) => index), [0, 1, 2]);
  for (const [at, { embedding }] of data.entries()) {
    t.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-4, 'unit length');
    t.ok(embedding.every((value, dimension) => Math.abs(value - floats.data[at].embedding[dimension]) < 1e-6));
  }
  t.ok(usage.prompt_tokens > 0);
});

t.test('the openai client gets errors as the classes it knows', async (t) => {
  const client = await startClient(t);
  await t.rejects(client.chat.completions.create({ model: 'default', messages: [] }), {
    name: 'Error', status: 400, code: 'invalid_value', param: 'messages', type: 'invalid_request_error', requestID: /^req_/,
  });
  await t.rejects(client.chat.completions.create({ model: 'gpt-x', messages }), { status: 404, code: 'model_not_found', param: 'model' });
  await t.rejects(client.chat.completions.create({ model: 'default', messages, top_logprobs: 3 }), { status: 400, param: 'top_logprobs', code: 'invalid_value' });
});

t.test('the openai client stops a stream by leaving it', async (t) => {
  const client = await startClient(t);
  const stream = await client.chat.completions.create({ model: 'default', messages, stream: true });
  for await (const chunk of stream) {
    t.equal(chunk.object, 'chat.completion.chunk');
    break;
  }
  t.ok(stream.controller.signal.aborted);
});
