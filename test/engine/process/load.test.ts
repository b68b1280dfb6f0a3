// engine/process/load: whether ggml copies weights into its own layouts, and what is tried before a
// model counts as loaded.
import t, { type Test } from 'tap';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RecuaError } from '#recua/errors.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { writeReranker } from '../../native/random-reranker.js';
import { options } from '../requests.js';
import { repacks } from '#recua/engine/process/load.js';

const addon = (best: string, features: Record<string, string> = {}) => ({
  matmul: () => ({ kernels: ['avx512'], best, types: ['q8_0', 'q4_K', 'q5_K', 'q6_K'], taken: 0 }),
  backends: () => [{ name: 'CPU', file: '', features, reason: '' }],
});
const onCpu = { gpuLayers: 0, devices: [] };
const q4km = ['products f32', 'products q4_K', 'products q6_K'];

t.test('weights stay as in the file where Recua multiplies all types that ggml would copy', (t) => {
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: q4km }, onCpu), false);
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: ['products f16'] }, onCpu), false, 'there is nothing to copy');
  t.end();
});

t.test('otherwise ggml copies them', (t) => {
  const auto = { matmul: 'auto', kernels: q4km } as const;
  t.equal(repacks(addon(''), auto, onCpu), true, 'no kernel, or it is refused');
  t.equal(repacks(addon('avx512'), { ...auto, matmul: 'ggml' }, onCpu), true);
  t.equal(repacks(addon('avx512'), { ...auto, kernels: [...q4km, 'experts q4_K'] }, onCpu), true, 'experts are multiplied by ggml');
  t.equal(repacks(addon('avx512'), { ...auto, kernels: ['products q4_0'] }, onCpu), true, 'a type that only ggml multiplies');
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: undefined }, onCpu), true, 'types that are not known');
  t.equal(repacks(addon('avx512', { AMX_INT8: '1' }), auto, onCpu), true);
  t.equal(repacks(addon('avx512'), auto, { gpuLayers: 5, devices: ['CUDA0'] }), true);
  t.end();
});

/** Starts an engine with a copy of a model in which the bytes behind `mark` are others. */
function startChanged(t: Test, folder: string, path: string, mark: string, change: (bytes: Buffer) => void) {
  const bytes = readFileSync(path);
  const at = bytes.indexOf(mark);
  t.ok(at > 0, mark);
  change(bytes.subarray(at));
  const changed = join(folder, 'changed.gguf');
  writeFileSync(changed, bytes);
  const engine = startEngine({ ...options, modelPath: changed });
  t.teardown(() => engine.close());
  return engine;
}

async function loadChanged(...given: Parameters<typeof startChanged>) {
  return await startChanged(...given).ready().then(() => undefined, (error: RecuaError) => error);
}

t.test('a model that ends the process with its first token does not count as loaded', async (t) => {
  const norm = 'output_norm.weight';
  const folder = t.testdir();
  t.equal(await loadChanged(t, folder, builtinPath, norm, () => {}), undefined);
  // Its type, behind its one dimension, becomes I32, with which ggml cannot multiply.
  const error = await loadChanged(t, folder, builtinPath, norm, (bytes) => bytes.writeUInt32LE(26, norm.length + 12));
  t.match(error, { code: 'model_unusable', message: /died while loading/ });
});

t.test('a chat template that was given and does not compile is refused', async (t) => {
  const start = (chatTemplate: string) => {
    const engine = startEngine({ ...options, chatTemplate });
    t.teardown(() => engine.close());
    return engine.ready();
  };
  await t.rejects(start('{{ messages'), { code: 'model_unusable', message: /^The chat template does not compile: / });
  await t.resolves(start('{{ raise_exception("Not this chat.") }}'), 'it may accept another');
});

t.test('a model without memory only embeds, even if its file says that it generates', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'bert.gguf');
  await writeReranker('bert', path, { head: false });
  const key = 'bert.attention.causal';
  const engine = startChanged(t, folder, path, key, (bytes) => bytes.writeUInt8(1, key.length + 4));
  t.match(await engine.ready(), { canGenerate: false, canEmbed: true });
  const { vectors } = await engine.embed({ inputs: ['hello '.repeat(100)] });
  t.equal(vectors[0]!.length, 64);
});

t.test('a vocabulary that cannot write every text is refused', async (t) => {
  const { writeRandomModel } = await import(new URL('../../../bench/random-model.mjs', import.meta.url).href) as { writeRandomModel(name: string, path: string): void };
  const folder = t.testdir();
  const path = join(folder, 'spm.gguf');
  writeRandomModel('rows256', path);
  t.equal(await loadChanged(t, folder, path, '<0xF0>', () => {}), undefined);
  t.match(await loadChanged(t, folder, path, '<0xF0>', (bytes) => bytes.write('<0xf0>')), { code: 'model_unusable', message: /tokens for every character/ });
});

t.test('a context in training that llama.cpp reads as negative is unknown', async (t) => {
  const length = 'llama.context_length';
  const engine = startChanged(t, t.testdir(), builtinPath, length, (bytes) => bytes.writeUInt32LE(3_000_000_000, length.length + 4));
  t.equal((await engine.ready()).contextTrain, 0);
});
