import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { addon, chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const weather = JSON.stringify([{ type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }]);

t.test('the template renders every kind of turn', async (t) => {
  const { prompt, generationPrompt, continuation } = await chatPrompt(model, '', {
    messages: JSON.stringify([
      { role: 'system', content: 'SYSTEM' }, { role: 'user', content: 'USER' },
      { role: 'assistant', content: '', tool_calls: [{ id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{"city":"CITY"}' } }] },
      { role: 'tool', tool_call_id: 'a', content: 'RESULT' }, { role: 'assistant', content: 'ANSWER' }, { role: 'user', content: 'AGAIN' },
    ]),
    tools: weather,
  });
  for (const part of ['SYSTEM', 'USER', 'get_weather', 'CITY', 'RESULT', 'ANSWER', 'AGAIN']) t.ok(prompt.includes(part), part);
  t.ok(prompt.endsWith(generationPrompt));
  t.equal(continuation, false);
});

t.test('a last message of the assistant is continued', async (t) => {
  const prompt = await chatPrompt(model, '', { messages: JSON.stringify([{ role: 'user', content: 'Say' }, { role: 'assistant', content: 'The capital' }]) });
  t.ok(prompt.prompt.endsWith('The capital'));
  t.equal(prompt.continuation, true);
  const parser = model.createParser(prompt, true);
  t.same(parser.parse(' of France', false), { content: ' of France' });
});

t.test('an empty last message of the assistant begins a new answer', async (t) => {
  const user = { role: 'user', content: 'Say' };
  const { prompt, generationPrompt } = await chatPrompt(model, '', { messages: JSON.stringify([user]) });
  for (const nothing of ['', null, []]) {
    for (const continuation of ['auto', 'content', 'reasoning_content'] as const) {
      const empty = await chatPrompt(model, '', { messages: JSON.stringify([user, { role: 'assistant', content: nothing }]), continuation });
      t.match(empty, { prompt, generationPrompt, continuation: false }, `${JSON.stringify(nothing)}, ${continuation}`);
    }
  }
});

t.test('white space that the grammar allows before the end of a call is parsed', async (t) => {
  for (const name of ['GLM-4.6', 'GLM-4.7-Flash', 'Spark2.5']) {
    const template = readFileSync(new URL(`../../../vendor/llama.cpp/models/templates/${name}.jinja`, import.meta.url), 'utf8');
    const gap = name === 'GLM-4.6' ? '\n' : '';
    for (const space of ['', ' ', '\n']) {
      const prompt = await chatPrompt(model, 'Go', { tools: weather, toolChoice: 'required', template, enableThinking: false });
      const parser = model.createParser(prompt, true);
      parser.parse(`${gap}<tool_call>get_weather${gap}<arg_key>city</arg_key>${gap}<arg_value>Paris</arg_value>${gap}${space}</tool_call>`, false);
      t.match(parser.message(), { toolCalls: [{ name: 'get_weather', arguments: '{"city":"Paris"}' }] }, `${name}, ${JSON.stringify(space)}`);
    }
  }
});

t.test('a tool call is parsed, streamed in parts, and never repeated', async (t) => {
  const prompt = await chatPrompt(model, 'Weather in Paris?', { tools: weather });
  t.ok(prompt.grammarLazy && prompt.grammar.length > 0, 'with tools the grammar waits for a trigger');
  const answer = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>';
  const parser = model.createParser(prompt, true);
  let text = '';
  let content = '';
  const call = { id: '', name: '', arguments: '' };
  for (let end = 1; end <= answer.length; end++) {
    const delta = parser.parse(answer.slice(0, end), end < answer.length);
    content += delta.content ?? '';
    for (const part of delta.toolCalls ?? []) {
      t.equal(part.index, 0);
      if (part.id) { t.equal(call.id, ''); call.id = part.id; call.name = part.name!; }
      call.arguments += part.arguments ?? '';
    }
    text = answer.slice(0, end);
  }
  t.equal(text, answer);
  t.equal(content.trim(), '');
  t.match(call.id, /^call_\w{24}$/);
  t.equal(call.name, 'get_weather');
  t.same(JSON.parse(call.arguments), { city: 'Paris' });
  t.same(parser.message().toolCalls, [call]);
});

t.test('toolChoice required makes a grammar that is not lazy', async (t) => {
  const prompt = await chatPrompt(model, 'Hi', { tools: weather, toolChoice: 'required' });
  t.equal(prompt.grammarLazy, false);
  t.ok(prompt.grammar.includes('get_weather'));
});

t.test('a schema becomes a grammar, and one that cannot is refused', async (t) => {
  const prompt = await chatPrompt(model, 'Hi', { jsonSchema: '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}' });
  t.ok(prompt.grammar.includes('age'));
  await t.rejects(chatPrompt(model, 'Hi', { jsonSchema: '{"type":"nonsense"}' }), { code: 'invalid_schema' });
  await t.rejects(addon.compileSchema('{"$ref":"#/missing"}'), { code: 'invalid_schema' });
  await t.rejects(addon.compileSchema('{'), { code: 'invalid_schema' });
  const chain = JSON.stringify({ $ref: '#/$defs/a0', $defs: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`a${i}`, { $ref: `#/$defs/a${i + 1}` }])) });
  await t.rejects(addon.compileSchema(chain), { code: 'invalid_schema' });
  await t.rejects(chatPrompt(model, 'Hi', { jsonSchema: chain }), { code: 'invalid_schema' });
});

t.test('messages that a template refuses are the caller’s error', async (t) => {
  await t.rejects(chatPrompt(model, '', { messages: '[{"role":"user"}' }), { code: 'invalid_messages' });
  await t.rejects(chatPrompt(model, 'x', { template: "{{ raise_exception('roles must alternate') }}" }), { code: 'invalid_messages', message: /roles must alternate/ });
  await t.rejects(chatPrompt(model, 'x', { template: '{% for %}' }), { code: 'chat_unsupported' });
});

t.test('every template of the vendored tree renders a conversation', async (t) => {
  const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
  const names = readdirSync(folder).filter((name) => name.endsWith('.jinja'));
  t.ok(names.length >= 50, `${names.length} templates`);
  for (const name of names) {
    const template = readFileSync(new URL(name, folder), 'utf8');
    const { prompt } = await chatPrompt(model, '', { template, messages: JSON.stringify([{ role: 'user', content: 'FIRST QUESTION' }, { role: 'assistant', content: 'FIRST ANSWER' }, { role: 'user', content: 'SECOND QUESTION' }]) });
    t.ok(prompt.includes('FIRST QUESTION') && prompt.includes('SECOND QUESTION'), name);
  }
});

t.test('an answer of endless brackets is refused, not parsed to the end of the stack', async (t) => {
  for (const [prompt, head] of [
    [await chatPrompt(model, 'Hi', { tools: weather }), '<tool_call>\n{"name": "get_weather", "arguments": {"city": '],
    [await chatPrompt(model, 'Hi', { jsonSchema: '{"type":"array"}' }), ''],
  ] as const) {
    // A bracket within a string closes nothing.
    for (const unit of ['[', '["]",']) {
      const parser = model.createParser(prompt, true);
      t.throws(() => parser.parse(head + unit.repeat(50_000), false), { code: 'generation_failed', message: /too many brackets/ }, head + unit);
      t.doesNotThrow(() => parser.parse(head + unit.repeat(50), true), head + unit);
    }
  }
});

t.test('a last message of endless brackets is not continued', async (t) => {
  const begun = (brackets: number) => chatPrompt(model, '', {
    messages: JSON.stringify([{ role: 'user', content: 'Hi' }, { role: 'assistant', content: `<tool_call>\n{"name": "get_weather", "arguments": {"city": ${'['.repeat(brackets)}` }]), tools: weather,
  });
  const endless = await begun(50_000);
  t.throws(() => model.createParser(endless, true), { code: 'invalid_messages', message: /last message cannot be continued \(too many brackets/ });
  const parser = model.createParser(await begun(50), true);
  t.throws(() => parser.parse('['.repeat(50_000), true), { code: 'generation_failed' });
  t.match(parser.parse('[', true), { toolCalls: [{ name: 'get_weather', arguments: /\[{51}$/ }] });
});
