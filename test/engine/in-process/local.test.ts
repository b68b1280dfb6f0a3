import t, { type Test } from 'tap';
import type { EngineState } from '#recua/engine/api.js';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import { RecuaError } from '#recua/errors.js';
import { fakeAddon, marks, type FakeOptions } from '../fake-addon.js';
import { chat, completion, options, say } from '../requests.js';

function start(t: Test, fake: FakeOptions = {}, more: Partial<typeof options> = {}) {
  const addon = fakeAddon(fake);
  const states: EngineState['state'][] = [];
  const engine = startLocalEngine({ ...options, ...more }, { openNative: () => ({ addon }), onState: ({ state }) => states.push(state) });
  t.teardown(() => engine.close(0));
  /** Closes the engine and checks that nothing is left. */
  const end = async () => {
    await engine.close(0);
    t.same(addon.violations, []);
    t.match(addon.stats, { openContexts: 0, openModels: 0, openSamplers: 0 });
  };
  return { engine, states, end };
}

const code = async (promise: Promise<unknown>) => promise.then(() => 'none', (error: { code: string }) => error.code);

t.test('it loads, answers, embeds and closes like an engine process', async (t) => {
  const { engine, states, end } = start(t, { loadMs: 20 });
  t.equal(await code(engine.chat(chat('early')).finished), 'model_loading');
  t.match(await engine.ready(), { contextSize: 2000, canGenerate: true, canEmbed: true, canRerank: false });
  const answer = engine.chat(chat('hello', { constraint: say('good day') }));
  t.same(await answer.accepted, { promptTokens: 22, position: 0 });
  t.match(await answer.finished, { finishReason: 'stop' });
  t.equal((await engine.embed({ inputs: ['ab', 'abc'] })).vectors.length, 2);
  t.equal(await code(engine.rerank({ query: 'a', documents: ['b'] })), 'rerank_unsupported');
  t.equal(await engine.detokenize(await engine.tokenize('ab', false, true), false), 'ab');
  t.equal(await code(engine.detokenize(Int32Array.of(9999), false)), 'invalid_value');
  await engine.close();
  t.equal(await code(engine.chat(chat('late')).finished), 'shutting_down');
  t.same([states[0], states.at(-1)], ['ready', 'closed']);
  t.equal(engine.pid, undefined);
  await end();
});

t.test('an engine of a reranker scores each document with the query', async (t) => {
  const { engine, end } = start(t, { pooling: 'rank' });
  t.match(await engine.ready(), { canRerank: true, canEmbed: false });
  const { scores, tokenCounts } = await engine.rerank({ query: 'ab', documents: ['c', 'defg'] });
  t.equal(scores.length, 2);
  t.same([...tokenCounts], [4, 7], 'BOS, query and document');
  t.equal(await code(engine.embed({ inputs: ['x'] })), 'embeddings_unsupported');
  await end();
});

t.test('a failed load says why, for good', async (t) => {
  const { engine, states, end } = start(t, { loadError: { code: 'invalid_gguf', message: 'no' } });
  t.equal(await code(engine.ready()), 'invalid_gguf');
  t.equal(await code(engine.chat(chat('x')).finished), 'invalid_gguf');
  t.same(states, ['failed']);
  await end();
  const missing = startLocalEngine(options, { openNative: () => { throw new RecuaError('addon_missing', 'none'); } });
  t.equal(await code(missing.ready()), 'addon_missing');
  await missing.close();
});

t.test('close works while loading, and with running answers', async (t) => {
  const loading = start(t, { loadMs: 100_000 });
  const ready = code(loading.engine.ready());
  await loading.engine.close();
  t.equal(await ready, 'shutting_down');
  const busy = start(t, { stepMs: 1 });
  await busy.engine.ready();
  const long = busy.engine.complete(completion('~', { maxTokens: 1900 }));
  const short = busy.engine.complete(completion('x', { constraint: say('ok') }));
  await long.accepted;
  t.match(await short.finished, { finishReason: 'stop' });
  await busy.engine.close(10);
  t.equal(await code(long.finished), 'shutting_down');
  await Promise.all([loading.end(), busy.end()]);
});

t.test('a failed step fails only its request', async (t) => {
  const { engine, end } = start(t);
  await engine.ready();
  t.equal(await code(engine.complete(completion(`x${marks.failStep}`)).finished), 'generation_failed');
  t.match(await engine.complete(completion('x', { constraint: say('ok') })).finished, { finishReason: 'stop' });
  await end();
});
