// What does not fit into main memory is refused before it is read, with what it needs, and what
// would fit.
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { ensureFits } from '#recua/models/needs/fit.js';
import { estimateMemory } from '#recua/models/needs/memory.js';
import { builtinPath } from '#recua/models/store.js';
import { makeConfig } from '#recua/settings/config.js';

const mebibyte = 2 ** 20;
const machine = (available: number, total = 2 * available) => ({
  totalBytes: total * mebibyte,
  availableBytes: available * mebibyte,
  countsCache: true,
});
const file = await readModelFile(builtinPath);

t.test('a context that does not fit', (t) => {
  const wanted = makeConfig({ contextSize: 4096, parallel: 16 });
  t.equal(ensureFits(file, wanted, machine(1000)), undefined);
  const { code, message } = t.throws(() => ensureFits(file, wanted, machine(100)), RecuaError) as RecuaError;
  t.equal(code, 'model_too_large');
  t.match(message, /^The model does not fit into memory:\n {2}weights +[\d.]+ MiB\n {2}context +160 MiB {2}16 requests of 4096 tokens\n {2}computing +[\d.]+ MiB\n {2}together +[\d.]+ MiB\n/);
  t.match(message, /This machine has 200 MiB, 100 MiB of it available\./);
  const [, context, parallel] = /It fits with --ctx-size (\d+), or with --parallel (\d+)\.$/.exec(message)!.map(Number);
  for (const less of [{ contextSize: context! }, { parallel: parallel! }]) {
    t.equal(ensureFits(file, { ...wanted, ...less }, machine(100)), undefined);
    t.ok(estimateMemory(file, { ...wanted, ...less }).totalBytes <= 100 * mebibyte);
  }
  t.throws(() => ensureFits(file, { ...wanted, parallel: parallel! + 1 }, machine(100)), 'and no more would');
  t.equal(ensureFits(file, wanted, { ...machine(1, 1000), countsCache: false }), undefined, 'macOS does not say what it could free');
  t.throws(() => ensureFits(file, wanted, { ...machine(1, 100), countsCache: false }), { message: /This machine has 100 MiB\. It fits with/ });
  t.throws(() => ensureFits(file, { ...wanted, contextSize: 99_999 }, machine(100)), { message: /16 requests of 4096 tokens/ }, 'no more than the training size');
  t.match((t.throws(() => ensureFits(file, wanted, machine(1)), RecuaError) as RecuaError).message, /Use a smaller quantization or a smaller model\.$/);
  t.end();
});

t.test('weights can be read from disk again, if they are mapped', (t) => {
  const wanted = makeConfig({ contextSize: 256 });
  const weightsBytes = 500 * mebibyte;
  const large = { ...file, parts: [{ ...file.parts[0], tensors: [...file.parts[0].tensors, { ...file.parts[0].tensors[0]!, name: 'blk.0.large', sizeBytes: weightsBytes }] }] } as typeof file;
  t.equal(ensureFits(large, wanted, machine(100, 1000)), undefined, 'other programs may leave room');
  t.match(ensureFits(large, wanted, machine(100, 400)), /and this machine has 400 MiB: weights are read from disk again and again/);
  t.throws(() => ensureFits(large, { ...wanted, mmap: false }, machine(100, 1000)), { code: 'model_too_large' });
  t.equal(ensureFits(large, { ...wanted, mmap: false, gpuLayers: -1 }, machine(100, 1000)), undefined, 'the engine looks at the GPUs');
  t.end();
});

t.test('an upper bound for the context refuses nothing', (t) => {
  const { metadata } = file.parts[0];
  const latent = { ...file, parts: [{ ...file.parts[0], metadata: new Map([...metadata, [`${file.architecture}.attention.kv_lora_rank`, 32]]) }] } as typeof file;
  const wanted = makeConfig({ contextSize: 4096, parallel: 16 });
  t.equal(ensureFits(latent, wanted, machine(100, 1000)), undefined);
  t.end();
});
