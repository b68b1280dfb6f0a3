// native/attention: every kernel that this processor supports, against attention in double
// precision. ggml computes the same keys and values as F32 for comparison: over all cases no kernel
// may be less exact on average, and in no case by much. (A single value depends on luck. So does
// the mean of one run with large logits, where a few rows whose two largest logits are almost equal
// have nearly all of the error; those cases run often.)
import t from 'tap';
import type { AttendOptions } from '#recua/addon/attend.js';
import { addon } from '../setup.js';
import { attention, errors, noise } from './reference.js';

type Shape = Partial<Omit<AttendOptions, 'q' | 'k' | 'v' | 'mask' | 'sinks'>>;

interface Case extends Shape {
  /** The keys a token sees; absent: all. A number is a bias. */
  sees?: (token: number, key: number, stream: number) => boolean | number;
  sinks?: boolean;
  /** Factor for queries: large logits. */
  size?: number;
  /** Runs, each with other numbers; absent: 1. */
  runs?: number;
}

const causal = (keys: number, tokens: number) => (token: number, key: number) => key <= keys - tokens + token;

function build({ sees, sinks, size = 1, runs: _, ...shape }: Case, run = 0): AttendOptions {
  const all = {
    kernel: 'plain', threads: 2, dk: 64, dv: 64, keys: 100, tokens: 1, heads: 6, kvHeads: 2, streams: 1,
    typeK: 'f16', typeV: 'f16', scale: 0.125, maxBias: 0, softcap: 0, ...shape,
  };
  const random = noise(all.keys * 31 + all.tokens * 7 + all.dk + run * 7919);
  const array = (length: number, factor = 1) => Float32Array.from({ length }, () => random() * factor);
  const { dk, dv, keys, tokens, heads, kvHeads, streams } = all;
  const mask = sees && new Float32Array(streams * tokens * keys);
  if (mask) {
    for (let stream = 0, at = 0; stream < streams; stream++) {
      for (let token = 0; token < tokens; token++) {
        for (let key = 0; key < keys; key++, at++) {
          const seen = sees(token, key, stream);
          mask[at] = seen === false ? -Infinity : seen === true ? 0 : seen;
        }
      }
    }
  }
  return {
    ...all,
    q: array(streams * tokens * heads * dk, size), k: array(streams * keys * kvHeads * dk), v: array(streams * keys * kvHeads * dv),
    mask, sinks: sinks ? array(heads) : undefined,
  };
}

const cases: Record<string, Case> = {
  'one key': { keys: 1 },
  'a row behind a context that no block divides': { keys: 777 },
  'a row of one head': { heads: 1, kvHeads: 1, keys: 300 },
  'many KV heads, one row each': { heads: 24, kvHeads: 8, keys: 1500, sinks: true, maxBias: 8, sees: (_, key) => key < 1400 && key - 1400 },
  'many KV heads, guessed tokens': { heads: 9, kvHeads: 3, keys: 1100, tokens: 4, sees: causal(1100, 4) },
  'many KV heads, streams of different lengths': { heads: 8, kvHeads: 4, keys: 600, streams: 3, sees: (_, key, stream) => key < 190 * (stream + 1) },
  'many KV heads, sixteen heads to each': { heads: 32, kvHeads: 2, keys: 900 },
  'heads that share one KV head': { heads: 8, kvHeads: 1, keys: 300 },
  'seventeen heads to one': { heads: 17, kvHeads: 1, keys: 130, tokens: 3 },
  'heads that share nothing': { heads: 4, kvHeads: 4, keys: 257, tokens: 2 },
  'a prompt': { keys: 200, tokens: 200, sees: causal(200, 200) },
  'the end of a prompt': { keys: 333, tokens: 37, sees: causal(333, 37) },
  'a window': { keys: 500, tokens: 40, sees: (token, key) => key <= 460 + token && key > 360 + token },
  'rows that see nothing': { keys: 130, tokens: 9, sees: (token, key) => token % 2 === 1 && key % 3 === 0 },
  'no row sees anything': { keys: 70, tokens: 2, sees: () => false },
  'nothing but a sink': { keys: 70, tokens: 2, sees: () => false, sinks: true },
  'streams of different lengths': { keys: 300, tokens: 2, streams: 3, sees: (token, key, stream) => key < 90 * (stream + 1) + token },
  'ALiBi': { keys: 150, tokens: 20, heads: 6, maxBias: 8, sees: (token, key) => (key <= 130 + token ? key - 130 - token : false) },
  'a soft cap': { keys: 150, tokens: 10, softcap: 30, size: 20 },
  'a soft cap on small logits': { keys: 150, softcap: 50, size: 0.1 },
  'sinks': { keys: 150, tokens: 10, sinks: true, sees: causal(150, 10) },
  'large logits': { keys: 400, tokens: 3, size: 60, runs: 40 },
  'larger logits of many rows': { keys: 400, tokens: 50, size: 300, sees: causal(400, 50), runs: 40 },
  'keys of 80, values of 80': { dk: 80, dv: 80, keys: 130, tokens: 20 },
  'keys of 96, values of 112': { dk: 96, dv: 112, keys: 130, tokens: 5 },
  'keys of 128': { dk: 128, dv: 128, keys: 300, tokens: 12, sees: causal(300, 12) },
  'keys of 192, values of 128': { dk: 192, dv: 128, keys: 140, tokens: 7 },
  'keys of 256': { dk: 256, dv: 256, keys: 140, tokens: 33, heads: 2, kvHeads: 1 },
  'keys of 16': { dk: 16, dv: 32, keys: 140, tokens: 3 },
  'F32': { typeK: 'f32', typeV: 'f32', keys: 200, tokens: 9 },
  'BF16': { typeK: 'bf16', typeV: 'bf16', keys: 200, tokens: 9 },
  'Q8_0': { typeK: 'q8_0', typeV: 'q8_0', keys: 200, tokens: 9 },
  'a row of Q8_0': { typeK: 'q8_0', typeV: 'f16', keys: 600 },
  '32k keys': { keys: 32768, heads: 3, kvHeads: 1 },
  '32k keys and one thread': { keys: 32768, heads: 1, kvHeads: 1, threads: 1, size: 8 },
};

