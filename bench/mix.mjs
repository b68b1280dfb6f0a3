// A mix of all kinds of load: chat, embeddings, one schema, new schemas, grammars, tools, cancels.

const clients = 6;

const user = (content) => [{ role: 'user', content }];
const schemaOf = (names) => ({
  type: 'json_schema',
  json_schema: { name: 'x', schema: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string', maxLength: 8 }])), required: names, additionalProperties: false } },
});
const toolOf = (name) => ({ type: 'function', function: { name, parameters: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } } });

/** By name: a route and a body, from the request's number. */
const kinds = {
  chat: (i) => ['chat/completions', { messages: user(`Tell me of the number ${i}. ${'It is a number. '.repeat(i % 20)}`), max_tokens: 24 }],
  embeddings: (i) => ['embeddings', { input: [`the number ${i}`, 'another'] }],
  'one schema': (i) => ['chat/completions', { messages: user(`${i}`), max_tokens: 24, response_format: schemaOf(['a', 'b']) }],
  'new schemas': (i) => ['chat/completions', { messages: user('x'), max_tokens: 24, response_format: schemaOf([`a${i}`, `b${i}`]) }],
  grammars: (i) => ['chat/completions', { messages: user('x'), max_tokens: 24, grammar: `root ::= ("a${i}" | "b") [a-z]{1,12}` }],
  tools: (i) => ['chat/completions', { messages: user('x'), max_tokens: 24, tools: [toolOf(`f${i % 200}`)], tool_choice: 'required' }],
  cancels: (i) => ['chat/completions', { messages: user(`${i}`), max_tokens: 500, stream: true }],
};

async function send(url, kind, i) {
  const [route, body] = kinds[kind](i);
  const abort = new AbortController();
  const request = fetch(`${url}/v1/${route}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ temperature: 0.8, ...body }), signal: abort.signal });
  const response = await request;
  if (!response.ok) throw new Error(await response.text());
  if (kind !== 'cancels') return await response.arrayBuffer();
  await response.body.getReader().read();
  abort.abort();
  return undefined;
}

/** Lets some clients send requests of these kinds in turn, for a given time. */
export async function mix(url, names, milliseconds, onFailure, onSent = () => {}) {
  let sent = 0;
  const end = performance.now() + milliseconds;
  const client = async () => {
    while (performance.now() < end) {
      onSent(sent + 1);
      await send(url, names[sent % names.length], sent++).catch(onFailure);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
}

export const mixKinds = Object.keys(kinds);
