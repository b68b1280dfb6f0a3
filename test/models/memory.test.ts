import t from 'tap';
import type { Test } from 'tap';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { estimateMemory, largestContext, machineMemory } from '#recua/models/memory.js';
import { readModelFile } from '#recua/models/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { start } from '../cli/recua.js';
import { gguf, types } from './gguf-bytes.js';
import type { Meta } from './gguf-bytes.js';

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

t.test('estimateMemory() of the embedded model is what llama.cpp takes', async (t) => {
  const model = await readModelFile(builtinPath);
  for (const [flags, options] of [
    [['-c', '4096', '-np', '4'], { ...f16, contextSize: 4096, parallel: 4 }],
    [['-c', '700', '-np', '3', '-ctk', 'q8_0', '-ctv', 'q8_0'], { contextSize: 700, parallel: 3, cacheTypeK: 'q8_0', cacheTypeV: 'q8_0' }],
  ] as const) {
    const running = start(['api', 'builtin', '--port', '0', '--log-level', 'debug', ...flags]);
    t.teardown(() => running.child.kill('SIGKILL'));
    await running.saw(/Recua listens/);
    running.child.kill('SIGTERM');
    const log = (await running.ended).stderr;
    const mebibytes = (pattern: RegExp) => Number(pattern.exec(log)?.[1]) * 1024 * 1024;
    const need = estimateMemory(model, options);
    const near = (ours: number, theirs: number, share: number, what: string) => t.ok(Math.abs(ours - theirs) <= theirs * share + 8192, `${what}: ${ours} instead of ${theirs}`);
    near(need.weightsBytes, mebibytes(/model buffer size = +([\d.]+) MiB/), 0.005, 'weights');
    near(need.kvBytes, mebibytes(/KV buffer size = +([\d.]+) MiB/), 0.005, 'KV cache');
    near(need.computeBytes, mebibytes(/compute buffer size = +([\d.]+) MiB/), 0.1, 'compute buffers');
    t.equal(need.totalBytes, need.weightsBytes + need.kvBytes + need.computeBytes);
  }
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

t.test('estimateMemory() of recurrent layers counts their states, once for each request', async (t) => {
  const ssm: Meta[] = [['ssm.conv_kernel', types.u32, 4], ['ssm.inner_size', types.u32, 1024], ['ssm.state_size', types.u32, 16], ['ssm.group_count', types.u32, 0]];
  const state = 4 * (3 * 1024 + 16 * 1024);
  const pure = await modelOf(t, ssm, 'mamba');
  t.equal(estimateMemory(pure, f16).kvBytes, 4 * state);
  t.equal(estimateMemory(pure, { ...f16, parallel: 3 }).kvBytes, 12 * state);
  const hybrid = await modelOf(t, [...ssm, ['attention.head_count', types.u32, 8], ['attention.head_count_kv', types.array, [0, 0, 2, 0], types.u32]], 'jamba');
  t.equal(estimateMemory(hybrid, f16).kvBytes, 3 * state + 1024 * 2 * 64 * 2 * 2);
});

t.test('estimateMemory() needs no cache where nothing is remembered, and ends on absurd claims', async (t) => {
  t.equal(estimateMemory(await modelOf(t, [['attention.head_count', types.u32, 8], ['attention.causal', types.bool, false]], 'bert'), f16).kvBytes, 0);
  const absurd = await modelOf(t, [['attention.head_count', types.u64, 2n ** 63n], ['attention.head_count_kv', types.string, 'x'], ['attention.key_length', types.f64, NaN], ['ssm.state_size', types.i32, -5]]);
  t.ok(Number.isFinite(estimateMemory({ ...absurd, layers: Number.MAX_SAFE_INTEGER }, f16).totalBytes));
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

t.test('machineMemory() tells of some memory, and of no more than there is', (t) => {
  const { totalBytes, availableBytes } = machineMemory();
  t.ok(totalBytes > 1e8 && totalBytes < 1e14, `${totalBytes}`);
  t.ok(availableBytes > 0 && availableBytes <= totalBytes, `${availableBytes}`);
  t.end();
});