const kernels = addon.attention().kernels;
/** For each kernel and case, its mean error relative to that of ggml. */
const ratios = new Map<string, number[]>(kernels.map((kernel) => [kernel, []]));
t.ok(kernels.includes('plain'), kernels.join(', '));

for (const [name, one] of Object.entries(cases)) {
  t.test(name, (t) => {
    const found = new Map([...kernels, 'ggml'].map((kernel) => [kernel, { most: 0, mean: 0 }]));
    const runs = one.runs ?? 1;
    for (let run = 0; run < runs; run++) {
      const options = build(one, run);
      const all = kernels.map((kernel) => ({ kernel, ...addon.attend({ ...options, kernel }) }));
      // Keys and values are now rounded to their types.
      const right = attention(options);
      const ggml = addon.attend({ ...options, kernel: 'ggml', typeK: 'f32', typeV: 'f32' });
      for (const { kernel, taken, out } of [...all, { kernel: 'ggml', ...ggml }]) {
        if (kernel !== 'ggml' && !taken) t.fail(`${kernel} does not take it`);
        const { most, mean } = errors(out, right);
        const sum = found.get(kernel)!;
        found.set(kernel, { most: Math.max(sum.most, most), mean: sum.mean + mean / runs });
      }
    }
    const ggml = found.get('ggml')!;
    for (const kernel of kernels) {
      const { most, mean } = found.get(kernel)!;
      t.ok(most <= 2 * ggml.most + 2e-7, `${kernel}: at most ${most}, ggml ${ggml.most}`);
      t.ok(mean <= (runs > 1 ? 1.5 : 1.3) * ggml.mean + 1e-8, `${kernel}: in the mean ${mean}, ggml ${ggml.mean}`);
      if (ggml.mean > 0) ratios.get(kernel)!.push(Math.max(mean, 1e-10) / ggml.mean);
    }
    t.end();
  });
}

t.test('over all of these, no kernel is less exact than ggml with F32', (t) => {
  for (const [kernel, all] of ratios) {
    const typical = Math.exp(all.reduce((sum, ratio) => sum + Math.log(ratio), 0) / all.length);
    t.ok(all.length > 25 && typical <= 1, `${kernel}: ${typical.toFixed(2)} of ggml's error`);
  }
  t.end();
});

t.test('any number of threads gives the same result, each time', (t) => {
  const options = build({ keys: 3000, tokens: 2, sees: causal(3000, 2) });
  for (const kernel of kernels) {
    const right = addon.attend({ ...options, kernel, threads: 1 }).out;
    const first = addon.attend({ ...options, kernel, threads: 3 }).out;
    for (let i = 0; i < 5; i++) t.same(addon.attend({ ...options, kernel, threads: 3, repeat: 20 }).out, first);
    t.ok(errors(first, Float64Array.from(right)).most < 1e-6, 'up to rounding');
  }
  t.end();
});

t.test('a masked key may hold anything', (t) => {
  for (const tokens of [1, 20]) {
    const options = build({ keys: 100, tokens, sees: (_, key) => key % 2 === 0 });
    for (const kernel of kernels) {
      const { out } = addon.attend({ ...options, kernel });
      const odd = (values: Float32Array) => values.map((value, i) => (Math.floor(i / 128) % 2 === 1 ? NaN : value));
      const { out: beside } = addon.attend({ ...options, kernel, k: odd(options.k), v: odd(options.v) });
      t.same(beside, out, kernel);
    }
  }
  t.end();
});

t.test('NaN stays NaN', (t) => {
  for (const tokens of [1, 20]) {
    for (const kernel of kernels) {
      const options = build({ keys: 100, tokens });
      options.q.fill(NaN);
      t.ok(addon.attend({ ...options, kernel }).out.every(Number.isNaN), kernel);
    }
  }
  t.end();
});

t.test('shapes that the kernels do not take go to ggml', (t) => {
  for (const shape of [{ typeK: 'q4_0', typeV: 'q4_0' }, { dk: 72, dv: 72 }, { dk: 320, dv: 320 }, { heads: 97, kvHeads: 1 }]) {
    const options = build({ ...shape, keys: 64 });
    const { taken, out } = addon.attend(options);
    t.equal(taken, false);
    t.ok(errors(out, attention(options)).most < 0.1);
  }
  t.end();
});

t.test('a query that is not a number gives a result that is none, as in ggml', (t) => {
  for (const tokens of [1, 20]) {
    const options = build({ keys: 64, tokens, sees: (token, key) => key <= 10 + token });
    for (const kernel of ['ggml', ...kernels]) {
      const { out } = addon.attend({ ...options, kernel, q: options.q.map(() => NaN) });
      t.ok(out.every((value) => Number.isNaN(value)), `${kernel}, ${tokens} tokens`);
    }
  }
  t.end();
});
