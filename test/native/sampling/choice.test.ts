// Recua's own samplers draw the same tokens as llama.cpp's chain, for the same options and seed.
import t, { type Test } from 'tap';
import type { NativeModel, SamplerOptions } from '#recua/addon/addon.js';
import { bothWays, loadRandom } from '../random-model.js';
import { contextOptions, generate, loadBuiltin } from '../setup.js';

const sets: Partial<SamplerOptions>[] = [
  {},
  { topK: 1 },
  { topK: 40 },
  { topK: 1000 },
  { topP: 0.95 },
  { topP: 0.5 },
  { topP: 0.001 },
  { topP: 0.999 },
  { minP: 0.05 },
  { minP: 0.7 },
  { topK: 40, topP: 0.95, minP: 0.05 },
  { topP: 0.9, minP: 0.1 },
  { topP: 0.3, minP: 0.9 },
  { topK: 3, topP: 0.01 },
  { repeatPenalty: 1.5, penaltyLastN: 8 },
  { repeatPenalty: 1.1, frequencyPenalty: 0.7, presencePenalty: 0.4, penaltyLastN: 64, topP: 0.9 },
  { frequencyPenalty: -1.5, penaltyLastN: -1, topK: 50 },
  { logitBias: [{ token: 5, bias: 100 }] },
  {
    logitBias: [
      { token: 5, bias: -Infinity },
      { token: 6, bias: 3 },
    ],
    topP: 0.9,
  },
  { ignoreEos: true, topK: 20 },
];

async function compare(t: Test, model: NativeModel, text: string, count: number, which = sets) {
  const prompt = await model.tokenize(text, true, true);
  for (const set of which) {
    for (const temperature of [0.05, 0.8, 1, 3]) {
      const options = { ...set, temperature, seed: 1000 + Math.round(temperature * 10) };
      const { own, chain } = await bothWays(model, options, prompt, count);
      t.strictSame(own, chain, JSON.stringify(options));
    }
  }
  const { own, chain } = await bothWays(model, { temperature: 0, repeatPenalty: 1.3, penaltyLastN: 32 }, prompt, count);
  t.strictSame(own, chain, 'greedy with a penalty');
}

t.test('both ways agree on a trained model with a small vocabulary', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  await compare(t, model, 'Tell me a story about a llama that', 12);
});

t.test('both ways agree on a large vocabulary whose nucleus is some tokens, hundreds or thousands', async (t) => {
  // Not a flat one: llama.cpp adds up 150,000 shares in single precision, which is too coarse for
  // nearly equal ones.
  for (const doublings of [5, 6]) {
    const model = await loadRandom(t, doublings);
    await compare(t, model, 'The quick brown fox', 3);
    await model.close();
  }
});

t.test('both ways agree on a flat distribution over a large vocabulary', async (t) => {
  const model = await loadRandom(t);
  t.teardown(() => model.close());
  await compare(t, model, 'The quick brown fox', 3, sets.filter((set) => set.topP === undefined || set.topK !== undefined));
});

t.test('both ways agree for each of many seeds', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const prompt = await model.tokenize('Hello! I', true, true);
  const counts = { own: new Map<number, number>(), chain: new Map<number, number>() };
  for (let seed = 0; seed < 400; seed++) {
    const drawn = await bothWays(model, { temperature: 2, topK: 8, seed }, prompt, 1);
    for (const way of ['own', 'chain'] as const) counts[way].set(drawn[way][0]!, (counts[way].get(drawn[way][0]!) ?? 0) + 1);
  }
  t.strictSame(counts.own, counts.chain);
  t.ok(counts.own.size > 3, 'more than a few tokens came');
});

t.test('any number of threads that share a row draws the same', async (t) => {
  const sets: Partial<SamplerOptions>[] = [{ topP: 0.95 }, { topP: 0.4, minP: 0.2 }, { minP: 0.05 }, {}, { topK: 40 }];
  for (const doublings of [0, 5]) {
    const model = await loadRandom(t, doublings);
    const prompt = await model.tokenize('The quick brown fox', true, true);
    const drawn = [];
    for (const threads of [1, 2, 3]) {
      const context = await model.createContext(contextOptions({ sequences: 1, threads, threadsBatch: threads }));
      const own = [];
      for (const set of sets) {
        await context.removeSequence(0, 0, -1);
        const sampler = await model.createSampler({ temperature: 0.8, seed: 5, ...set }, prompt);
        own.push(await generate(context, sampler, prompt, 6));
        sampler.close();
      }
      await context.close();
      drawn.push(own);
    }
    t.strictSame(drawn[1], drawn[0], `two, ${doublings} doublings`);
    t.strictSame(drawn[2], drawn[0], `three, ${doublings} doublings`);
    if (doublings === 0) t.ok(new Set(drawn[0]!.map(String)).size > 1, 'draws, not always the same');
    await model.close();
  }
});

t.test('both ways agree for many seeds over a flat vocabulary, wherever in the nucleus the draw falls', async (t) => {
  // Draws at the very beginning and end of the nucleus are those for which the first estimate is
  // too narrow.
  const model = await loadRandom(t, 5);
  t.teardown(() => model.close());
  const prompt = await model.tokenize('The quick brown fox', true, true);
  for (let seed = 0; seed < 60; seed++) {
    const { own, chain } = await bothWays(model, { temperature: 1.5, topP: 0.97, seed }, prompt, 1);
    t.strictSame(own, chain, `seed ${seed}`);
  }
});
