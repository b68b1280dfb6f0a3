import t from 'tap';
import type { Test } from 'tap';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readProcessor } from '#recua/models/needs/cpu-weights.js';
import type { ProcessorFeature } from '#recua/models/needs/cpu-weights.js';
import { estimateMemory, largestContext } from '#recua/models/needs/memory.js';
import { machineMemory } from '#recua/system/machine-memory.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { start } from '../../cli/recua.js';
import { writeReranker } from '../../native/random-reranker.js';
import { post } from '../../server/app-under-test.js';
import { gguf, types } from '../gguf-bytes.js';
import type { Meta, Spec } from '../gguf-bytes.js';

const randomWriter = new URL('../../../bench/random-model.mjs', import.meta.url).href;
const f16 = { contextSize: 1024, parallel: 1, cacheTypeK: 'f16', cacheTypeV: 'f16' };

async function modelOf(t: Test, metadata: Meta[], architecture = 'llama') {
  const path = join(t.testdir(), 'm.gguf');
  const common: Meta[] = [
    ['general.architecture', types.string, architecture], [`${architecture}.context_length`, types.u32, 8192], [`${architecture}.embedding_length`, types.u32, 512],
    [`${architecture}.block_count`, types.u32, 4],
  ];
  writeFileSync(path, gguf({ metadata: [...common, ...metadata.map(([key, ...rest]): Meta => [`${architecture}.${key}`, ...rest])] }));
  return await readModelFile(path);
}

/**
 * The bytes that llama.cpp reports. Weights are read, not mapped: a mapping also covers the parts
 * that were copied out of it.
 */
async function taken(t: Test, path: string, flags: string[], embedded?: string) {
  const running = start(['api', path, '--port', '0', '--log-level', 'debug', '--gpu-layers', '0', '--no-mmap', ...flags]);
  t.teardown(() => running.child.kill('SIGKILL'));
  const [, url] = await running.saw(/Recua listens on (\S+)/);
  // The context for embeddings is opened by the first one.
  if (embedded !== undefined) t.equal((await post(`${url}/v1/embeddings`, { input: embedded })).status, 200);
  running.child.kill('SIGTERM');
  const log = (await running.ended).stderr;
  // Each kind of buffer has a line.
  const bytes = (kind: string) => [...log.matchAll(new RegExp(`${kind} buffer size = +([\\d.]+) MiB`, 'g'))].reduce((sum, [, size]) => sum + Number(size) * 1024 * 1024, 0);
  return { weights: bytes('model'), kv: bytes('KV'), compute: bytes('compute') };
}

function near(t: Test, ours: number, theirs: number, share: number, what: string) {
  t.ok(theirs > 0 && Math.abs(ours - theirs) <= theirs * share + 8192, `${what}: ${ours} instead of ${theirs}`);
}

t.test('estimateMemory() of the built-in model matches what llama.cpp takes', async (t) => {
  const model = await readModelFile(builtinPath);
  for (const [flags, options] of [
    [['-c', '4096', '-np', '4'], { ...f16, contextSize: 4096, parallel: 4 }],
    [['-c', '700', '-np', '3', '-ctk', 'q8_0', '-ctv', 'q8_0'], { contextSize: 700, parallel: 3, cacheTypeK: 'q8_0', cacheTypeV: 'q8_0' }],
    [['-c', '4096', '-np', '1', '-ub', '2048'], { ...f16, contextSize: 4096, microBatchSize: 2048 }],
    [['-c', '4096', '-np', '2', '-b', '128', '-fa', 'off'], { ...f16, contextSize: 4096, parallel: 2, batchSize: 128, flashAttention: 'off' }],
  ] as const) {
    const { weights, kv, compute } = await taken(t, 'builtin', [...flags]);
    const need = estimateMemory(model, options);
    near(t, need.weightsBytes, weights, 0.005, 'weights');
    near(t, need.kvBytes, kv, 0.005, 'KV cache');
    near(t, need.computeBytes, compute, 0.1, 'compute buffers');
    t.equal(need.totalBytes, need.weightsBytes + need.kvBytes + need.computeBytes);
  }
});

