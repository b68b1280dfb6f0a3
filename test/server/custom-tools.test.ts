// Custom tools: the built-in model, which knows nothing of patches, can only call them with input
// in their format. Chats and Responses have their own fields for them; whole and streamed answers
// agree.
import OpenAI from 'openai';
import t from 'tap';
import { customInput, CustomInput } from '#recua/server/exchange/custom-input.js';
import { applyPatch, patch } from '../request/grammar/apply-patch.js';
import { post, startApp } from './app-under-test.js';
import { chatPath, startReal, user, type RealApp } from './real-app.js';

let app: RealApp;
t.before(async () => { app = await startReal(t); });

const messages = user('Add a file that says hello.');
const isPatch = /^\*\*\* Begin Patch\n(\*\*\* (Add|Delete|Update) File: .+\n([-+ @].*\n|\*\*\* Move to: .+\n|\*\*\* End of File\n)*)+\*\*\* End Patch\n?$/;
const lark = { type: 'grammar', syntax: 'lark', definition: applyPatch };
const responseTool = { type: 'custom', name: 'apply_patch', description: 'Change files.', format: lark };
const regexTool = { type: 'custom', custom: { name: 'dial', format: { type: 'grammar', grammar: { syntax: 'regex', definition: '\\+\\d{2} "\\d{3}"\\n' } } } };
const plainTool = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } };
/** Short lines: the built-in model would never stop. */
const short = { max_tokens: 700, temperature: 1, seed: 3 };

t.test('the formats of all tools share the limits of one grammar', async (t) => {
  const { url } = await startApp(t);
  const tools = (count: number, definition: string): object[] => Array.from({ length: count }, (_, i) => ({ type: 'custom', custom: { name: `t${i}`, format: { type: 'grammar', grammar: { syntax: 'regex', definition } } } }));
  const ask = (given: object[]): Promise<Response> => post(`${url}/v1/chat/completions`, { messages: [{ role: 'user', content: 'Hi' }], tools: given });
  t.equal((await ask(tools(20, '[a-z]+ [0-9]{1,3}'))).status, 200);
  for (const given of [tools(200, '\\p{L}'.repeat(20)), ['Greek', 'Latin', 'Thai'].flatMap(() => tools(16, `(?i)${'[a-c]'.repeat(12_000)}`))]) {
    const refused = await ask(given);
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { code: 'invalid_grammar' } });
  }
});

t.test('a chat is answered by a custom call whose input follows its regular expression, streamed as well', async (t) => {
  const body = { messages, tools: [regexTool, plainTool], tool_choice: { type: 'custom', custom: { name: 'dial' } }, ...short };
  const { choices: [{ message, finish_reason: reason }] } = await app.ask(chatPath, body);
  t.equal(reason, 'tool_calls');
  t.match(message, { content: null, tool_calls: [{ id: /./, type: 'custom', custom: { name: 'dial', input: /^\+\d{2} "\d{3}"\n$/ } }] });
  const chunks = await app.stream(chatPath, body);
  const deltas = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  t.match(deltas[0], { index: 0, id: /./, type: 'custom', custom: { name: 'dial' } });
  t.equal(deltas.map(({ custom }) => custom.input).join(''), message.tool_calls[0].custom.input);
  t.equal(deltas.filter(({ custom }) => custom.name !== undefined).length, 1, 'the name comes once');
});

t.test('Codex’s grammar holds in Responses, whole and as events', async (t) => {
  const body = { input: 'Add a file.', tools: [responseTool], tool_choice: 'required', max_output_tokens: 160, temperature: 1.2, seed: 11 };
  const response = await app.ask('/v1/responses', body);
  const [call] = response.output;
  t.match(call, { type: 'custom_tool_call', name: 'apply_patch', call_id: /./ });
  if (response.status === 'completed') t.match(call.input, isPatch);
  else t.match(call.input, /^\*\*\* Begin Patch\n\*\*\* (Add|Delete|Update) File: ./, 'cut off, it is what there is');
  const events = await app.stream('/v1/responses', body);
  const input = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta').map(({ delta }) => delta);
  t.equal(input.join(''), call.input);
  t.ok(input.length > 1, `the input is told as it comes: ${JSON.stringify(input)}`);
  t.match(events.find(({ type }) => type === 'response.custom_tool_call_input.done'), { input: call.input });
  t.match(events.find(({ type }) => type === 'response.output_item.done'), { item: { type: 'custom_tool_call', input: call.input } });
});

