// Constraints on an answer, under all names that clients use: the built-in model follows them, and
// an unsupported constraint is a 400 that names the field and the place.
import t from 'tap';
import { chatPath, startReal, user, type RealApp } from './real-app.js';

let app: RealApp;
t.before(async () => { app = await startReal(t); });

const messages = user('Tell me a story about a fox.');
const contentOf = (reply: any): string => reply.choices[0].message?.content ?? reply.choices[0].text;

t.test('a regular expression and a choice hold in chats and completions', async (t) => {
  const kinds: [object, RegExp][] = [
    [{ regex: '[a-c]{3}-\\d{2}' }, /^[a-c]{3}-\d{2}$/],
    [{ choice: ['red', 'green "x"'] }, /^(red|green "x")$/],
    [{ guided_regex: '(foo|bar){2}' }, /^(foo|bar){2}$/],
    [{ guided_choice: ['one', 'two'] }, /^(one|two)$/],
    [{ guided_json: { enum: [1, 2] } }, /^[12]$/],
    [{ guided_json: '{"enum":["x"]}' }, /^"x"$/],
    [{ guided_grammar: 'root ::= "y"{4}' }, /^yyyy$/],
    [{ guided_grammar: 'start: "z"~3' }, /^zzz$/],
    [{ structured_outputs: { regex: 'q{5}' } }, /^qqqqq$/],
    [{ structured_outputs: { choice: ['a'] } }, /^a$/],
    [{ structured_outputs: { json: { const: null } } }, /^null$/],
    [{ structured_outputs: { grammar: 'root ::= "g"' } }, /^g$/],
    [{ structured_outputs: { json_object: true } }, /^\{/],
    [{ response_format: { type: 'json_schema', schema: { enum: [7] } } }, /^7$/],
    [{ response_format: { type: 'grammar', grammar: 'root ::= "k"' } }, /^k$/],
    [{ response_format: { type: 'regex', pattern: 'p{2}' } }, /^pp$/],
    [{ response_format: { type: 'json_object', schema: { enum: [8] } } }, /^8$/],
  ];
  for (const [kind, expected] of kinds) {
    t.match(contentOf(await app.ask(chatPath, { messages, max_tokens: 60, ...kind })), expected, JSON.stringify(kind));
    t.match(contentOf(await app.ask('/v1/completions', { prompt: 'Once', max_tokens: 60, ...kind })), expected, `${JSON.stringify(kind)}, a completion`);
  }
});

t.test('a schema may be true or empty: any JSON', async (t) => {
  for (const schema of [true, {}]) {
    for (const kind of [{ json_schema: schema }, { response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } } }]) {
      const { choices: [{ message, finish_reason: reason }] } = await app.ask(chatPath, { messages, max_tokens: 30, ...kind });
      if (reason === 'stop') t.doesNotThrow(() => JSON.parse(message.content), message.content);
      else t.match(message.content, /^["[{\-0-9tfn]/);
    }
  }
  t.match(await app.refused(chatPath, { messages, json_schema: false }), { status: 400, error: { code: 'invalid_schema' } });
  const { output } = await app.ask('/v1/responses', { input: 'Go', max_output_tokens: 30, text: { format: { type: 'json_schema', name: 'x', schema: true } } });
  t.match(output[0].content[0].text, /^["[{\-0-9tfn]/);
});

t.test('Responses take the same formats', async (t) => {
  const formats: [object, RegExp][] = [
    [{ type: 'regex', pattern: '[xy]{3}' }, /^[xy]{3}$/], [{ type: 'grammar', grammar: 'start: "a" "b"' }, /^ab$/],
    [{ type: 'choice', choice: ['left'] }, /^left$/], [{ type: 'json_schema', name: 'x', schema: { enum: [5] } }, /^5$/],
  ];
  for (const [format, expected] of formats) {
    const { output } = await app.ask('/v1/responses', { input: 'Go', text: { format } });
    t.match(output[0].content[0].text, expected, JSON.stringify(format));
  }
});

t.test('an unsupported constraint is a 400 that names the field', async (t) => {
  const refused: [object, string, string][] = [
    [{ regex: '(?=a)' }, 'regex', 'invalid_grammar'], [{ regex: 5 }, 'regex', 'invalid_type'], [{ regex: 'a'.repeat(70_000) }, 'regex', 'invalid_value'],
    [{ choice: [] }, 'choice', 'invalid_value'], [{ choice: [5] }, 'choice[0]', 'invalid_type'], [{ choice: 'x' }, 'choice', 'invalid_type'],
    [{ structured_outputs: { regex: '(' } }, 'structured_outputs.regex', 'invalid_grammar'], [{ structured_outputs: [] }, 'structured_outputs', 'invalid_type'],
    [{ guided_json: 'no' }, 'guided_json', 'invalid_value'], [{ guided_grammar: 'root ::= (' }, 'guided_grammar', 'invalid_grammar'],
    [{ guided_grammar: 'x: "a"' }, 'guided_grammar', 'invalid_grammar'], [{ regex: 'a', choice: ['a'] }, 'regex', 'invalid_value'],
    [{ regex: 'a', response_format: { type: 'json_object' } }, 'response_format', 'invalid_value'], [{ json_schema: 5 }, 'json_schema', 'invalid_type'],
    [{ regex: 'a', tools: [{ type: 'function', function: { name: 'f' } }] }, 'regex', 'invalid_value'],
    [{ response_format: { type: 'json_schema', json_schema: {} } }, 'response_format.json_schema.schema', 'invalid_type'],
  ];
  for (const [kind, param, code] of refused) {
    t.match(
      await app.refused(chatPath, { messages, ...kind }),
      { status: 400, error: { param, code } },
      JSON.stringify(kind).slice(0, 100),
    );
  }
});

t.test('thoughts that the prompt begins come before the constrained text', async (t) => {
  const thinking = await startReal(t, 'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja');
  const { choices: [{ message }] } = await thinking.ask(chatPath, { messages, choice: ['yes', 'no'], max_tokens: 400, thinking_budget_tokens: 10 });
  t.match(message, { content: /^(yes|no)$/, reasoning_content: /./ });
});
