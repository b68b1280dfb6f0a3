// Which changes of a model’s file make its saved states another model’s.
import t from 'tap';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fingerprintOf } from '#recua/engine/loop/fingerprint.js';
import type { LoadedModel } from '#recua/engine/loop/loaded.js';
import { StateKeeper } from '#recua/engine/loop/state-keeper.js';
import type { PrefixCache } from '#recua/engine/planning/prefix.js';
import { ensureChecked } from '#recua/models/gguf/model-file.js';
import { gguf, sound, types, type Meta, type TensorSpec } from '../../models/gguf-bytes.js';

const f32 = 0;
const width = 4096;
const tensorBytes = width * 4;

/** A file with tensors of 16 KiB. */
function model(names: string[], more: Meta[] = []): Buffer {
  const tensors: TensorSpec[] = names.map((name, i) => ({ name, shape: [width], type: f32, offset: i * tensorBytes }));
  return gguf({ metadata: [...sound.metadata!, ...more], tensors, dataBytes: names.length * tensorBytes });
}

async function load(modelPath: string, cacheTypeK = 'f16', flashAttention = 'auto', contextSize = 4096): Promise<Pick<LoadedModel, 'options' | 'description' | 'files'>> {
  return { options: { modelPath, cacheTypeK, cacheTypeV: 'f16', flashAttention }, description: { contextSize }, files: await ensureChecked(modelPath, []) } as unknown as LoadedModel;
}
const read = async (path: string) => await fingerprintOf(await load(path));

t.test('a change of any tensor, or anywhere in the header, is another model', async (t) => {
  const path = join(t.testdir(), 'model.gguf');
  const names = Array.from({ length: 30 }, (_, i) => `blk.${i}.weight`);
  const bytes = model(names);
  const headerBytes = bytes.length - names.length * tensorBytes;
  writeFileSync(path, bytes);
  const same = await read(path);
  t.equal(await read(path), same);
  t.not(await fingerprintOf(await load(path, 'q8_0')), same);
  t.not(await fingerprintOf(await load(path, 'f16', 'off')), same);
  const places = [bytes.indexOf('Tiny'), bytes.indexOf('messages')];
  for (let i = 0; i < names.length; i += 3) places.push(headerBytes + i * tensorBytes, headerBytes + (i + 1) * tensorBytes - 1);
  for (const place of places) {
    const changed = Buffer.from(bytes);
    changed[place]! ^= 1;
    writeFileSync(path, changed);
    t.not(await read(path), same, `byte ${place}`);
  }
  writeFileSync(path, bytes);
  t.equal(await read(path), same, 'a copy is the same model');
});

t.test('a model file that cannot be read for a moment is read again', async (t) => {
  const path = join(t.testdir(), 'model.gguf');
  writeFileSync(path, model(['blk.0.weight']));
  const loaded = await load(path) as LoadedModel;
  const keeper = new StateKeeper(loaded, {} as PrefixCache, () => undefined);
  loaded.options.modelPath = `${path}.missing`;
  await t.rejects(keeper.identify());
  loaded.options.modelPath = path;
  t.equal(await keeper.identify(), await read(path));
});

t.test('with LongRoPE, so is a context on the other side of the original length', async (t) => {
  const path = join(t.testdir(), 'model.gguf');
  const sized = async (contextSize: number): Promise<string> => await fingerprintOf(await load(path, 'f16', 'auto', contextSize));
  const original: Meta = ['llama.rope.scaling.original_context_length', types.u32, 600];
  writeFileSync(path, model(['rope_factors_long.weight', 'rope_factors_short.weight'], [original]));
  t.equal(await sized(512), await sized(100));
  t.equal(await sized(513), await sized(4096), 'llama.cpp makes 768 tokens of 513');
  t.not(await sized(512), await sized(513));
  writeFileSync(path, model(['rope_freqs.weight'], [original]));
  t.equal(await sized(512), await sized(513));
});

t.test('so is a change of a later part of a split model', async (t) => {
  const paths = [1, 2].map((part) => join(t.testdirName, `model-0000${part}-of-00002.gguf`));
  t.testdir();
  const parts = ['first', 'second'].map((name, i) => model([name], [['split.count', types.u16, 2], ['split.no', types.u16, i], ['split.tensors.count', types.i32, 2]]));
  for (const [i, path] of paths.entries()) writeFileSync(path, parts[i]!);
  const same = await read(paths[0]!);
  const changed = Buffer.from(parts[1]!);
  changed[changed.length - 1]! ^= 1;
  writeFileSync(paths[1]!, changed);
  t.not(await read(paths[0]!), same);
});

t.test('no state is saved for a file that replaced the loaded one', async (t) => {
  const path = join(t.testdir(), 'model.gguf');
  writeFileSync(path, model(['a']));
  const loaded = await load(path);
  await fingerprintOf(loaded);
  writeFileSync(path, readFileSync(path));
  await t.rejects(fingerprintOf(loaded), { code: 'file_unreadable', message: /has changed since it was loaded/ });
});
