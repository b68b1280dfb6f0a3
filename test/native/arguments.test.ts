// Arguments on which llama.cpp would end the process, or read what is not its own, are refused.
import t from 'tap';
import type { NativeContext, NativeModel } from '#recua/addon/addon.js';
import { addon, builtin, contextOptions, generate, loadBuiltin, step } from './setup.js';

let model: NativeModel;
let context: NativeContext;
t.before(async () => {
  model = await loadBuiltin();
  context = await model.createContext(contextOptions());
});
t.teardown(() => model.close());

const invalid = { code: 'invalid_argument' };
const none = new Int32Array();
const unknownTokens = [-1, 2 ** 20, -(2 ** 31)];

t.test('tokens outside the vocabulary', async (t) => {
  const greedy = await model.createSampler({ temperature: 0 }, none);
  const embedder = await model.createEmbedder({ pooling: 'mean', contextSize: 64, sequences: 4, threads: 1 });
  for (const token of unknownTokens) {
    await t.rejects(model.createSampler({ temperature: 0, logitBias: [{ token, bias: 1 }] }, none), invalid, `bias of ${token}`);
    await t.rejects(model.createSampler({ temperature: 0, repeatPenalty: 2 }, Int32Array.of(1, token)), invalid, `history with ${token}`);
    await t.rejects(model.createSampler({ temperature: 0, prediction: Int32Array.of(token) }, none), invalid, `prediction of ${token}`);
    await t.rejects(greedy.resume(Int32Array.of(token), 0), invalid, `resume after ${token}`);
    await t.rejects(embedder.embed(Int32Array.of(token), Int32Array.of(1)), invalid, `embed ${token}`);
    await t.rejects(step(context, [{ sequence: 0, from: 0, tokens: [token], sampler: null }]), { code: 'generation_failed' }, `decode ${token}`);
  }
  for (const lengths of [[0], [-3], [3], [1, 2], [2 ** 31 - 1]]) {
    await t.rejects(embedder.embed(Int32Array.of(1, 2), Int32Array.from(lengths)), invalid, `lengths ${lengths.join()}`);
  }
  await embedder.close();
});

t.test('sequences outside the context', async (t) => {
  for (const sequence of [-1, 4, 2 ** 30]) {
    for (const call of [
      () => context.copySequence(sequence, 0, 1), () => context.copySequence(0, sequence, 1), () => context.removeSequence(sequence, 0, -1),
      () => context.stashSequence(sequence), () => context.checkpointSequence(sequence),
    ] satisfies (() => Promise<unknown>)[]) await t.rejects(call() as Promise<unknown>, invalid, `${String(call)} of ${sequence}`);
    await t.rejects(step(context, [{ sequence, from: 0, tokens: [1], sampler: null }]), { code: 'generation_failed' }, `decode in ${sequence}`);
  }
  for (const size of [-1, NaN, Infinity, 2 ** 60]) t.throws(() => context.createStash(size), invalid, `a stash of ${size} bytes`);
});

t.test('samplers that are none, or another model\'s', async (t) => {
  const part = { sequence: 0, from: 0, tokens: [1] };
  await t.rejects(step(context, [{ ...part, sampler: context as never }]), invalid);
  await t.rejects(step(context, [{ ...part, sampler: {} as never }]), invalid);
  const other = await loadBuiltin();
  await t.rejects(step(context, [{ ...part, sampler: await other.createSampler({ temperature: 0 }, none) }]), invalid);
  await other.close();
});

t.test('rows that lack a part', async (t) => {
  const sampler = await model.createSampler({ temperature: 0 }, none);
  const input = {
    tokens: Int32Array.of(1, 2),
    positions: Int32Array.of(0, 1),
    sequences: Int32Array.of(0, 0),
    outputs: Uint8Array.of(0, 1),
    rows: 2,
    samplers: [sampler],
  };
  for (const part of ['tokens', 'positions', 'sequences', 'outputs'] as const) {
    const short = { ...input, [part]: part === 'outputs' ? Uint8Array.of(1) : Int32Array.of(1) };
    await t.rejects(context.steps(short, 1, () => undefined), invalid, part);
  }
  await t.rejects(context.steps({ ...input, known: Int32Array.of(2 ** 20) }, 1, () => undefined), invalid);
  t.equal((await generate(context, sampler, Int32Array.of(1, 2), 3)).length, 3, 'the context works after all of them');
});

t.test('numbers that no step or sampler can have', async (t) => {
  const small = await model.createContext(contextOptions({ batchSize: 8, microBatchSize: 8, sequences: 2 }));
  const tokens = Array.from({ length: 9 }, (_, at) => at + 1);
  await t.rejects(step(small, [{ sequence: 0, from: 0, tokens, sampler: null }]), invalid, 'more rows than a batch has');
  const all = {
    tokens: Int32Array.from(tokens.slice(0, 8)),
    positions: Int32Array.from(tokens.slice(0, 8), (_, at) => at),
    sequences: new Int32Array(8),
  };
  await t.rejects(small.steps({ ...all, outputs: new Uint8Array(8).fill(1), rows: 8, samplers: Array.from({ length: 8 }, () => null) }, 1, () => undefined), invalid, 'more samples than outputs');
  await small.close();
  for (const mirostat of [-1, 3]) await t.rejects(model.createSampler({ temperature: 1, mirostat: mirostat as 0 }, none), invalid, `mirostat ${mirostat}`);
  for (const options of [{ draft: -(2 ** 31) }, { predict: 2 ** 31 }, { scores: 2 ** 32 - 1 }, { sequences: 2 ** 30 }]) {
    await t.rejects(model.createContext(contextOptions(options)), invalid, JSON.stringify(options));
  }
});

t.test('a model of which only the vocabulary was loaded', async (t) => {
  const vocabulary = await addon.loadModel({ path: builtin, gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
  await t.rejects(vocabulary.createContext(contextOptions()), invalid);
  await t.rejects(vocabulary.createEmbedder({ pooling: 'mean', contextSize: 64, sequences: 4, threads: 1 }), invalid);
  await vocabulary.close();
});

t.test('options whose reading closes the model', async (t) => {
  const closing = await loadBuiltin();
  const options = { get temperature() { void closing.close(); return 0; } };
  await t.rejects(closing.createSampler(options, none), { code: 'closed' });
});
