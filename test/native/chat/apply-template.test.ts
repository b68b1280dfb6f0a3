// A body of chat completions becomes the prompt that llama-server makes of it, by every vendored
// template: llama.cpp reads the body's own messages and tools for the one, ours what the dialect
// made of them. Each template gets a third of the bodies.
import t from 'tap';
import { renderChat } from '#recua/engine/prompts/chat.js';
import { Fields } from '#recua/request/fields.js';
import { readChatRequest } from '#recua/server/openai/chat-request.js';
import type { NativeModel } from '#recua/addon/addon.js';
import { makeConfig } from '#recua/settings/config.js';
import { templateFiles, templateOf, vocabulary } from './exact-history.js';

const tools = [
  { type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'] } } },
  { type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {} } } },
];
const call = (args: unknown, id = 'abcdefghi') => ({ role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: { name: 'get_weather', arguments: args } }] });
const result = { role: 'tool', tool_call_id: 'abcdefghi', content: '{"rain": true}' };
const asked = { role: 'user', content: 'What is the weather in Paris?' };

interface Body {
  messages: Record<string, unknown>[];
  tools?: object[];
  [field: string]: unknown;
}

const corpus: Record<string, Body> = {
  plain: { messages: [asked] },
  system: { messages: [{ role: 'system', content: 'Be brief.' }, asked] },
  turns: { messages: [asked, { role: 'assistant', content: 'It rains.' }, { role: 'user', content: 'And in Rome?' }] },
  'white space': { messages: [{ role: 'user', content: '  a \n\n b\t ' }, { role: 'assistant', content: '\n c  ' }, { role: 'user', content: ' d' }] },
  parts: { messages: [{ role: 'system', content: [{ type: 'text', text: 'Be' }, { type: 'text', text: 'brief.' }] }, { role: 'user', content: [{ type: 'text', text: 'One' }, { type: 'text', text: 'two' }] }] },
  'parts of an answer': { messages: [asked, { role: 'assistant', content: [{ type: 'text', text: 'It' }, { type: 'text', text: 'rains.' }] }, asked] },
  'empty contents': { messages: [{ role: 'system', content: '' }, asked, { role: 'assistant', content: '' }, { role: 'user', content: [] }] },
  thoughts: { messages: [asked, { role: 'assistant', content: 'It rains.', reasoning_content: 'Clouds…' }, { role: 'user', content: 'And in Rome?' }] },
  'without thinking': { messages: [asked], enable_thinking: false },
  effort: { messages: [asked], reasoning_effort: 'high' },
  'template arguments': { messages: [asked], chat_template_kwargs: { some_flag: true, date_string: '1 Jan 2025' } },
  tools: { messages: [asked], tools },
  'a call': { messages: [asked, call('{"city": "Paris"}'), result], tools },
  'a call with thoughts': { messages: [asked, { ...call('{"city":"Paris","days":3}'), reasoning_content: 'I should look.' }, result, { role: 'assistant', content: 'It rains.' }, asked], tools },
  'a call with text': { messages: [asked, { ...call('{"city": "Paris"}'), content: 'I look.' }, result], tools },
  'arguments as an object': { messages: [asked, call({ city: 'Paris', days: 2 }), result], tools },
  'several calls': {
    messages: [asked, { role: 'assistant', content: null, tool_calls: [...call('{"city": "Paris"}').tool_calls, ...call('{"city": "Rome"}', 'bcdefghij').tool_calls] }, result, { ...result, tool_call_id: 'bcdefghij' }],
    tools,
  },
  'names': { messages: [{ ...asked, name: 'alice' }] },
  'two users': { messages: [asked, { role: 'user', content: 'Hurry.' }] },
  developer: { messages: [{ role: 'developer', content: 'Be brief.' }, asked] },
  prefill: { messages: [asked, { role: 'assistant', content: 'In Paris it' }] },
  'prefill aloud': { messages: [asked, { role: 'assistant', content: 'In Paris it' }], continue_final_message: true, add_generation_prompt: false },
  'prefill of thoughts': { messages: [asked, { role: 'assistant', content: '', reasoning_content: 'The user asks' }], continue_final_message: 'reasoning_content', add_generation_prompt: false },
  'no generation prompt': { messages: [asked], add_generation_prompt: false },
};

/** As llama-server reads the fields beside the messages. */
async function reference(model: NativeModel, template: string, body: Body): Promise<string> {
  const kwargs: Record<string, string> = {};
  for (const [name, value] of Object.entries((body['chat_template_kwargs'] ?? {}) as object)) kwargs[name] = JSON.stringify(value);
  if (body['reasoning_effort'] !== undefined) kwargs['reasoning_effort'] = JSON.stringify(body['reasoning_effort']);
  const continues = body['continue_final_message'];
  const { prompt } = await model.applyChatTemplate({
    messages: JSON.stringify(body.messages), tools: body.tools ? JSON.stringify(body.tools) : '', toolChoice: 'auto', jsonSchema: '', grammar: '',
    addGenerationPrompt: (body['add_generation_prompt'] ?? true) as boolean, enableThinking: (body['enable_thinking'] ?? true) as boolean,
    ...(continues === undefined ? {} : { continuation: continues === true ? 'auto' as const : continues as 'reasoning_content' }), templateKwargs: kwargs, template,
  });
  return prompt;
}

t.test('bodies become the prompts of llama-server, by every template', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  let compared = 0;
  for (const [i, file] of templateFiles.entries()) {
    const template = templateOf(file);
    for (const [j, [name, body]] of Object.entries(corpus).entries()) {
      if ((i + j) % 3 > 0) continue;
      const expected = await reference(model, template, body).catch((error: Error) => error);
      const { request } = readChatRequest(Fields.of(structuredClone(body)), { defaults: makeConfig({}), model: { vocabSize: 1_000_000, contextSize: 1_000_000 } });
      const got = await renderChat(model, template, request).then(({ prompt }) => prompt, (error: Error) => error);
      if (expected instanceof Error) t.ok(got instanceof Error, `${file}, ${name}: both are refused`);
      else t.equal(got, expected, `${file}, ${name}`);
      if (!(expected instanceof Error)) compared++;
    }
  }
  t.ok(compared > 500, `${compared} prompts`);
});
