// The official client's Responses against the server. Needs nothing that only the fake engine can
// do.
import OpenAI from 'openai';
import t from 'tap';
import { post, subjectUrl } from './app-under-test.js';

const ask = { model: 'default', input: 'Say hello to the whole world, please.', temperature: 0, max_output_tokens: 40 };

async function startClient(t: Parameters<typeof subjectUrl>[0]): Promise<OpenAI> {
  return new OpenAI({ baseURL: `${await subjectUrl(t)}/v1`, apiKey: 'none', maxRetries: 0 });
}

t.test('a response comes whole and streamed with the same result', async (t) => {
  const client = await startClient(t);
  const whole = await client.responses.create({ ...ask, instructions: 'Be short.' });
  t.match(whole, { object: 'response', id: /^resp_/, error: null, instructions: 'Be short.', output: [{ type: 'message', role: 'assistant' }] });
  t.not(whole.output_text, '');
  t.equal(whole.usage?.total_tokens, whole.usage!.input_tokens + whole.usage!.output_tokens);
  const final = await client.responses.stream({ ...ask, instructions: 'Be short.' }).finalResponse();
  t.equal(final.output_text, whole.output_text);
  t.equal(final.status, whole.status);
  t.equal(final.usage?.output_tokens, whole.usage?.output_tokens);
});

t.test('whole and streamed responses agree in every field', async (t) => {
  const url = await subjectUrl(t);
  const ask = { model: 'default', input: 'Say hello to the whole world, please.', temperature: 0, max_output_tokens: 12, metadata: { a: 'b' }, instructions: 'Be short.', store: false };
  const read = async (more: object): Promise<string> => await (await post(`${url}/v1/responses`, { ...ask, ...more })).text();
  // Fields that cannot be equal: ids, times, and how much of the prompt was cached.
  const plain = (text: string): unknown => JSON.parse(text, (key, value: unknown) => (['id', 'created_at', 'completed_at', 'cached_tokens'].includes(key) ? null : value));
  const last = (await read({ stream: true })).trim().split('\n').at(-1)!.replace(/^data: /, '');
  t.strictSame((plain(last) as { response: unknown }).response, plain(await read({})));
});

t.test('events are numbered without a gap and end with the response', async (t) => {
  const client = await startClient(t);
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await client.responses.create({ ...ask, stream: true })) events.push(event);
  t.strictSame(events.map(({ sequence_number: number }) => number), events.map((_, index) => index));
  const types = events.map(({ type }) => type);
  t.strictSame(types.slice(0, 4), ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added']);
  t.match(types.at(-1), /^response\.(completed|incomplete)$/);
  t.strictSame(types.slice(-4, -1), ['response.output_text.done', 'response.content_part.done', 'response.output_item.done']);
});

t.test('a response can be retrieved, continued and deleted', async (t) => {
  const client = await startClient(t);
  const first = await client.responses.create(ask);
  t.strictSame((await client.responses.retrieve(first.id)).output, first.output);
  t.match((await client.responses.inputItems.list(first.id)).data, [{ type: 'message', role: 'user', content: [{ text: ask.input }] }]);
  const second = await client.responses.create({ ...ask, input: 'And once more?', previous_response_id: first.id });
  const { input_tokens: counted } = await client.responses.inputTokens.count({ model: 'default', input: [
    { role: 'user', content: ask.input }, { role: 'assistant', content: first.output_text }, { role: 'user', content: 'And once more?' },
  ] });
  t.equal(second.usage?.input_tokens, counted, 'as if the whole conversation was sent');
  await client.responses.delete(first.id);
  await t.rejects(client.responses.retrieve(first.id), { status: 404, code: 'response_not_found' });
  await t.rejects(client.responses.create({ ...ask, previous_response_id: second.id }), { code: 'response_not_found', status: 404, param: 'previous_response_id' });
});

t.test('a response that is not to be stored is not', async (t) => {
  const client = await startClient(t);
  const { id } = await client.responses.create({ ...ask, store: false });
  await t.rejects(client.responses.retrieve(id), { code: 'response_not_found', status: 404 });
});

t.test('the client gets errors as the classes it knows', async (t) => {
  const client = await startClient(t);
  await t.rejects(client.responses.create({ ...ask, input: [] }), { status: 400, code: 'invalid_value', param: 'input' });
  await t.rejects(client.responses.create({ ...ask, model: 'gpt-x' }), { status: 404, code: 'model_not_found' });
  await t.rejects(client.responses.create({ ...ask, background: true, store: false }), { status: 400, code: 'invalid_value', param: 'store' });
});
