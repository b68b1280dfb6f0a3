// Anthropic's official client against the server. Needs nothing that only the fake engine can do.
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import { subjectUrl } from './app-under-test.js';

const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Say hello to the whole world, please.' }];
const ask = { model: 'default', messages, temperature: 0, max_tokens: 40 };

async function startClient(t: Parameters<typeof subjectUrl>[0]): Promise<Anthropic> {
  return new Anthropic({ baseURL: await subjectUrl(t), apiKey: 'none', maxRetries: 0 });
}

const textOf = ({ content }: Anthropic.Message): string => content.map((block) => (block.type === 'text' ? block.text : '')).join('');

t.test('the anthropic client chats, whole and streamed, with the same result', async (t) => {
  const client = await startClient(t);
  const whole = await client.messages.create({ ...ask, system: 'Be short.' });
  t.match(whole, { type: 'message', role: 'assistant', id: /^msg_/, stop_sequence: null });
  t.not(textOf(whole), '');
  const streamed = await client.messages.stream({ ...ask, system: 'Be short.' }).finalMessage();
  t.equal(textOf(streamed), textOf(whole));
  t.equal(streamed.stop_reason, whole.stop_reason);
  t.equal(streamed.model, whole.model);
  const tokens = ({ usage }: Anthropic.Message): number => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
  t.equal(tokens(streamed), tokens(whole));
  t.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
});

t.test('the anthropic client counts as many tokens as the prompt then has', async (t) => {
  const client = await startClient(t);
  const { input_tokens: counted } = await client.messages.countTokens({ model: 'default', system: 'Be short.', messages });
  const { usage } = await client.messages.create({ ...ask, system: 'Be short.', max_tokens: 1 });
  t.equal(counted, usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
});

t.test('the anthropic client gets errors as the classes it knows', async (t) => {
  const client = await startClient(t);
  await t.rejects(client.messages.create({ ...ask, messages: [] }), {
    message: /messages/, status: 400, type: 'invalid_request_error', requestID: /^req_/, error: { type: 'error', error: { param: 'messages', code: 'invalid_value' } },
  });
  await t.rejects(client.messages.create({ ...ask, model: 'claude-x' }), { message: /claude-x/, status: 404, type: 'not_found_error' });
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } } as const;
  await t.rejects(client.messages.create({ ...ask, messages: [{ role: 'user', content: [image] }] }), {
    status: 400, message: /only text is supported/, error: { error: { param: 'messages[0].content[0].type' } },
  });
});