t.test('estimateMemory() of an embedding model counts that one pass holds a whole input', async (t) => {
  const path = join(t.testdir(), 'bert.gguf');
  await writeReranker('bert', path, { head: false });
  const { kv, compute } = await taken(t, path, [], 'a text');
  const need = estimateMemory(await readModelFile(path), { ...f16, parallel: 4 });
  t.same([need.kvBytes, kv], [0, 0]);
  near(t, need.computeBytes, compute, 0.1, 'compute buffers');
});

t.test('estimateMemory() of a quantized model counts the copies that this processor makes', async (t) => {
  const path = join(t.testdir(), 'q8_0.gguf');
  const { writeRandomModel } = await import(randomWriter) as { writeRandomModel(name: string, path: string): void };
  writeRandomModel('nano', path);
  const { weights } = await taken(t, path, ['-c', '256', '-np', '1']);
  near(t, estimateMemory(await readModelFile(path), f16).weightsBytes, weights, 0.005, 'weights');
});

t.test('estimateMemory() counts weights as each processor stores them', async (t) => {
  const matrices = (type: number, blockElements: number, blockBytes: number, rows: number): Spec => {
    const size = 256 * rows / blockElements * blockBytes;
    const space = Math.ceil(size / 32) * 32;
    return {
      metadata: [['general.architecture', types.string, 'llama'], ['llama.context_length', types.u32, 512], ['llama.embedding_length', types.u32, 256], ['llama.block_count', types.u32, 1]],
      tensors: ['token_embd.weight', 'blk.0.attn_q.weight'].map((name, i) => ({ name, shape: [256, rows], type, offset: i * space })), dataBytes: 2 * space,
    };
  };
  const weightsOf = async (spec: Spec, processor: ProcessorFeature[]) => {
    const path = join(t.testdir(), 'm.gguf');
    writeFileSync(path, gguf(spec));
    return estimateMemory(await readModelFile(path), { ...f16, processor: new Set(processor) }).weightsBytes;
  };
  const q80 = matrices(8, 32, 34, 64);
  const inFile = 256 * 64 / 32 * 34;
  const packed = 256 * 64 / 32 * 38;
  t.equal(await weightsOf(q80, []), 2 * inFile, 'no copies');
  t.equal(await weightsOf(q80, ['avx2', 'avx512']), 2 * inFile, 'AVX has no layout of its own for Q8_0');
  t.equal(await weightsOf(q80, ['amx', 'avx2', 'avx512']), inFile + 2 * packed, 'AMX has, and the output a copy of the embeddings');
  t.equal(await weightsOf(q80, ['dotprod']), 3 * inFile, 'an ARM copies as much as there is');
  const odd = matrices(8, 32, 34, 40);
  t.equal(await weightsOf(odd, ['amx']), 2 * 256 * 40 / 32 * 34, 'no whole tiles, no copy');
  const q4k = matrices(12, 256, 144, 64);
  t.equal(await weightsOf(q4k, ['avx2']), 2 * 64 * 144, 'our products take it as it is in the file');
  t.equal(await weightsOf(matrices(2, 32, 18, 64), ['avx2']), 3 * 256 * 64 / 32 * 18, 'ggml copies Q4_0');
  t.equal(await weightsOf(q4k, ['avx2', 'amx']), 64 * 144 + 2 * 64 * 148);
});

t.test('readProcessor() reads what Linux reports of x86 and ARM', (t) => {
  const features = (text: string) => [...readProcessor(text)].sort();
  t.same(features('processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni amx_tile amx_int8\nbugs\t\t: x\n'), ['amx', 'avx2', 'avx512']);
  t.same(features('flags\t\t: fpu avx2 amx_int8\n'), ['avx2'], 'no AMX without VNNI');
  t.same(features('Features\t: fp asimd asimddp i8mm\n'), ['dotprod', 'i8mm']);
  t.same(features(''), []);
  t.end();
});

