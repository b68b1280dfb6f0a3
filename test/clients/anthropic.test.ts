// Features of Anthropic's official client (tool loops, thinking, token counts, parsing) against the
// real server on the built-in model. test/server tests the single calls.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import t from 'tap';
import { z } from 'zod';
import { startService } from '../service/service.js';

const messages = [{ role: 'user' as const, content: 'What is the weather in Paris?' }];

t.test('tools run, and the stream of a turn is complete', async (t) => {
  const { url } = await startService(t);
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const asked: unknown[] = [];
  const weather = betaTool({
    name: 'get_weather', description: 'Get the weather of a city',
    inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    run: (input) => {
      asked.push(input);
      return `${input.city}: sunny, 21 degrees`;
    },
  });
  const ask = { model: 'default', max_tokens: 60, temperature: 0, messages, tools: [weather] };
  const last = await client.beta.messages.toolRunner(ask);
  t.strictSame(asked, [{ city: 'Paris' }]);
  t.match(last, { stop_reason: 'end_turn', content: [{ type: 'text', text: /sunny|21/ }] });
  let text = '';
  for await (const turn of client.beta.messages.toolRunner({ ...ask, stream: true })) {
    for await (const event of turn) if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
  }
  t.match(text, /sunny|21/);
});

t.test('answers are parsed, tokens are counted, and a missing feature is a 404', async (t) => {
  const { url } = await startService(t);
  const client = new Anthropic({ baseURL: url, authToken: 'none', maxRetries: 0 });
  const person = z.object({ name: z.string(), age: z.number().int() });
  const parsed = await client.messages.parse({ model: 'default', max_tokens: 200, temperature: 0, messages: [{ role: 'user', content: 'Invent a person.' }], output_config: { format: zodOutputFormat(person) } });
  t.ok(person.safeParse(parsed.parsed_output).success);

  const system = [{ type: 'text' as const, text: 'Be brief.', cache_control: { type: 'ephemeral' as const } }];
  const { input_tokens: counted } = await client.messages.countTokens({ model: 'default', system, messages });
  const { usage } = await client.messages.create({ model: 'default', max_tokens: 5, system, messages });
  t.equal(usage.input_tokens + (usage.cache_read_input_tokens ?? 0), counted);

  const batch = { requests: [{ custom_id: 'a', params: { model: 'default', max_tokens: 5, messages } }] };
  await t.rejects(client.messages.batches.create(batch), { status: 404, message: /messages\/batches/ });
});
