// Tools whose parameters have several types or none, as agents declare them, and lists and objects
// in calls: every vendored template prints them, except where Jinja2 itself could not.
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { chatInput, templateFiles, templateOf, vocabulary } from './exact-history.js';

let model: NativeModel;
t.before(async () => { model = await vocabulary('qwen2'); });
t.teardown(() => model.close());

const object = (property: object, more: object = {}) => ({ type: 'object', properties: { value: property }, required: ['value'], ...more });
const parameters: Record<string, object> = {
  'a type or null': object({ type: ['string', 'null'], description: 'May be null.' }, { additionalProperties: false }),
  'a nested type or null': object(object({ type: ['number', 'null'] })),
  'no type': object({ description: 'Anything.' }),
  'alternatives': object({ anyOf: [{ type: 'string' }, { type: 'null' }] }),
  'a reference': object({ $ref: '#/$defs/A' }, { $defs: { A: object({ type: 'integer' }) } }),
  'values without a type': object({ enum: ['a', 1, null] }),
  'a constant': object({ const: 1 }),
  'a list of anything': object({ type: 'array' }),
  'a list of several types': object({ type: 'array', items: { type: ['string', 'integer'] } }),
  'one of several': object({ oneOf: [{ type: 'string' }, { type: 'null' }] }),
  'a list of texts': object({ type: 'array', items: { type: 'string' }, description: 'Several.' }),
  'nothing': { type: 'object' },
};
/** They look up the type in a table, where a list is no key. */
const needOneType = /^(NousResearch-Hermes-[23]|CohereForAI-c4ai-command-r-plus).*-tool_use\.jinja$/;

async function promptOf(template: string, schema: object): Promise<string> {
  const tools = JSON.stringify([object({ type: 'string' }), schema].map((parameters, at) => ({ type: 'function', function: { name: `tool${at}`, description: 'Finds.', parameters } })));
  return (await model.applyChatTemplate(chatInput([{ role: 'user', content: 'Hi' }], template, 'tool', { tools }))).prompt;
}

