// native/matmul: every kernel that this processor supports, against ggml's products of the same
// weights and against products in double precision.
import { join } from 'node:path';
import t from 'tap';
import { gpuLayers } from '../../device.js';
import { noise } from '../attention/reference.js';
import { addon, contextOptions, generate, step } from '../setup.js';

const { writeRandomModel } = await import(new URL('../../../bench/random-model.mjs', import.meta.url).href) as { writeRandomModel(name: string, path: string): void };

const { kernels, types } = addon.matmul();

interface Shape {
  type: string;
  columns: number;
  outputs: number;
  rows: number;
  threads?: number;
}

function inputs(
  { columns, outputs, rows }: Shape,
  factor: (row: number, column: number) => number,
): { weights: Float32Array; input: Float32Array } {
  const random = noise(columns * 7 + outputs * 3 + rows);
  return {
    weights: Float32Array.from({ length: outputs * columns }, () => random()),
    input: Float32Array.from({ length: rows * columns }, (_, i) => random() * factor(Math.floor(i / columns), i % columns)),
  };
}

/** The largest difference, in units of the row's largest possible sum. */
function difference(a: Float32Array, b: Float32Array, { columns, outputs, rows }: Shape, input: Float32Array): number {
  let most = 0;
  for (let row = 0; row < rows; row++) {
    let size = 1e-30;
    for (let i = 0; i < columns; i++) size += Math.abs(input[row * columns + i]!);
    for (let output = 0; output < outputs; output++) {
      const off = Math.abs(a[row * outputs + output]! - b[row * outputs + output]!) / size;
      if (!(off <= most)) most = off;
    }
  }
  return most;
}

const shapes = [
  { columns: 256, outputs: 16, rows: 3 },
  { columns: 512, outputs: 37, rows: 5 },
  { columns: 768, outputs: 100, rows: 12 },
  { columns: 256, outputs: 33, rows: 13 },
  { columns: 256, outputs: 17, rows: 1 },
  { columns: 2048, outputs: 300, rows: 1, threads: 3 },
  { columns: 1024, outputs: 64, rows: 130, threads: 3 },
];

/** With one row, ggml's kernels are as fast where ours is not mentioned here. */
const takesRow = (kernel: string, type: string): boolean => kernel === 'avx512' && type !== 'q8_0';

for (const kernel of kernels) {
  for (const type of types) {
    t.test(`${kernel} multiplies ${type} as ggml does`, (t) => {
      for (const size of type === 'q8_0' ? [...shapes, { columns: 96, outputs: 21, rows: 3 }, { columns: 32, outputs: 16, rows: 2 }] : shapes) {
        for (const [what, factor] of Object.entries({ even: () => 3, 'one large value': (_: number, i: number) => (i === 9 ? 1e4 : 1), 'the largest values': (_: number, i: number) => (i % 2 === 0 ? 1e4 : 1), 'empty rows': (row: number) => (row % 2) * 2 })) {
          const shape: Shape = { type, ...size };
          const { weights, input } = inputs(shape, factor);
          const call = (name: string) => addon.multiply({ threads: 2, ...shape, kernel: name, weights: weights.slice(), input });
          const own = call(kernel);
          t.equal(own.taken, shape.rows > 1 || takesRow(kernel, type));
          const off = difference(own.out, call('ggml').out, shape, input);
          t.ok(off < 1e-5, `${JSON.stringify(size)}, ${what}: ${off}`);
        }
      }
      t.end();
    });

    t.test(`${kernel}: a ${type} row does not depend on the rows beside it`, (t) => {
      const shape: Shape = { type, columns: 512, outputs: 50, rows: 29 };
      const { weights, input } = inputs(shape, () => 1);
      const all = addon.multiply({ threads: 2, ...shape, kernel, weights: weights.slice(), input }).out;
      for (const rows of [2, 3, 7, 12, 25]) {
        const { out } = addon.multiply({
          threads: 1,
          ...shape,
          rows,
          kernel,
          weights: weights.slice(),
          input: input.slice(0, rows * shape.columns),
        });
        t.same(out, all.slice(0, rows * shape.outputs), `${rows} rows`);
      }
      t.end();
    });
  }

  t.test(`${kernel} leaves to ggml what it does not take`, (t) => {
    for (const shape of [{ type: 'q4_0', columns: 256, outputs: 32, rows: 4 }, { type: 'f16', columns: 64, outputs: 32, rows: 4 }, { type: 'q8_0', columns: 64, outputs: 3, rows: 4 }, { type: 'q8_0', columns: 64, outputs: 32, rows: 1 }, ...(takesRow(kernel, 'q6_K') ? [] : [{ type: 'q6_K', columns: 256, outputs: 32, rows: 1 }])]) {
      const { weights, input } = inputs(shape, () => 1);
      t.equal(addon.multiply({ threads: 2, ...shape, kernel, weights, input }).taken, false, JSON.stringify(shape));
    }
    t.end();
  });
}

t.test('shapes that do not fit their arrays are refused', (t) => {
  t.throws(() => addon.multiply({ kernel: 'ggml', threads: 1, type: 'q8_0', columns: 64, outputs: 16, rows: 1, weights: new Float32Array(3), input: new Float32Array(64) }), { code: 'invalid_argument' });
  t.throws(() => addon.multiply({ kernel: 'no such', threads: 1, type: 'q8_0', columns: 32, outputs: 16, rows: 1, weights: new Float32Array(512), input: new Float32Array(32) }), { code: 'invalid_argument' });
  t.end();
});

t.test('a context uses it if asked to, and answers as with ggml', { skip: (gpuLayers !== 0 && 'a GPU multiplies') || (kernels.length === 0 && 'this processor has no kernel') }, async (t) => {
  const path = join(t.testdir(), 'quantized.gguf');
  writeRandomModel('rows256', path);
  // With AMX, ggml would copy the weights, and multiply them itself.
  const model = await addon.loadModel({ path, gpuLayers: 0, mmap: true, mlock: false, repack: false }).promise;
  t.teardown(() => model.close());
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const prompt = await model.tokenize('<|im_start|>user\nTell me of rivers, please.<|im_end|>\n<|im_start|>assistant\n', true, true);
  const run = async (matmul: 'auto' | 'ggml') => {
    const before = addon.matmul().taken;
    const context = await model.createContext(contextOptions({ contextSize: 512, threads: 2, threadsBatch: 2, sequences: 2, matmul }));
    const alone = await generate(context, sampler, prompt, 24);
    await context.removeSequence(0, 0, -1);
    const beside = await step(context, [0, 1].map((sequence) => ({ sequence, from: 0, tokens: prompt, sampler })));
    await context.close();
    return { answers: [...alone, ...beside.tokens], nodes: addon.matmul().taken - before };
  };
  const own = await run('auto');
  const ggml = await run('ggml');
  t.equal(ggml.nodes, 0);
  t.ok(own.nodes > 0, 'it is used');
  t.same(own.answers, ggml.answers);
});
