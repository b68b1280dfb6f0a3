// `n` answers to a prompt, for POST /v1/chat/completions and /v1/completions, over the fake engine.
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { Answer } from '#recua/engine/api.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { RecuaError } from '#recua/errors.js';
import { builtinPath } from '#recua/models/store.js';
import { options } from '../../engine/requests.js';
import { events, hello, post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { deferred } from '../../deferred.js';

interface Chunk {
  choices: { index: number; delta?: { role?: string; content?: string }; text?: string; finish_reason: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number };
}

async function start(t: Test): Promise<{ client: OpenAI; app: AppUnderTest }> {
  const app = await startApp(t);
  return { app, client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

/** Answers report their seed. */
function saySeeds(app: AppUnderTest): void {
  app.engine.script = async function* ({ sampling: { seed } }) {
    await new Promise(setImmediate);
    yield { content: `seed ${seed}` };
  };
}

t.test('n answers come in order, each with the next seed; the prompt counts once', async (t) => {
  const { client, app } = await start(t);
  saySeeds(app);
  const ask = { model: 'default', messages: [{ role: 'user' as const, content: 'x' }], n: 3, seed: 40 };
  const whole = await client.chat.completions.create(ask);
  t.strictSame(whole.choices.map(({ index, message }) => [index, message.content]), [[0, 'seed 40'], [1, 'seed 41'], [2, 'seed 42']]);
  t.match(whole.usage, { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 });
  const streamed = await client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } }).finalChatCompletion();
  t.strictSame(streamed.choices.map(({ message }) => message.content), whole.choices.map(({ message }) => message.content));
  t.strictSame(streamed.usage?.completion_tokens, 3);
});

t.test('the other answers begin when the first has its first token', async (t) => {
  const { app } = await start(t);
  const { promise: first, resolve: go } = deferred();
  app.engine.script = async function* ({ sampling: { seed } }) {
    if (seed === 1) await first;
    yield { content: 'x' };
  };
  const reply = post(`${app.url}/v1/chat/completions`, { ...hello, n: 4, seed: 1 });
  await until(() => app.engine.requests.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(app.engine.requests.length, 1, 'one reads the prompt');
  go();
  t.equal(((await (await reply).json()) as Chunk).choices.length, 4);
  t.equal(app.engine.requests.length, 4);
});

t.test('a real engine evaluates the prompt once', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512, parallel: 4 });
  t.teardown(() => engine.close());
  await engine.ready();
  const answers: Answer[] = [];
  const chat = engine.chat.bind(engine);
  engine.chat = (...args) => {
    answers.push(chat(...args));
    return answers.at(-1)!;
  };
  const { url } = await startApp(t, {}, engine);
  const content = 'Once upon a time there was a llama. '.repeat(8);
  t.equal((await post(`${url}/v1/chat/completions`, { messages: [{ role: 'user', content }], n: 4, seed: 1, max_tokens: 8 })).status, 200);
  const usages = await Promise.all(answers.map(async ({ finished }) => (await finished).usage));
  t.equal(usages.length, 4);
  for (const { promptTokens, cachedTokens } of usages.slice(1)) t.equal(cachedTokens, promptTokens - 1, 'all but the last token, which gives the first of the answer');
});

t.test('if one answer fails the others end, and the client hears why', async (t) => {
  const { app } = await start(t);
  app.engine.script = async function* ({ sampling: { seed } }, signal) {
    yield { content: 'x' };
    if (seed === 3) throw new RecuaError('generation_failed', 'No such luck.');
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  };
  const response = await post(`${app.url}/v1/chat/completions`, { ...hello, n: 2, seed: 2 });
  t.equal(response.status, 500);
  t.match(await response.json(), { error: { code: 'generation_failed' } });
  await until(() => app.engine.running.size === 0);
});