t.test('OpenAI’s client accepts the calls, and sends them back', async (t) => {
  const client = new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const ask = { model: 'default', messages: messages as any, tools: [regexTool] as any, tool_choice: 'required' as const, ...short };
  const first = await client.chat.completions.create(ask);
  const message = first.choices[0]!.message;
  t.match(message.tool_calls, [{ type: 'custom' }]);
  const second = await client.chat.completions.create({
    ...ask, tool_choice: 'none', max_tokens: 5, messages: [...ask.messages, message, { role: 'tool', tool_call_id: message.tool_calls![0]!.id, content: 'Done' }],
  });
  t.equal(second.choices.length, 1);
});

t.test('tools without a format take any text; wrong ones are refused with their field', async (t) => {
  const free = { type: 'custom', custom: { name: 'note', format: { type: 'text' } } };
  const { choices: [{ message }] } = await app.ask(chatPath, { messages, tools: [free], tool_choice: 'required', max_tokens: 60 });
  t.match(message.tool_calls, [{ type: 'custom', custom: { name: 'note', input: /./ } }]);
  const custom = (format: unknown) => ({ messages, tools: [{ type: 'custom', custom: { name: 'x', format } }] });
  const refused: [object, string, string][] = [
    [custom({ type: 'grammar', grammar: { syntax: 'lark', definition: 'start: y' } }), 'tools[0].custom.format.grammar.definition', 'invalid_grammar'],
    [custom({ type: 'grammar', grammar: { syntax: 'regex', definition: 'a\\1' } }), 'tools[0].custom.format.grammar.definition', 'invalid_grammar'],
    [custom({ type: 'grammar', grammar: { syntax: 'bnf', definition: 'x' } }), 'tools[0].custom.format.grammar.syntax', 'invalid_value'],
    [custom({ type: 'grammar' }), 'tools[0].custom.format.syntax', 'invalid_type'],
    [custom({ type: 'grammar', grammar: { syntax: 'lark' } }), 'tools[0].custom.format.grammar.definition', 'invalid_type'],
    [custom({ type: 'picture' }), 'tools[0].custom.format.type', 'invalid_value'],
    [custom({ type: 'grammar', grammar: { syntax: 'regex', definition: 'x'.repeat(10_000_000) } }), 'tools[0].custom.format.grammar.definition', 'invalid_value'],
    [{ messages, tools: [{ type: 'custom', custom: {} }] }, 'tools[0].custom.name', 'invalid_type'],
    [custom({ type: 'grammar', grammar: { syntax: 'lark', definition: 'start: a\na: b "x"\nb: a "y" | "z"' } }), 'tools[0].custom.format.grammar.definition', 'invalid_grammar'],
  ];
  for (const [body, param, code] of refused)
    t.match(await app.refused(chatPath, body), { status: 400, error: { param, code } }, JSON.stringify(body).slice(0, 160));
});

t.test('the text of the input is read out of JSON however it is cut into pieces', async (t) => {
  const said = `${patch}"\\ é 😀 \u0001\ttab`;
  const json = JSON.stringify({ input: said });
  const escaped = `{ "input" : "${[...said].map((c) => [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')).join('')}"}`;
  for (const text of [json, escaped]) {
    t.equal(customInput(text), said);
    for (const size of [1, 2, 3, 7]) {
      const reader = new CustomInput();
      let all = '';
      for (let at = 0; at < text.length; at += size) all += reader.add(text.slice(at, at + size));
      t.equal(all, said, `${size} at a time`);
    }
    for (let cut = 0; cut < text.length; cut++) t.ok(said.startsWith(customInput(text.slice(0, cut))), `cut at ${cut}`);
  }
  t.equal(customInput('{"input":"\\ud83dab"}'), '\ud83dab', 'half a pair alone');
  for (const foreign of ['{"other":"x"}', 'plain', '[1]', '{"input":5}']) t.equal(customInput(foreign), foreign);
});
