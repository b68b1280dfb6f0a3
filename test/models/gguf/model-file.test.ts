import t from 'tap';
import { chmodSync, linkSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RecuaError } from '#recua/errors.js';
import { fileSource } from '#recua/models/gguf/byte-source.js';
import { changeOf, checkedFiles, fingerprintOf, readModelFile } from '#recua/models/gguf/model-file.js';
import { gguf, sound, types } from '../gguf-bytes.js';
import type { Meta, Spec } from '../gguf-bytes.js';

t.test('a new link or mode of a file is no change, new contents are', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf(sound));
  const checked = checkedFiles(await readModelFile(path));
  linkSync(path, `${path}.link`);
  chmodSync(path, 0o600);
  t.equal(await changeOf(checked), undefined);
  utimesSync(path, 1, 1);
  t.equal(await changeOf(checked), 'changed');
  rmSync(path);
  t.equal(await changeOf(checked), 'gone');
});

t.test('readModelFile() summarizes a model', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf(sound));
  t.match(await readModelFile(path), {
    tensorCount: 2, architecture: 'llama', name: 'Tiny', parameters: 128, quantization: 'Q8_0', contextTrain: 128, embeddingSize: 32, layers: 2,
    vocabSize: 3, hasChatTemplate: true, chatTemplate: '{{ messages }}',
  });
});

t.test('a new link or mode of a file leaves its fingerprint, a write changes it', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf(sound));
  const fingerprint = async () => fingerprintOf(checkedFiles(await readModelFile(path)));
  const before = await fingerprint();
  linkSync(path, `${path}.linked.gguf`);
  chmodSync(path, 0o600);
  t.equal(await fingerprint(), before);
  writeFileSync(path, gguf(sound));
  utimesSync(path, 1_000, 1_000);
  t.not(await fingerprint(), before);
});

t.test('readModelFile() reads a file that is removed meanwhile', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf(sound));
  utimesSync(path, 1_000, 1_000);
  const open = async (file: string) => {
    const source = await fileSource(file);
    rmSync(file);
    return source;
  };
  t.match(await readModelFile({ file: path, open }), { name: 'Tiny', createdSeconds: 1_000 });
});

t.test('readModelFile() names the most common type if the file names no quantization', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf({ ...sound, metadata: [] }));
  t.match(await readModelFile(path), { quantization: 'F32', architecture: '', vocabSize: 0, hasChatTemplate: false });
});

t.test('numbers on which llama.cpp would end the process are refused', async (t) => {
  const path = join(t.testdir(), 'bad.gguf');
  const others = sound.metadata!.filter(([key]) => key !== 'llama.block_count');
  for (const [key, type, value] of [
    ['llama.block_count', types.u32, 0], ['llama.block_count', types.u32, 513], ['llama.block_count', types.u32, 4_294_967_295],
    ['llama.attention.layer_norm_rms_epsilon', types.f32, -1], ['llama.attention.layer_norm_epsilon', types.f32, NaN], ['llama.attention.group_norm_epsilon', types.f32, Infinity],
  ] satisfies Meta[]) {
    writeFileSync(path, gguf({ ...sound, metadata: [...others, [key, type, value]] }));
    await t.rejects(readModelFile(path), { code: 'invalid_gguf', message: `expected ${key} to be` }, `${key} ${value}`);
  }
  writeFileSync(path, gguf({ ...sound, metadata: [...sound.metadata!, ['llama.posnet.block_count', types.u32, 0]] }));
  t.equal((await readModelFile(path)).layers, 2, 'other parts of a model may have no layers');
});

t.test('an architecture that llama.cpp would read otherwise is refused', async (t) => {
  const path = join(t.testdir(), 'bad.gguf');
  const key = 'general.architecture';
  const blocks: Meta = ['llama.block_count', types.u32, 513];
  // So many texts before it that a last one of five bytes is not kept.
  const kept = 8 * 1024 * 1024 - blocks[0].length - key.length - 4;
  const sizes = Array.from({ length: 33 }, (_, i) => Math.floor((kept + i) / 33));
  const texts = sizes.map((size, i): Meta => [`text ${String(i).padStart(2)}`, types.string, 'x'.repeat(size - 7)]);
  for (const metadata of [
    [[key, types.string, 'llama\0x'], blocks], [...texts, blocks, [key, types.string, 'llama']], [[key, types.u32, 1], blocks],
  ] satisfies Meta[][]) {
    writeFileSync(path, gguf({ ...sound, metadata }));
    await t.rejects(readModelFile(path), { code: 'invalid_gguf', message: 'expected general.architecture to be a short text' });
  }
});

