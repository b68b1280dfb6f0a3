import t from 'tap';
import { layerNeed, offloadWish } from '#recua/models/needs/layer-need.js';
import { defaults } from '#recua/settings/config.js';
import { estimateMemory } from '#recua/models/needs/memory.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import type { ModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';

const options = { contextSize: 1024, parallel: 2, cacheTypeK: 'f16', cacheTypeV: 'f16' };

t.test('layers, output and token embeddings add up to all weights', async (t) => {
  const model = await readModelFile(builtinPath);
  const need = layerNeed(model, options);
  const { weightsBytes, kvBytes, computeBytes } = estimateMemory(model, options);
  const tensors = model.parts.flatMap((part) => part.tensors);
  const embedding = tensors.find(({ name }) => name === 'token_embd.weight')!.sizeBytes;
  const tied = !tensors.some(({ name }) => name === 'output.weight');
  const sum = need.layersBytes.reduce((a, b) => a + b, 0) + need.outputBytes;
  t.equal(need.layersBytes.length, model.layers);
  t.ok(Math.abs(sum - (weightsBytes + kvBytes - (tied ? 0 : embedding))) <= model.layers, `${sum}`);
  t.equal(need.computeBytes, computeBytes);
  t.ok(need.layersBytes.every((bytes) => bytes > kvBytes / model.layers), 'each layer has weights beside its keys and values');
});

t.test('embeddings count as the output only if they are its matrix, too', async (t) => {
  const model = await readModelFile(builtinPath);
  const [file] = model.parts;
  const tensor = (name: string, sizeBytes: number) => ({ ...file.tensors[0]!, name, sizeBytes });
  const having = (...tensors: (typeof file.tensors)[number][]): ModelFile => ({ ...model, layers: 1, parts: [{ ...file, tensors }] });
  const common = [tensor('token_embd.weight', 1000), tensor('blk.0.attn_q.weight', 500), tensor('output_norm.weight', 10)];
  t.equal(layerNeed(having(...common), options).outputBytes, 1010);
  t.equal(layerNeed(having(...common, tensor('output.weight', 2000)), options).outputBytes, 2010);
});

t.test('auto knows how much memory a pass of --ubatch-size takes', async (t) => {
  const model = await readModelFile(builtinPath);
  const compute = (microBatchSize: number) => offloadWish({ ...defaults, contextSize: 4096, gpuLayers: 'auto', microBatchSize }, model).layerNeed!.computeBytes;
  t.ok(compute(2048) > 3 * compute(512), `${compute(2048)} instead of ${compute(512)}`);
});