t.test('completions come for all prompts in order, each with n answers, whole and streamed', async (t) => {
  const { client, app } = await start(t);
  const ask = { model: 'default', prompt: ['one two', 'three'], n: 2 };
  const whole = await client.completions.create(ask);
  t.match(whole, { object: 'text_completion', id: /^cmpl-/ });
  t.strictSame(whole.choices.map(({ text, index }) => [index, text]), [[0, 'one two'], [1, 'one two'], [2, 'three'], [3, 'three']]);
  t.match(whole.usage, { prompt_tokens: 2, completion_tokens: 6 });
  const texts = ['', '', '', ''];
  for await (const chunk of await client.completions.create({ ...ask, stream: true })) {
    for (const { index, text } of chunk.choices) texts[index] += text;
  }
  t.strictSame(texts, whole.choices.map(({ text }) => text));
  t.equal(app.engine.requests.length, 8);
});

t.test('completions take tokens, and echo a text', async (t) => {
  const { app } = await start(t);
  const send = async (body: object): Promise<Response> => await post(`${app.url}/v1/completions`, body);
  t.match(await (await send({ prompt: [5, 6, 7] })).json(), { choices: [{ text: '5 6 7' }] });
  t.match(await (await send({ prompt: [[5], 'six'] })).json(), { choices: [{ text: '5' }, { text: 'six' }] });
  t.match(await (await send({ prompt: 'ab', echo: true })).json(), { choices: [{ text: 'abab' }] });
  const chunks = events(await (await send({ prompt: 'ab', echo: true, stream: true, stream_options: { include_usage: true } })).text());
  t.equal(chunks.pop(), '[DONE]');
  const parsed = chunks.map((text) => JSON.parse(text) as Chunk);
  t.equal(parsed.flatMap(({ choices }) => choices.map(({ text }) => text)).join(''), 'abab');
  t.match(parsed.at(-1), { choices: [], usage: { prompt_tokens: 1 } });
});

const refusals: [body: object, param: string][] = [
  [{}, 'prompt'], [{ prompt: [] }, 'prompt'], [{ prompt: [1.5] }, 'prompt[0]'], [{ prompt: [100] }, 'prompt[0]'], [{ prompt: [{}] }, 'prompt[0]'],
  [{ prompt: 'x', suffix: 5 }, 'suffix'], [{ prompt: [1], suffix: 'y' }, 'suffix'], [{ prompt: 'x', n: 3, best_of: 2 }, 'best_of'], [{ prompt: 'x', best_of: 2, stream: true }, 'best_of'], [{ prompt: 'x', logprobs: 21 }, 'logprobs'],
  [{ prompt: 'x', n: 0 }, 'n'], [{ prompt: 'x', n: 129 }, 'n'], [{ prompt: 'x', max_tokens: -2 }, 'max_tokens'], [{ prompt: [1], echo: 1 }, 'echo'],
];

t.test('completions refuse unsupported fields by name', async (t) => {
  const { app } = await start(t);
  for (const [body, param] of refusals) {
    const response = await post(`${app.url}/v1/completions`, body);
    t.equal(response.status, 400, param);
    t.match(await response.json(), { error: { param } }, param);
  }
});

t.test('answers that never begin give back the memory of the body', async (t) => {
  const app = await startApp(t);
  const used = async (): Promise<number> => Number(/^recua_body_memory_bytes (\d+)$/m.exec(await (await fetch(`${app.url}/metrics`)).text())?.[1]);
  app.engine.script = async function* () {
    await new Promise(setImmediate);
    throw new RecuaError('context_length_exceeded', 'Too long.');
  };
  const bodies = { '/v1/chat/completions': { ...hello, n: 3 }, '/v1/completions': { prompt: ['x', 'y'], n: 3 } };
  for (const [path, body] of Object.entries(bodies)) {
    for (const stream of [false, true]) {
      const response = await post(`${app.url}${path}`, { ...body, stream });
      t.match(await response.text(), /context_length_exceeded/);
      t.equal(await used(), 0, path);
    }
  }
  app.engine.script = async function* () {
    await new Promise(() => undefined);
  };
  const leaving = new AbortController();
  const asked = fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ...hello, n: 3 }), signal: leaving.signal,
  });
  while ((await used()) === 0);
  leaving.abort();
  await t.rejects(asked);
  for (let tries = 0; tries < 100 && (await used()) > 0; tries++) await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(await used(), 0, 'after the client left');
});