t.test('numbers that contradict each other are refused', async (t) => {
  const path = join(t.testdir(), 'bad.gguf');
  const names = ['expert_count', 'expert_used_count', 'attention.head_count', 'attention.head_count_kv', 'attention.key_length', 'rope.dimension_count'];
  const others = sound.metadata!.filter(([key]) => !names.some((name) => key === `llama.${name}`));
  type Numbers = Record<string, number | number[]>;
  const write = (numbers: Numbers) => writeFileSync(path, gguf({
    ...sound, metadata: [...others, ...Object.entries(numbers).map(([name, value]): Meta => [`llama.${name}`, Array.isArray(value) ? types.array : types.u32, value, types.u32])],
  }));
  const wrong: [numbers: Numbers, told: string][] = [
    [{ expert_count: 4, expert_used_count: 5 }, 'expected llama.expert_used_count to be from 1 to 4, got 5'],
    [{ expert_count: 4, expert_used_count: 0 }, 'expected llama.expert_used_count to be from 1 to 4, got 0'],
    [{ expert_count: 4, expert_used_count: [2, 5] }, 'expected llama.expert_used_count to be from 1 to 4, got 5'],
    [{ expert_count: 4 }, 'expected llama.expert_used_count to be from 1 to 4, got none'],
    [{ expert_used_count: 2 }, 'expected llama.expert_used_count to be 0, without experts, got 2'],
    [{ expert_count: 1025, expert_used_count: 2 }, 'expected llama.expert_count to be at most 1024, got 1025'],
    [{ expert_group_count: 1 }, 'expected llama.expert_group_count to be 0, or a part of 0 experts, got 1'],
    [{ expert_count: 4, expert_used_count: 2, expert_group_count: 3 }, 'expected llama.expert_group_count to be 0, or a part of 4 experts, got 3'],
    [{ expert_count: 4, expert_used_count: 2, expert_group_count: 4 }, 'expected llama.expert_group_count to be 0, or a part of 4 experts, got 4'],
    [{ expert_count: 4, expert_used_count: 2, expert_group_count: 2, expert_group_used_count: 2 }, 'expected llama.expert_group_used_count to be from 1 to 1, got 2'],
    [{ nextn_predict_layers: 3 }, 'expected llama.nextn_predict_layers to be at most 2, got 3'],
    [{ 'attention.head_count_kv': 3, 'attention.head_count': 4 }, 'expected llama.attention.head_count_kv to be a divisor of 4 heads, got 3'],
    [{ 'rope.dimension_count': 0, 'attention.head_count': 4 }, 'expected llama.rope.dimension_count to be an even number from 2, got 0'],
    [{ 'rope.dimension_count': 7, 'attention.head_count': 4 }, 'expected llama.rope.dimension_count to be an even number from 2, got 7'],
    [{ 'rope.dimension_count': 0, 'attention.head_count': [4, 4] }, 'expected llama.rope.dimension_count to be an even number from 2, got 0'],
    [{ 'rope.dimension_count_swa': 0, 'attention.head_count': 4 }, 'expected llama.rope.dimension_count_swa to be an even number from 2, got 0'],
    [{ 'rope.dimension_count': 10, 'attention.head_count': [4, 2] }, 'expected llama.rope.dimension_count to be at most 8, the size of a head, got 10'],
    [{ 'rope.dimension_count': 8, 'attention.head_count': 4, 'attention.key_length': 6 }, 'expected llama.rope.dimension_count to be at most 6, the size of a head, got 8'],
    [{ 'rope.dimension_count_swa': 10, 'attention.head_count': 4 }, 'expected llama.rope.dimension_count_swa to be at most 8, the size of a head, got 10'],
    [{ 'rope.dimension_count_swa': 8, 'attention.head_count': 4, 'attention.key_length_swa': 6 }, 'expected llama.rope.dimension_count_swa to be at most 6, the size of a head, got 8'],
    [{ 'attention.key_length': 0, 'attention.head_count': 4 }, 'expected llama.attention.key_length to be at least 1, got 0'],
    [{ 'attention.head_count_kv': [2, 3], 'attention.head_count': 4 }, 'expected llama.attention.head_count_kv to be a divisor of 4 heads, got 3'],
    [{ 'attention.head_count_kv': 4, 'attention.head_count': [4, 6] }, 'expected llama.attention.head_count_kv to be divisors of the heads of their layers, got 4'],
    [{ 'attention.head_count_kv': [2, 4], 'attention.head_count': [4, 6] }, 'expected llama.attention.head_count_kv to be divisors of the heads of their layers, got 4'],
  ];
  for (const [numbers, told] of wrong) {
    write(numbers);
    await t.rejects(readModelFile(path), { code: 'invalid_gguf', message: told });
  }
  const scaled = (type: string) => writeFileSync(path, gguf({ ...sound, metadata: [...others, ['llama.rope.scaling.type', types.string, type]] }));
  for (const other of ['squeezed', 'x'.repeat(100_000)]) {
    scaled(other);
    await t.rejects(readModelFile(path), { code: 'invalid_gguf', message: 'expected llama.rope.scaling.type to be one of none, linear, yarn, longrope, got another text' });
  }
  scaled('yarn');
  await readModelFile(path);
  const right: Numbers[] = [
    { expert_count: 0, expert_used_count: 0 }, { expert_count: 4, expert_used_count: 4 },
    { expert_count: 4, expert_used_count: [0, 4] }, { expert_count: 4, expert_used_count: 2, expert_group_count: 1 },
    { expert_count: 4, expert_used_count: 2, expert_group_count: 2, expert_group_used_count: 1 }, { nextn_predict_layers: 1 },
    { 'attention.head_count': [4, 6], 'attention.head_count_kv': [2, 3] }, { 'attention.head_count': 4, 'attention.head_count_kv': [0, 2] },
    { 'attention.head_count': 4, 'attention.head_count_kv': 0 }, { 'attention.head_count': 4, 'attention.head_count_kv': 2 }, { 'attention.head_count_kv': 3 },
    { 'rope.dimension_count': 0 }, { 'rope.dimension_count': 0, 'attention.head_count': 0 }, { 'rope.dimension_count': 8, 'attention.head_count': 4 },
    { 'rope.dimension_count': 16, 'attention.head_count': 4, 'attention.key_length': 16 }, { 'rope.dimension_count': 16, 'attention.head_count': [0, 4] },
    { 'rope.dimension_count': 4, 'rope.dimension_count_swa': 12, 'attention.head_count': 4, 'attention.key_length_swa': 12 },
  ];
  for (const numbers of right) {
    write(numbers);
    await readModelFile(path);
  }
});

