// Requests of all kinds of clients to a live server, and the expected answers. Deterministic
// answers are compared with those to the same question without other load.
import { setTimeout as wait } from 'node:timers/promises';

const questions = Array.from({ length: 24 }, (_, i) => `Tell me about number ${i * 7919}. ${'The llamas walk on. '.repeat((i * 5) % 17)}`);
const maxTokens = 24;
const messages = (content: string): object[] => [{ role: 'user', content }];
const greedy = (i: number, more: object = {}): object => ({
  messages: messages(questions[i % questions.length]!),
  temperature: 0,
  max_tokens: maxTokens,
  ...more,
});
const schemaOf = (names: string[]): object => ({
  type: 'json_schema',
  json_schema: { name: 'x', schema: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string', maxLength: 8 }])), required: names, additionalProperties: false } },
});
const toolOf = (name: string): object => ({ type: 'function', function: { name, parameters: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } } });

/** A wrong answer to a client. */
export class Wrong extends Error {}

async function send(url: string, path: string, body: object | undefined, signal?: AbortSignal, method = 'POST'): Promise<Response> {
  const response = await fetch(url + path, { method, headers: { 'content-type': 'application/json' }, ...(body ? { body: JSON.stringify(body) } : {}), ...(signal ? { signal } : {}) });
  if (!response.ok) throw new Wrong(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

const json = async (response: Response): Promise<any> => await response.json();
const chat = '/v1/chat/completions';

/** The text of a stream that is read at this pace. */
async function streamed(url: string, body: object, pauseMs: number): Promise<string> {
  const response = await send(url, chat, { ...body, stream: true });
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true });
    if (pauseMs > 0) await wait(pauseMs);
  }
  if (!text.endsWith('data: [DONE]\n\n')) throw new Wrong(`a stream broke off: ${text.slice(-200)}`);
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, event]) => (JSON.parse(event!) as { choices: { delta?: { content?: string } }[] }).choices[0]?.delta?.content ?? '').join('');
}

function expect(what: string, got: unknown, wanted: unknown): void {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Wrong(`${what}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`);
}

/** Answers of a server without other load. */
export async function soloAnswers(url: string): Promise<string[]> {
  const answers = [];
  for (let i = 0; i < questions.length; i++)
    answers.push((await json(await send(url, chat, greedy(i)))).choices[0].message.content as string);
  return answers;
}

/** By name: what a client does as its request number `i`. */
export const kinds: Record<string, (url: string, i: number, solo: readonly string[]) => Promise<void>> = {
  chat: async (url, i, solo) => expect('a chat', (await json(await send(url, chat, greedy(i)))).choices[0].message.content, solo[i % solo.length]),
  stream: async (url, i, solo) => expect('a stream', await streamed(url, greedy(i), 0), solo[i % solo.length]),
  'slow reader': async (url, i, solo) => expect('a slow stream', await streamed(url, greedy(i), 40), solo[i % solo.length]),
  messages: async (url, i, solo) => expect('a message', (await json(await send(url, '/v1/messages', greedy(i)))).content[0].text, solo[i % solo.length]),
  ollama: async (url, i, solo) => {
    const { messages: said } = greedy(i) as { messages: object[] };
    expect('an Ollama chat', (await json(await send(url, '/api/chat', { model: 'builtin', messages: said, stream: false, options: { temperature: 0, num_predict: maxTokens } }))).message.content, solo[i % solo.length]);
  },
  responses: async (url, i, solo) => {
    const { id, output } = await json(await send(url, '/v1/responses', { input: questions[i % questions.length], temperature: 0, max_output_tokens: maxTokens }));
    expect('a response', output.at(-1).content[0].text, solo[i % solo.length]);
    await (await send(url, `/v1/responses/${id}`, undefined, undefined, 'DELETE')).text();
  },
  leaves: async (url, i) => {
    const controller = new AbortController();
    const response = await send(url, chat, { ...greedy(i), max_tokens: 500, ignore_eos: true, stream: true }, controller.signal);
    await response.body!.getReader().read();
    controller.abort();
  },
  'new prompt': async (url, i) => void await (await send(url, chat, { messages: messages(`Only once: ${i}. ${'It is long. '.repeat(i % 60)}`), max_tokens: 8 })).text(),
  embeddings: async (url, i) => {
    const { data } = await json(await send(url, '/v1/embeddings', { input: [`the number ${i}`, 'another', `the number ${i}`] }));
    const [one, , same] = data.map(({ embedding }: { embedding: number[] }) => embedding) as [number[], number[], number[]];
    const product = one.reduce((sum, value, at) => sum + value * same[at]!, 0);
    if (!(product > 0.9999)) throw new Wrong(`the vectors of one text differ: ${product}`);
  },
  schema: async (url, i) => {
    const names = i % 2 === 0 ? ['a', 'b'] : [`a${i}`, `b${i}`];
    const { content } = (await json(await send(url, chat, { messages: messages(`${i}`), max_tokens: 200, response_format: schemaOf(names) }))).choices[0].message;
    expect('the keys of a schema', Object.keys(JSON.parse(content as string) as object), names);
  },
  grammar: async (url, i) => {
    const { content } = (await json(await send(url, chat, { messages: messages('x'), max_tokens: 24, grammar: `root ::= ("a${i}" | "b") [a-z]{1,3}` }))).choices[0].message;
    if (!new RegExp(`^(a${i}|b)[a-z]{1,3}$`).test(content as string)) throw new Wrong(`a grammar's text is ${content}`);
  },
  tools: async (url, i) => {
    const { message } = (await json(await send(url, chat, { messages: messages('x'), max_tokens: 60, tools: [toolOf(`f${i % 200}`)], tool_choice: 'required' }))).choices[0];
    expect('a required tool', message.tool_calls?.[0].function.name, `f${i % 200}`);
  },
  refused: async (url) => {
    const response = await fetch(url + chat, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"messages":[],' });
    expect('a body that breaks off', response.status, 400);
    await response.text();
  },
};