t.test('every vendored template prints tools of every kind of type', async (t) => {
  let printed = 0;
  for (const file of templateFiles) {
    for (const [name, schema] of Object.entries(parameters)) {
      const failure = await promptOf(templateOf(file), schema).then(() => { printed++; }, (error: object) => error);
      if (name === 'a type or null' && needOneType.test(file)) t.match(failure, { code: 'invalid_schema', index: 1, message: /^The JSON schema is not one that the chat template can print \(/ }, `${file}, ${name}`);
      else t.equal(failure, undefined, `${file}, ${name}`);
    }
  }
  t.ok(printed > 500, `${printed} prompts`);
});

t.test('what templates do with types is what Jinja2 does', async (t) => {
  const schema = object({ type: ['string', 'null'] }, { properties: { many: { type: ['string', 'null'] }, none: {}, all: { type: 'array' } } });
  const print = async (expression: string) => {
    const source = `{%- for tool in tools[1:] %}{% set p = tool.function.parameters.properties %}[{{ ${expression} }}]{% endfor %}{%- for m in messages %}{{ m.content }}{% endfor %}`;
    return /\[(.*)\]/.exec(await promptOf(source, schema))?.[1];
  };
  // Each value is what Python's jinja2 prints.
  t.equal(await print('p.many.type in ["string", "integer"]'), 'False');
  t.equal(await print('p.many.type not in [["string", "null"], "integer"]'), 'False');
  t.equal(await print('p.none.type in ("string", "integer")'), 'False');
  t.equal(await print('p.none.type not in ["string"]'), 'True');
  t.equal(await print('p.many.type | map("upper") | join(",")'), 'STRING,NULL');
  t.equal(await print('p.many.type | map("replace", "l", "L") | join(",")'), 'string,nuLL');
  t.equal(await print('[" a ", "b "] | map("trim") | join(",")'), 'a,b');
  t.equal(await print('(p.many.type + ["x"]) | join(",")'), 'string,null,x');
  t.equal(await print('p.many.type'), "['string', 'null']");
  t.equal(await print('p.all'), "{'type': 'array'}");
  t.equal(await print('[p.none, p.all] | selectattr("type", "defined") | list'), "[{'type': 'array'}]");
  t.equal(await print('[p.none, p.all] | rejectattr("type", "defined") | list'), '[{}]');
  t.equal(await print('["A", "a", "b"] | unique | join(",")'), 'A,b');
  // There Jinja2 finds a method, in which it finds no type.
  t.equal(await print('p.all["items"]["type"] or "any"'), 'any');
  t.equal(await print('p.all.items.type or "any"'), 'any');
  await t.rejects(print('p.many.type | map("nosuch") | join(",")'), { message: /Unknown filter 'nosuch' for type String/ });
});

t.test('a list or an object in an earlier call is printed', async (t) => {
  const call = { id: 'abcdefghi', type: 'function', function: { name: 'look', arguments: '{"files": ["a", "b"], "how": {"deep": true}}' } };
  const messages = [{ role: 'user', content: 'Hi' }, { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', tool_call_id: 'abcdefghi', content: 'Done.' }];
  const { prompt } = await model.applyChatTemplate(chatInput(messages, templateOf('openbmb-MiniCPM5-1B.jinja'), 'tool'));
  t.match(prompt, `<param name="files">['a', 'b']</param><param name="how">{'deep': True}</param>`);
});

t.test('strings in a list of an earlier call are quoted as Python quotes them', async (t) => {
  const files = ['C:\\new', 'a\nb\tc', 'it\'s', 'it\'s "x"', '"x"', '\u0001é'];
  const call = { id: 'abcdefghi', type: 'function', function: { name: 'look', arguments: JSON.stringify({ files }) } };
  const messages = [{ role: 'user', content: 'Hi' }, { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', tool_call_id: 'abcdefghi', content: 'Done.' }];
  const { prompt } = await model.applyChatTemplate(chatInput(messages, templateOf('openbmb-MiniCPM5-1B.jinja'), 'tool'));
  t.match(prompt, String.raw`['C:\\new', 'a\nb\tc', "it's", 'it\'s "x"', '"x"', '\x01é']`);
});

t.test('numbers of an earlier call keep their digits', async (t) => {
  const call = { id: 'abcdefghi', type: 'function', function: { name: 'look', arguments: '{"a":1234567.89,"b":1.2e-7,"c":2.0,"d":12345678901234567890}' } };
  const messages = [{ role: 'user', content: 'Hi' }, { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', tool_call_id: 'abcdefghi', content: 'Done.' }];
  // The last is an integer that is too large; it becomes the nearest number.
  const numbers = ['1234567.89', '1.2e-07', '2.0', '1.2345678901234567e+19'];
  for (const expression of ['value', 'value | tojson', 'value | string', 'value | trim', 'value ~ ""', '[value] | join', '[value] | first', '([value] | string)[1:-1]']) {
    const source = `{%- for m in messages %}{{ m.content }}{% for call in m.tool_calls %}{% for name, value in call.function.arguments.items() %}<{{ ${expression} }}>{% endfor %}{% endfor %}{% endfor %}{{ tools | tojson }}`;
    const { prompt } = await model.applyChatTemplate(chatInput(messages, source, 'tool'));
    t.same(Array.from(prompt.matchAll(/<(.*?)>/g), ([, number]) => number), numbers, expression);
  }
});

t.test('numbers of a tool keep their digits', async (t) => {
  const schema = object({ type: 'number', minimum: -179.999999, maximum: 1234567.25, default: 52.520007 });
  t.match(await promptOf(templateOf('Qwen-Qwen3-0.6B.jinja'), schema), '"minimum": -179.999999, "maximum": 1234567.25, "default": 52.520007');
});