function part(index: number, total: number, tensors = 2): Buffer {
  const split: Meta[] = [['split.no', types.u16, index], ['split.count', types.u16, total], ['split.tensors.count', types.i32, tensors]];
  const own = sound.tensors![index]! as { offset: number };
  const spec: Spec = {
    metadata: [...(index === 0 ? sound.metadata! : []), ...split],
    tensors: [{ ...own, offset: 0 } as never],
    dataBytes: 128,
  };
  return gguf(spec);
}

t.test('readModelFile() reads the parts of a split model as one', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'm-00001-of-00002.gguf');
  writeFileSync(path, part(0, 2));
  writeFileSync(join(folder, 'm-00002-of-00002.gguf'), part(1, 2));
  t.match(await readModelFile(path), { tensorCount: 2, parameters: 128, architecture: 'llama' });
});

t.test('readModelFile() refuses an incomplete split model, and says which part', async (t) => {
  const folder = t.testdir();
  const first = join(folder, 'm-00001-of-00002.gguf');
  const second = join(folder, 'm-00002-of-00002.gguf');
  writeFileSync(first, part(0, 2));
  await t.rejects(readModelFile(first), { code: 'invalid_gguf', message: /part 2 is missing.*m-00002-of-00002\.gguf/ });
  writeFileSync(second, part(0, 2));
  await t.rejects(readModelFile(first), { code: 'invalid_gguf', message: /does not hold part 2/ });
  writeFileSync(second, part(1, 2));
  await t.rejects(readModelFile(second), { code: 'invalid_gguf', message: /not the first; name that: .*m-00001-of-00002\.gguf/ });
  writeFileSync(first, part(0, 2, 5));
  await t.rejects(readModelFile(first), { code: 'invalid_gguf', message: /2 tensors instead of 5/ });
  rmSync(second);
  const renamed = join(folder, 'renamed.gguf');
  writeFileSync(renamed, part(0, 2));
  await t.rejects(readModelFile(renamed), { code: 'invalid_gguf', message: /give the files their names back/ });
});

t.test('readModelFile() opens the parts of a split model through its caller, and closes each', async (t) => {
  const files = new Map([['sub/m-00001-of-00002.gguf', part(0, 2)], ['sub/m-00002-of-00002.gguf', part(1, 2)]]);
  const left = new Set<string>();
  const open = async (file: string) => {
    const bytes = files.get(file);
    if (!bytes) throw new RecuaError('model_not_found', `no ${file}`);
    left.add(file);
    return {
      name: `owner/repo/${file}`, sizeBytes: bytes.length, close: async () => { left.delete(file); },
      read: async (target: Buffer, offset: number) => bytes.copy(target, 0, offset),
    };
  };
  t.match(await readModelFile({ file: 'sub/m-00001-of-00002.gguf', open }), { tensorCount: 2, createdSeconds: 0, parts: [{ path: 'owner/repo/sub/m-00001-of-00002.gguf' }, {}] });
  t.equal(left.size, 0);
  files.delete('sub/m-00002-of-00002.gguf');
  await t.rejects(readModelFile({ file: 'sub/m-00001-of-00002.gguf', open }), { code: 'invalid_gguf', message: /part 2 is missing: there is no sub\/m-00002-of-00002\.gguf/ });
  t.equal(left.size, 0);
});
