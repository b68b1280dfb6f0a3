// Requests for more answers than the queue holds, over a real engine.
import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Engine } from '#recua/engine/api.js';
import { builtinPath } from '#recua/models/store.js';
import { options } from '../../engine/requests.js';
import { events, post, startApp, until } from '../app-under-test.js';

interface Reply {
  choices: { index: number; text?: string; message?: { content: string } }[];
}

async function start(t: Test, queueSize: number): Promise<{ url: string; engine: Engine }> {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512, parallel: 2, queueSize });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, {}, engine);
  return { url, engine };
}

const chats = { messages: [{ role: 'user', content: 'Tell a story.' }], n: 7, seed: 1, temperature: 1, max_tokens: 12 };
const texts = { prompt: ['Once', 'There was', 'A'], n: 3, seed: 1, temperature: 1, max_tokens: 6 };
const asked: [string, object][] = [['/v1/chat/completions', chats], ['/v1/completions', texts]];
const textsOf = ({ choices }: Reply): string[] => choices.map(({ text, message }) => (text ?? message!.content));
const bodyMemory = async (url: string): Promise<number> => Number(/^recua_body_memory_bytes (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]);

t.test('answers that find the queue full follow the ones before, and say the same', async (t) => {
  const [narrow, wide] = [await start(t, 0), await start(t, 100)];
  for (const [path, body] of asked) {
    const response = await post(narrow.url + path, body);
    t.equal(response.status, 200, path);
    const said = textsOf(await response.json() as Reply);
    t.strictSame(said, textsOf(await (await post(wide.url + path, body)).json() as Reply), path);
    const streamed = said.map(() => '');
    const parts = events(await (await post(narrow.url + path, { ...body, stream: true })).text());
    t.equal(parts.pop(), '[DONE]');
    for (const part of parts) {
      for (const { index, text, delta } of (JSON.parse(part) as { choices: { index: number; text?: string; delta?: { content?: string } }[] }).choices) streamed[index] += text ?? delta?.content ?? '';
    }
    t.strictSame(streamed, said, path);
    t.equal(await bodyMemory(narrow.url), 0);
  }
});

t.test('a request whose first answer finds no place is refused at once', async (t) => {
  const { url, engine } = await start(t, 0);
  const leaving = new AbortController();
  const others = [0, 1].map((seed) => post(`${url}/v1/completions`, { prompt: 'x', max_tokens: 500, seed, ignore_eos: true, stream: true }, {}, leaving.signal));
  await Promise.all(others);
  await until(() => engine.state.state === 'ready' && engine.state.status.running === 2);
  const before = await bodyMemory(url);
  for (const [path, body] of asked) {
    const response = await post(url + path, body);
    t.equal(response.status, 429, path);
    t.match(await response.json(), { error: { code: 'queue_full' } });
    t.equal(await bodyMemory(url), before, 'its memory is free again');
  }
  leaving.abort();
});

t.test('a client that leaves while answers wait ends all of them', async (t) => {
  const { url, engine } = await start(t, 0);
  const leaving = new AbortController();
  const reply = await post(`${url}/v1/completions`, { prompt: 'x', max_tokens: 400, n: 9, ignore_eos: true, stream: true }, {}, leaving.signal);
  await reply.body!.getReader().read();
  leaving.abort();
  await until(() => engine.state.state === 'ready' && engine.state.status.running === 0);
  t.equal(await bodyMemory(url), 0);
  t.equal((await post(`${url}/v1/completions`, { prompt: 'x', max_tokens: 1 })).status, 200);
});
