import t from 'tap';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { types, type Meta } from '../../models/gguf-bytes.js';
import { writeReranker } from '../random-reranker.js';
import { addon, loadBuiltin } from '../setup.js';

const length = (vector: Float32Array) => Math.hypot(...vector);
const cosine = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, i) => sum + x * b[i]!, 0);
const options = { contextSize: 256, sequences: 8, threads: 1, pooling: 'mean' as const };

t.test('vectors have unit length, and many at once equal one at a time', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const embedder = await model.createEmbedder(options);
  const size = model.info.embeddingSize;
  const inputs = await Promise.all(Array.from({ length: 33 }, (_, i) => model.tokenize(`text number ${i} ${'about llamas '.repeat(i % 7)}`, true, true)));
  const all = await embedder.embed(
    Int32Array.from(inputs.flatMap((tokens) => [...tokens])),
    Int32Array.from(inputs, (tokens) => tokens.length),
  );
  t.equal(all.length, 33 * size);
  for (const [i, tokens] of inputs.entries()) {
    const one = await embedder.embed(tokens, Int32Array.of(tokens.length));
    const same = all.subarray(i * size, (i + 1) * size);
    t.ok(Math.abs(length(one) - 1) < 1e-5 && cosine(one, same) > 0.9999, `input ${i}`);
  }
});

t.test('an input over the embedding context is refused', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const embedder = await model.createEmbedder(options);
  await t.rejects(embedder.embed(new Int32Array(300).fill(5), Int32Array.of(300)), { code: 'context_length_exceeded' });
  t.equal((await embedder.embed(Int32Array.of(5), Int32Array.of(1))).length, model.info.embeddingSize);
});

t.test('pooling none is refused', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  await t.rejects(model.createEmbedder({ ...options, pooling: 'none' }), { code: 'embeddings_unsupported' });
});

t.test('a vocabulary without weights gives no context', async (t) => {
  const path = fileURLToPath(new URL('../../../vendor/llama.cpp/models/ggml-vocab-gpt-2.gguf', import.meta.url));
  await t.rejects(addon.loadModel({ path, gpuLayers: 0, mmap: true, mlock: false }).promise, { code: 'model_unusable' });
});

t.test('a model whose vectors or scores have other sizes than its metadata says is refused', async (t) => {
  const path = join(t.testdir(), 'misstated.gguf');
  const open = async (pooling: 'mean' | 'rank', changes: Parameters<typeof writeReranker>[2]): Promise<void> => {
    await writeReranker('bert', path, changes);
    const model = await addon.loadModel({ path, gpuLayers: 0, mmap: false, mlock: false }).promise;
    await model.createEmbedder({ ...options, pooling }).finally(() => model.close());
  };
  const wrong = (got: number) => ({ code: 'model_unusable', message: new RegExp(`as the metadata says, got ${got} from the tensors`) });
  const size = (values: number): Meta[] => [['bert.embedding_length_out', types.u32, values]];
  const labels = (count: number): Meta[] => [['bert.classifier.output_labels', types.array, Array.from({ length: count }, (_, i) => `label ${i}`), types.string]];
  await open('mean', { head: false, more: size(64) });
  for (const values of [16, 100_000]) await t.rejects(open('mean', { head: false, more: size(values) }), wrong(64), `vectors of ${values}`);
  await open('rank', {});
  await open('rank', { more: labels(1) });
  for (const count of [1, 1000]) await t.rejects(open('rank', { without: /^cls\.output/, more: labels(count) }), wrong(64), `a head without its last part, ${count} labels`);
});