t.test('estimateMemory() counts heads and their lengths layer by layer', async (t) => {
  const plain = await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.u32, 2]]);
  t.equal(estimateMemory(plain, f16).kvBytes, 4 * 1024 * (2 * 64 + 2 * 64) * 2);
  t.equal(estimateMemory(plain, { ...f16, cacheTypeK: 'q8_0' }).kvBytes, 4 * 1024 * (2 * 64 / 32 * 34 + 2 * 64 * 2));
  t.equal(estimateMemory(plain, { ...f16, contextSize: 1000 }).kvBytes, estimateMemory(plain, f16).kvBytes, 'cells come by 256');
  t.equal(estimateMemory(plain, { ...f16, contextSize: 0 }).kvBytes, estimateMemory(plain, { ...f16, contextSize: 8192 }).kvBytes);
  t.equal(estimateMemory(plain, { ...f16, contextSize: 99_999 }).kvBytes, estimateMemory(plain, { ...f16, contextSize: 8192 }).kvBytes, 'no context is larger than the trained one');
  const lengths = await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.u32, 2], ['attention.key_length', types.u32, 128], ['attention.value_length', types.u32, 96]]);
  t.equal(estimateMemory(lengths, f16).kvBytes, 4 * 1024 * 2 * (128 + 96) * 2);
  const list = await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.array, [8, 4, 2, 1], types.u32]]);
  t.equal(estimateMemory(list, f16).kvBytes, 15 * 1024 * 64 * 2 * 2);
});

t.test('estimateMemory() of recurrent layers counts their states, once per request', async (t) => {
  const ssm: Meta[] = [['ssm.conv_kernel', types.u32, 4], ['ssm.inner_size', types.u32, 1024], ['ssm.state_size', types.u32, 16], ['ssm.group_count', types.u32, 0]];
  const state = 4 * (3 * 1024 + 16 * 1024);
  const pure = await modelOf(t, ssm, 'mamba');
  t.equal(estimateMemory(pure, f16).kvBytes, 4 * state);
  t.equal(estimateMemory(pure, { ...f16, parallel: 3 }).kvBytes, 12 * state);
  const hybrid = await modelOf(t, [...ssm, ['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.array, [0, 0, 2, 0], types.u32]], 'jamba');
  t.equal(estimateMemory(hybrid, f16).kvBytes, 3 * state + 1024 * 2 * 64 * 2 * 2);
  const threeKinds = await modelOf(t, [
    ...ssm, ['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.array, [0, 0, 2, 0], types.u32], ['feed_forward_length', types.array, [0, 64, 0, 0], types.u32],
  ], 'nemotron_h');
  t.equal(estimateMemory(threeKinds, f16).kvBytes, 2 * state + 1024 * 2 * 64 * 2 * 2, 'a feed-forward layer has no state');
});

t.test('estimateMemory() needs no cache if nothing is remembered, and ends on absurd claims', async (t) => {
  t.equal(estimateMemory(await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.causal', types.bool, false]], 'bert'), f16).kvBytes, 0);
  const absurd = await modelOf(t, [['attention.head_count', types.u64, 2n ** 63n], ['attention.head_count_kv', types.string, 'x'], ['attention.key_length', types.f64, NaN], ['ssm.state_size', types.i32, -5]]);
  t.ok(Number.isFinite(estimateMemory({ ...absurd, layers: 512 }, f16).totalBytes));
});

t.test('largestContext() leaves room for what a larger pass computes', async (t) => {
  const model = await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.u32, 2], ['feed_forward_length', types.u32, 2048]]);
  const budget = estimateMemory(model, { ...f16, contextSize: 4096 }).totalBytes;
  const large = { ...f16, microBatchSize: 4096, batchSize: 4096 };
  const fitting = largestContext(model, budget, large);
  t.ok(fitting > 0 && fitting < largestContext(model, budget, f16), `${fitting}`);
  t.ok(estimateMemory(model, { ...large, contextSize: fitting }).totalBytes <= budget);
});

t.test('largestContext() is the largest that fits', async (t) => {
  const model = await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.u32, 2]]);
  const need = (contextSize: number) => estimateMemory(model, { ...f16, contextSize }).totalBytes;
  t.equal(largestContext(model, need(8192), f16), 8192);
  t.equal(largestContext(model, 1e15, f16), 8192, 'never more than the training size');
  t.equal(largestContext(model, need(8192) - 1, f16), 8192 - 256);
  t.equal(largestContext(model, need(2048), f16), 2048);
  t.equal(largestContext(model, need(256) - 1, f16), 0);
  t.equal(largestContext(model, 0, f16), 0);
});

t.test('machineMemory() reports some memory, and no more than there is', (t) => {
  const { totalBytes, availableBytes } = machineMemory();
  t.ok(totalBytes > 1e8 && totalBytes < 1e14, `${totalBytes}`);
  t.ok(availableBytes > 0 && availableBytes <= totalBytes, `${availableBytes}`);
  t.end();
});
