// native/attention in a context: used when requested, and only then.
import t from 'tap';
import type { ContextOptions } from '#recua/addon/addon.js';
import { gpuLayers } from '../../device.js';
import { addon, contextOptions, generate, loadBuiltin, step } from '../setup.js';

const skip = gpuLayers !== 0 && 'a GPU computes attention';
const model = await loadBuiltin();
t.teardown(() => model.close());
const text = 'The rivers of the north are cold and wide, and the bridges over them are old. '.repeat(12);
const prompt = await model.tokenize(`<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`, true, true);

/** Nodes that Recua took while the context is made and `use` runs. */
async function taken<T>(options: Partial<ContextOptions>, use: (context: Awaited<ReturnType<typeof model.createContext>>) => Promise<T>) {
  const before = addon.attention().taken;
  const context = await model.createContext(contextOptions({ contextSize: 1024, threads: 2, threadsBatch: 2, ...options }));
  try {
    return { result: await use(context), nodes: addon.attention().taken - before };
  } finally {
    await context.close();
  }
}

t.test('answers equal those of ggml', { skip }, async (t) => {
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  for (const more of [{}, { cacheTypeK: 'q8_0', cacheTypeV: 'q8_0' }, { cacheTypeK: 'bf16', cacheTypeV: 'f16' }, { flashAttention: 'on' as const }]) {
    const answer = (attention: 'auto' | 'ggml') => taken({ ...more, attention }, (context) => generate(context, sampler, prompt, 24));
    const own = await answer('auto');
    const ggml = await answer('ggml');
    t.ok(own.nodes > 0, 'it is used');
    t.equal(ggml.nodes, 0, 'and not without being asked for');
    t.same(own.result, ggml.result, JSON.stringify(more));
  }
});

t.test('unsupported shapes are computed all the same', { skip }, async (t) => {
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  for (const more of [{ flashAttention: 'off' as const }, { cacheTypeK: 'q4_0', cacheTypeV: 'q4_0' }]) {
    const { result, nodes } = await taken({ ...more, attention: 'auto' }, (context) => generate(context, sampler, prompt, 8));
    t.equal(nodes, 0);
    t.equal(result.length, 8);
  }
});

t.test('several sequences of different lengths run beside a prompt', { skip }, async (t) => {
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const run = (attention: 'auto' | 'ggml') => taken({ attention, sequences: 4 }, async (context) => {
    const all: number[] = [];
    const lengths = [prompt.length, 40, 7];
    let last = await step(context, lengths.map((length, sequence) => ({ sequence, from: 0, tokens: prompt.subarray(0, length), sampler })));
    for (let i = 0; i < 8; i++) {
      all.push(...last.tokens);
      const parts = lengths.map((length, sequence) => ({ sequence, from: length + i, tokens: [last.tokens[sequence]!], sampler }));
      if (i === 3) parts.push({ sequence: 3, from: 0, tokens: [...prompt.subarray(0, 50)], sampler });
      last = await step(context, parts);
    }
    return all;
  });
  const own = await run('auto');
  t.same(own.result, (await run('ggml')).result);
  t.ok(own.nodes > 0);
});

t.test('contexts run side by side, each with its own attention', { skip }, async (t) => {
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const options = contextOptions({ contextSize: 1024, threads: 2, threadsBatch: 2 });
  const one = await model.createContext({ ...options, attention: 'auto' });
  const two = await model.createContext({ ...options, attention: 'ggml' });
  const three = await model.createContext({ ...options, threads: 1, attention: 'auto' });
  const answers = await Promise.all([one, two, three].map((context) => generate(context, sampler, prompt, 12)));
  t.same(answers[0], answers[1]);
  t.same(answers[2], answers[1]);
  await Promise.all([one, two, three].map((context) => context.close()));
});
