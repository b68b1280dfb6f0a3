// One thread computes for all contexts of a process, with one OpenMP team. Linux reports how many
// threads there are, and how often they slept.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { NativeContext, NativeModel } from '#recua/addon/addon.js';
import { gpuLayers } from '../../device.js';
import { loadRandom } from '../random-model.js';
import { rerankerNames, writeReranker } from '../random-reranker.js';
import { addon, contextOptions, loadBuiltin, step } from '../setup.js';

const linux = process.platform === 'linux';
const skip = !linux ? 'threads are counted in /proc' : gpuLayers !== 0 && 'GPU drivers have threads of their own';
const team = { threads: 2, threadsBatch: 2 };

const tasks = (): string[] => readdirSync('/proc/self/task');

/** Voluntary context switches of all threads together. */
function sleeps(): number {
  let sum = 0;
  for (const task of tasks()) {
    const status = readFileSync(`/proc/self/task/${task}/status`, 'utf8');
    sum += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)![1]);
  }
  return sum;
}

/** Chained native steps of one greedy sequence from position `from` on. */
async function decode(context: NativeContext, model: NativeModel, from: number, count: number): Promise<void> {
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const input = {
    tokens: Int32Array.of(5), positions: Int32Array.of(from), sequences: Int32Array.of(0), outputs: Uint8Array.of(1),
    rows: 1, samplers: [sampler], rooms: Int32Array.of(count),
  };
  await context.steps(input, count, () => {});
  sampler.close();
}

t.test('chat, embeddings and a second model share one compute thread and its team', { skip }, async (t) => {
  const models: NativeModel[] = [];
  t.teardown(() => Promise.all(models.map((model) => model.close())));
  const open = async (loading: Promise<NativeModel>): Promise<{ model: NativeModel; context: NativeContext }> => {
    const model = await loading;
    models.push(model);
    const context = await model.createContext(contextOptions({ ...team, sequences: 1 }));
    // Two rows and more: a step of one row may leave a thread out.
    await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: 256 }, (_, i) => i + 5), sampler: null }]);
    return { model, context };
  };
  const first = await open(loadBuiltin());
  const alone = tasks().length;

  const embedder = await first.model.createEmbedder({ contextSize: 512, sequences: 4, threads: 2, pooling: 'mean' });
  await embedder.embed(Int32Array.from({ length: 256 }, (_, i) => i + 5), Int32Array.of(128, 128));
  t.equal(tasks().length, alone, 'embedding needs no thread more');

  const path = join(t.testdir(), 'reranker.gguf');
  await writeReranker(rerankerNames[0]!, path);
  const ranking = await addon.loadModel({ path, gpuLayers: 0, mmap: false, mlock: false }).promise;
  models.push(ranking);
  const reranker = await ranking.createEmbedder({ contextSize: 512, sequences: 4, threads: 2, pooling: 'rank' });
  await reranker.embed(Int32Array.from({ length: 64 }, (_, i) => i + 5), Int32Array.of(32, 32));
  t.equal(tasks().length, alone, 'nor does ranking');

  // Quantized weights: all cores repack them during the load, if the processor has code for that.
  const second = await open(loadRandom(t));
  t.equal(tasks().length, alone, 'nor does a second model, loaded and used');
  await decode(first.context, first.model, 256, 16);
  await decode(second.context, second.model, 256, 16);
  t.equal(tasks().length, alone);

  await first.context.close();
  await step(second.context, [{ sequence: 0, from: 272, tokens: [5, 6, 7], sampler: null }]);
  t.equal(tasks().length, alone, 'it stays while one context is left');
  await second.context.close();
  await embedder.close();
  await reranker.close();
  t.ok(tasks().length < alone, 'and ends with the last');
});

t.test('after embeddings, threads of a chat still spin at their barriers', { skip: skip || addon.version.mathThreads < 2 && 'one core' }, async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const context = await model.createContext(contextOptions({ ...team, sequences: 1, contextSize: 4096 }));
  const embedder = await model.createEmbedder({ contextSize: 512, sequences: 4, threads: 2, pooling: 'mean' });
  await embedder.embed(Int32Array.from({ length: 256 }, (_, i) => i + 5), Int32Array.of(128, 128));
  // Other programs make threads sleep, too: the best of many rounds shows what OpenMP does alone.
  let least = Infinity;
  for (let round = 0; round < 20; round++) {
    await context.removeSequence(0, 0, -1);
    const before = sleeps();
    await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: 64 }, (_, i) => i + 5), sampler: null }]);
    least = Math.min(least, sleeps() - before);
  }
  t.comment(`${least} sleeps in a step`);
  t.ok(least < 10, 'fewer than there are barriers in a step');
});
