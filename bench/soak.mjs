// `npm run bench -- --soak MINUTES [--model FILE|nano|135m]`: one server lives through a mix of all
// kinds of load (chat, embeddings, one schema, new schemas, grammars, tools, cancels) and prints
// each minute what its processes hold of their own. What is held should level off. Linux only.
import { readFileSync } from 'node:fs';
import { processTree } from './resources.mjs';
import { withServer } from './servers.mjs';

const clients = 6;

const user = (content) => [{ role: 'user', content }];
const schemaOf = (names) => ({
  type: 'json_schema',
  json_schema: { name: 'x', schema: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string', maxLength: 8 }])), required: names, additionalProperties: false } },
});
const toolOf = (name) => ({ type: 'function', function: { name, parameters: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } } });

/** By name: a route and a body, from the number of the request. */
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

/** Some clients send requests of these kinds, in turn, for so long. */
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

/** RssAnon of each process: what is mapped from files comes and goes as the kernel likes. MiB. */
function ownMib(pid) {
  return processTree(pid).map((one) => {
    try {
      return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${one}/status`, 'utf8'))?.[1] ?? 0) / 1024;
    } catch {
      return 0;
    }
  });
}

/** @param {{ model: string, threads: number, minutes: number, only?: string[] }} settings */
export async function soak({ model, threads, minutes, only = [] }) {
  const names = only.length > 0 ? only : Object.keys(kinds);
  await withServer('recua', { model, threads, parallel: 4, context: 1024, flags: ['--cache-ram', 0] }, async ({ url, pid }) => {
    let sent = 0;
    const failures = [];
    const all = mix(url, names, minutes * 60_000, (error) => failures.push(error.message), (count) => { sent = count; });
    console.log('minute   requests   gateway MiB   engine MiB   grown MiB');
    let before = 0;
    const print = (minute) => {
      const [gateway = 0, ...rest] = ownMib(pid);
      const engine = rest.reduce((sum, one) => sum + one, 0);
      const total = gateway + engine;
      console.log(`${minute.toFixed(1).padStart(6)}${String(sent).padStart(11)}${gateway.toFixed(1).padStart(14)}${engine.toFixed(1).padStart(13)}${(before ? total - before : 0).toFixed(1).padStart(12)}`);
      before = total;
    };
    let minute = 0;
    print(minute);
    const timer = setInterval(() => print(++minute), 60_000);
    await all;
    clearInterval(timer);
    print(minutes);
    if (failures.length > 0) console.log(`${failures.length} requests failed, the last: ${failures.at(-1)}`);
  });
}

export const soakKinds = Object.keys(kinds);
