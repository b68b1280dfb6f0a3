// The cache of chat template work must not show: many kinds of requests in sequence get what
// llama.cpp computes anew for each.
import { readFileSync, readdirSync } from 'node:fs';
import t from 'tap';
import type { ChatInput, ChatPrompt, NativeModel } from '#recua/addon/addon.js';
import { chatPrompt, loadBuiltin } from '../setup.js';

let model: NativeModel;
t.before(async () => { model = await loadBuiltin(); });
t.teardown(() => model.close());

const folder = new URL('../../../vendor/llama.cpp/models/templates/', import.meta.url);
const templates = readdirSync(folder).filter((name) => name.endsWith('.jinja'));
const tool = (name: string, properties: object) => ({ type: 'function', function: { name, description: `About ${name}`, parameters: { type: 'object', properties, required: Object.keys(properties) } } });
const weather = tool('get_weather', { city: { type: 'string' } });
const tools = JSON.stringify([weather, tool('count', { from: { type: 'integer' }, how: { enum: ['up', 'down'] } })]);
const jsonSchema = JSON.stringify({ type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] });

const kinds: Record<string, Partial<ChatInput>> = {
  plain: {},
  thoughtless: { enableThinking: false },
  tools: { tools },
  'other tools': { tools: JSON.stringify([weather]) },
  'tools, required': { tools, toolChoice: 'required' },
  'tools, none': { tools, toolChoice: 'none' },
  'tools, one call': { tools, parallelToolCalls: false },
  'tools, many calls': { tools, parallelToolCalls: true },
  schema: { jsonSchema },
  'other schema': { jsonSchema: '{"enum":["red","green"]}' },
  'schema and tools': { jsonSchema, tools },
  grammar: { grammar: 'root ::= "yes" | "no"' },
  'template arguments': { templateKwargs: { reasoning_effort: '"high"', some_flag: 'true' } },
  'no generation prompt': { addGenerationPrompt: false },
};

const asked = { role: 'user', content: 'What is the weather in Paris?' };
const called = { role: 'assistant', content: '', reasoning_content: 'I should look.', tool_calls: [{ id: 'call00001', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Paris"}' } }] };
const conversations = {
  short: [asked],
  system: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Something else' }],
  turns: [asked, { role: 'assistant', content: 'It rains.', reasoning_content: 'Clouds…' }, { role: 'user', content: [{ type: 'text', text: 'And' }, { type: 'text', text: 'tomorrow?' }] }],
  'with a call': [asked, called, { role: 'tool', tool_call_id: 'call00001', content: '{"rain":true}' }],
  'behind a call': [asked, called, { role: 'tool', tool_call_id: 'call00001', content: 'rain' }, { role: 'assistant', content: 'It rains.' }, { role: 'user', content: 'Thanks' }],
  continued: [asked, { role: 'assistant', content: 'It is' }],
  'developer’s': [{ role: 'developer', content: 'Be brief.' }, asked],
};

/** The result of a request, including errors, and the parser's result for some answers. */
async function outcome(template: string, messages: object[], kind: Partial<ChatInput>, remember: boolean) {
  let prompt: ChatPrompt;
  try {
    prompt = await model.applyChatTemplate({
      messages: JSON.stringify(messages), tools: '', toolChoice: 'auto', jsonSchema: '', grammar: '', addGenerationPrompt: true, enableThinking: true,
      templateKwargs: {}, template, ...kind, remember,
    });
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    return { code, message };
  }
  const { shape: _, ...rest } = prompt;
  const answers = ['Plain words', '{"age": 3}', '<think>\nwell\n</think>\n\nYes', '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}'];
  const parsed = answers.map((answer) => {
    try {
      const parser = model.createParser(prompt, true);
      parser.parse(answer, false);
      const { content, reasoning, toolCalls } = parser.message();
      return { content, reasoning, toolCalls: toolCalls.map((call) => ({ ...call, id: '' })) };
    } catch (error) {
      return (error as Error).message;
    }
  });
  return { ...rest, parsed };
}

for (const name of ['', ...templates]) {
  t.test(`${name || 'the built-in model’s template'} gives the same from the cache`, async (t) => {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    let rendered = 0;
    for (const [i, [kindName, kind]] of Object.entries(kinds).entries()) {
      for (const [j, [conversation, messages]] of Object.entries(conversations).entries()) {
        // Each kind with the first conversation, part of which is cached, and with one or two
        // others.
        if (j > 0 && (i + j) % 4 > 0) continue;
        const fresh = await outcome(template, messages, kind, false);
        if ('prompt' in fresh) rendered++;
        t.strictSame(await outcome(template, messages, kind, true), fresh, `${kindName}, ${conversation}`);
      }
    }
    t.ok(rendered > 10, `${rendered} of them are accepted`);
  });
}

t.test('more shapes than the cache keeps, and templates in turn, work', async (t) => {
  const ask = (i: number, remember: boolean) => outcome(i % 3 === 0 ? '' : readFileSync(new URL(templates[i % 7]!, folder), 'utf8'), [asked], { tools: JSON.stringify([tool(`f${i % 90}`, { x: { type: 'integer' } })]) }, remember);
  for (let i = 0; i < 200; i++) {
    const kept = await ask(i, true);
    if (i % 10 === 0) t.strictSame(kept, await ask(i, false), `${i}`);
  }
});

t.test('a schema that cannot be enforced is refused each time, whatever the template does with it', async (t) => {
  for (const name of ['', ...templates.filter((_, i) => i % 4 === 0)]) {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    for (const remember of [true, true]) {
      for (const more of [{}, { tools }]) t.match(await outcome(template, [asked], { jsonSchema: '{"type":"nonsense"}', ...more }, remember), { code: 'invalid_schema' }, name);
    }
  }
});

t.test('a schema is enforced or refused, never left out', async (t) => {
  let refused = 0;
  let own = 0;
  const schema = JSON.stringify({ type: 'object', properties: { quokka: { type: 'integer' } }, required: ['quokka'] });
  for (const name of ['', ...templates]) {
    const template = name && readFileSync(new URL(name, folder), 'utf8');
    for (const more of [{}, { tools }, { tools, toolChoice: 'none' as const }]) {
      const given = await chatPrompt(model, 'Hi', { template, jsonSchema: schema, ...more }).catch((error: Error & { code: string }) => error);
      if (given instanceof Error) {
        // Some templates take no tools, or none of this kind.
        if (given.code === 'invalid_messages') {
          await t.rejects(chatPrompt(model, 'Hi', { template, ...more }), { code: 'invalid_messages' }, name);
          continue;
        }
        refused++;
        t.match(given, { code: 'invalid_schema', message: /cannot be enforced/ }, name);
        continue;
      }
      t.notOk(given.grammarLazy, name);
      t.match(given.grammar, /quokka/, name);
      if (given.grammarKind !== 'user') continue;
      own++;
      const sampler = await model.createSampler({ temperature: 0, grammar: given.grammar, grammarKind: 'user', generationPrompt: given.generationPrompt }, new Int32Array());
      sampler.close();
      const parser = model.createParser(given, true);
      parser.parse('{"quokka": 3}', false);
      t.match(parser.message(), { content: '{"quokka": 3}', reasoning: '', toolCalls: [] }, name);
    }
  }
  t.ok(own > 5 && refused > 5 && refused < templates.length / 2, `${own} by the schema’s own grammar, ${refused} refused`);
});
