// Requests for more answers than the queue holds, over a real engine.
import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Engine, Finish } from '#recua/engine/api.js';
import { RunningAnswer } from '#recua/engine/gateway/answer.js';
import { RecuaError } from '#recua/errors.js';
import { builtinPath } from '#recua/models/store.js';
import { Siblings } from '#recua/server/exchange/siblings.js';
import { completion, options, sampling } from '../../engine/requests.js';
import { deferred } from '../../deferred.js';
import { events, post, startApp, until } from '../app-under-test.js';

interface Reply {
  choices: { index: number; text?: string; message?: { content: string } }[];
}

async function start(t: Test, queueSize: number): Promise<{ url: string; engine: Engine }> {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 4_096, parallel: 2, queueSize });
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
  const others = [0, 1].map((seed) => post(`${url}/v1/completions`, { prompt: 'x', max_tokens: 3_900, seed, ignore_eos: true, stream: true }, {}, leaving.signal));
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

t.test('a stream tells the first answers while other prompts wait for a place', async (t) => {
  const app = await startApp(t);
  app.engine.places = 1;
  const { promise: mayEnd, resolve: end } = deferred();
  app.engine.script = async function* () {
    yield { content: 'told' };
    await mayEnd;
  };
  const response = post(`${app.url}/v1/completions`, { prompt: ['a', 'b', 'c'], stream: true });
  let text = '';
  const whole = response.then(async ({ body }) => {
    const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  });
  await until(() => text.includes('told'));
  t.equal((await response).status, 200);
  t.equal(app.engine.running.size, 1);
  end();
  await whole;
  t.equal(text.split('told').length, 4);
  t.match(text, /\[DONE\]/);
});

t.test('prompts that have a place are checked before a stream opens, others when they get one', async (t) => {
  const { url } = await start(t, 0);
  const long = 'Too long. '.repeat(1_000);
  const ask = (prompt: string[], stream: boolean): Promise<Response> => post(`${url}/v1/completions`, { prompt, stream, max_tokens: 600, ignore_eos: true });
  for (const stream of [false, true]) {
    const refused = await ask(['Once', long, 'A'], stream);
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { code: 'context_length_exceeded' } });
    const later = await ask(['Once', 'There was', long], stream);
    t.equal(later.status, stream ? 200 : 400);
    t.match(await later.text(), /"code":"context_length_exceeded"/);
    t.equal(await bodyMemory(url), 0);
  }
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

t.test('an answer whose thinking is to end while it waits for a place knows it later', async (t) => {
  const asked: RunningAnswer[] = [];
  const ended: number[] = [];
  let freed = 0;
  const siblings = new Siblings(2, (_request, _signal, released) => {
    const index = asked.length;
    asked.push(new RunningAnswer(() => undefined, () => ended.push(index)));
    released();
    return asked[index]!;
  }, new AbortController().signal, () => freed++);
  const [first, second] = [siblings.begin(completion('x')), siblings.begin(completion('x'))];
  asked[0]!.accept(1, 0);
  asked[1]!.fail(new RecuaError('queue_full', 'The queue is full.'));
  await new Promise(setImmediate);
  second.endThinking();
  const finish = { finishReason: 'stop' } as Finish;
  asked[0]!.end(finish);
  t.equal(await first.finished, finish);
  await new Promise(setImmediate);
  t.equal(freed, 0, 'the text of the second one is needed');
  t.strictSame(ended, [1, 2]);
  asked[2]!.accept(1, 0);
  asked[2]!.end(finish);
  t.equal(await second.finished, finish);
  t.equal(freed, 1);
});

t.test('if others take the place of an answer that ended, the next one follows all the same', async (t) => {
  const asked: { answer: RunningAnswer; follows: boolean | undefined }[] = [];
  const siblings = new Siblings(3, ({ asker }, _signal, released) => {
    const answer = new RunningAnswer(() => undefined);
    asked.push({ answer, follows: asker?.follows });
    released();
    return answer;
  }, new AbortController().signal, () => undefined);
  const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
  const finish = { finishReason: 'stop' } as Finish;
  const full = new RecuaError('queue_full', 'The queue is full.');
  const first = siblings.begin(completion('x'));
  asked[0]!.answer.accept(1, 0);
  asked[0]!.answer.end(finish);
  await first.finished;
  const [second, third] = [siblings.begin(completion('x')), siblings.begin(completion('x'))];
  asked[1]!.answer.fail(full);
  await turn();
  asked[2]!.answer.fail(full);
  await turn();
  t.strictSame(asked.map(({ follows }) => follows), [undefined, undefined, undefined, true], 'one waits, and one has a place in any case');
  asked[3]!.answer.accept(1, 0);
  asked[3]!.answer.end(finish);
  t.equal(await third.finished, finish);
  await turn();
  asked[4]!.answer.fail(new RecuaError('queue_timeout', 'Too long.'));
  await turn();
  t.equal(asked[5]!.follows, true);
  asked[5]!.answer.accept(1, 0);
  asked[5]!.answer.end(finish);
  t.equal(await second.finished, finish);
});

t.test('an answer that follows another one has a place in a full queue, and keeps it', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 1024, parallel: 1, queueSize: 1, queueTimeoutMs: 100 });
  t.teardown(() => engine.close());
  await engine.ready();
  const ask = (client: string, follows = false) => engine.complete(completion('x', { maxTokens: 400, sampling: { ...sampling, ignoreEos: true }, asker: { client, priority: 0, follows } }));
  const [running, waiting] = [ask('a'), ask('a', true)];
  await waiting.accepted;
  const more = ask('a', true);
  await t.rejects(ask('b').finished, { code: 'queue_full' }, 'neither gives way');
  for (const one of [running, waiting, more]) t.equal((await one.finished).finishReason, 'length');
});

t.test('the limit of waiting ends no answer of a request of which one has begun', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 1024, parallel: 1, queueSize: 10, queueTimeoutMs: 100 });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, {}, engine);
  const response = await post(`${url}/v1/completions`, { prompt: 'x', n: 4, max_tokens: 300, ignore_eos: true });
  t.equal(response.status, 200);
  t.equal((await response.json() as Reply).choices.length, 4);
});

t.test('an engine that throws leaves no memory taken', (t) => {
  for (const count of [1, 2]) {
    let freed = 0;
    const siblings = new Siblings(count, () => { throw new RecuaError('internal_error', 'Broken.'); }, new AbortController().signal, () => freed++);
    try {
      siblings.begin(completion('x')).finished.catch(() => undefined);
    } catch { /* Only the answer itself has failed. */ }
    siblings.close();
    t.equal(freed, 1, `${count} answers`);
  }
  t.end();
});
