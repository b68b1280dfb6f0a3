// JSON schemas over HTTP, in every place a request may have them: hostile ones get an answer while
// plain chats continue, and unenforced keywords are refused or reported.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { createServer, loadModel } from 'recua';
import { hostileSchemas } from '../native/hostile-schemas.js';

interface Reply {
  status: number;
  body: {
    choices: { message: { content: string } }[];
    warnings?: string[];
    error: { code: string; param: string | null; message: string };
  };
}

async function serve(t: Test) {
  const model = await loadModel('builtin', { isolated: true });
  const crashes: string[] = [];
  model.on('crashed', ({ message }) => crashes.push(message));
  const server = createServer(model).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await model.dispose();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;
  /** Fields are JSON texts, so that numbers stay as written. */
  const ask = async (fields: Record<string, string> = {}): Promise<Reply> => {
    const all = { messages: '[{"role":"user","content":"Hello!"}]', temperature: '0', max_tokens: '4', ...fields };
    const body = `{${Object.entries(all).map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { status: response.status, body: await response.json() as Reply['body'] };
  };
  return { ask, crashes };
}

const textOf = (schema: unknown): string => (typeof schema === 'string' ? schema : JSON.stringify(schema));
const toolOf = (schema: string, more = ''): string => `[{"type":"function","function":{"name":"f","parameters":${schema}${more}}}]`;
const formatOf = (schema: string, more = ''): string => `{"type":"json_schema","json_schema":{"name":"s","schema":${schema}${more}}}`;

t.test('hostile schemas each get an answer, and plain chats get theirs', async (t) => {
  const { ask, crashes } = await serve(t);
  const plain = (await ask()).body.choices[0]!.message.content;
  for (const [name, schema] of Object.entries(hostileSchemas)) {
    const text = textOf(schema);
    const places = {
      'response_format.json_schema.schema': { response_format: formatOf(text) },
      'tools[0].function.parameters': { tools: toolOf(text), tool_choice: '"required"' },
    };
    const [beside, ...replies] = await Promise.all([ask(), ...Object.values(places).map(ask)]);
    t.equal(beside.body.choices[0]!.message.content, plain, `a plain chat beside ${name}`);
    for (const [i, { status, body }] of replies.entries()) {
      if (status === 200) t.pass(`${name} is enforced`);
      else t.match({ status, error: body.error }, { status: 400, error: { code: /^invalid_(schema|json)$/, message: /./ } }, name);
      if (status !== 200 && body.error.code === 'invalid_schema') t.ok(Object.keys(places)[i]!.startsWith(body.error.param ?? '?'), `${name}: ${body.error.param}`);
    }
  }
  const names = await ask({ chat_template_kwargs: JSON.stringify(Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`n${i}`, i]))) });
  t.match(names, { status: 400, body: { error: { code: 'invalid_value', param: 'chat_template_kwargs' } } });
  t.equal((await ask()).body.choices[0]!.message.content, plain);
  t.same(crashes, []);
});

t.test('an unenforced keyword is a 400 if the schema is strict, else a warning', async (t) => {
  const { ask } = await serve(t);
  const weak = '{"type":"object","properties":{"list":{"type":"array","items":{"type":"null"},"uniqueItems":true}},"required":["list"]}';
  for (const strict of ['', ',"strict":false']) {
    t.match(await ask({ response_format: formatOf(weak, strict) }), { status: 200, body: { warnings: [/JSON schema: #\/properties\/list\/uniqueItems/] } });
    t.match(await ask({ tools: toolOf(weak, strict), tool_choice: '"required"' }), { status: 200, body: { warnings: [/tool "f": #\/properties\/list\/uniqueItems/] } });
  }
  t.match(await ask({ json_schema: weak }), { status: 200, body: { warnings: [/uniqueItems/] } });
  t.match(await ask({ response_format: formatOf(weak, ',"strict":true') }),
    { status: 400, body: { error: { code: 'invalid_schema', param: 'response_format.json_schema.schema', message: /#\/properties\/list\/uniqueItems .*"strict": false/ } } });
  t.match(await ask({ tools: toolOf(weak, ',"strict":true') }),
    { status: 400, body: { error: { code: 'invalid_schema', param: 'tools[0].function.parameters', message: /tool "f".*uniqueItems/ } } });
  const strong = formatOf('{"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":3},"c":{"type":"string","pattern":"^\\\\d{3}$"}},"required":["n","c"]}', ',"strict":true');
  const { status, body } = await ask({ response_format: strong, max_tokens: '60' });
  t.equal(status, 200);
  t.match(JSON.parse(body.choices[0]!.message.content), { n: 3, c: /^\d{3}$/ });
  t.equal(body.warnings, undefined);
});

t.test('integers keep to bounds over all of int64', async (t) => {
  const { ask } = await serve(t);
  const bounded = (min: string, max: string) => ask({ response_format: formatOf(`{"type":"integer","minimum":${min},"maximum":${max}}`, ',"strict":true'), max_tokens: '40' });
  for (const [min, max] of [['-9223372036854775808', '9223372036854775807'], ['9223372036854774784', '9223372036854775807'], ['-9223372036854775808', '-9223372036854774784'], ['4611686018427387904', '4611686018427387904']] as const) {
    const { status, body } = await bounded(min, max);
    t.equal(status, 200, `${min} to ${max}`);
    const value = BigInt(body.choices[0]!.message.content);
    t.ok(BigInt(min) <= value && value <= BigInt(max), `${value} is from ${min} to ${max}`);
  }
});
