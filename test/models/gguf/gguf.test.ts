import t from 'tap';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, readdirSync, truncateSync, writeFileSync, openSync, writeSync, closeSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { readGguf } from '#recua/models/gguf/gguf.js';
import { RecuaError } from '#recua/errors.js';
import { gguf, meta, sound, tensor, text, types, u64 } from '../gguf-bytes.js';
import type { Spec, TensorSpec } from '../gguf-bytes.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const vocabularies = join(root, 'vendor', 'llama.cpp', 'models');

t.test('readGguf() reads version, metadata, tensors and where the data begins', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf');
  writeFileSync(path, gguf(sound));
  const file = await readGguf(path);
  t.equal(file.version, 3);
  t.equal(file.metadata.get('general.name'), 'Tiny');
  t.equal(file.metadata.get('llama.block_count'), 2n);
  t.match(file.metadata.get('tokenizer.ggml.tokens'), { itemType: 'string', length: 3, items: ['a', 'b', '<0x0A>'] });
  t.strictSame(file.tensors.map(({ name, type, elements, sizeBytes }) => ({ name, type, elements, sizeBytes })), [
    { name: 'token_embd.weight', type: 'Q8_0', elements: 96, sizeBytes: 102 },
    { name: 'output_norm.weight', type: 'F32', elements: 32, sizeBytes: 128 },
  ]);
  t.equal(file.dataOffset % 32, 0);
  t.equal(file.dataOffset + 256, file.sizeBytes);
});

t.test('readGguf() reads every kind of scalar', async (t) => {
  const path = join(t.testdir(), 'a.gguf');
  writeFileSync(path, gguf({
    metadata: [
      ['u8', types.u8, 200], ['i8', types.i8, -3], ['u16', types.u16, 60000], ['i16', types.i16, -300], ['u32', types.u32, 4e9], ['i32', types.i32, -5],
      ['f32', types.f32, 0.5], ['bool', types.bool, true], ['u64', types.u64, 2n ** 63n], ['i64', types.i64, -1n], ['f64', types.f64, 0.1], ['s', types.string, 'ñandú'],
    ],
  }));
  t.strictSame(Object.fromEntries((await readGguf(path)).metadata), {
    u8: 200, i8: -3, u16: 60000, i16: -300, u32: 4e9, i32: -5, f32: 0.5, bool: true, u64: 2n ** 63n, i64: -1n, f64: 0.1, s: 'ñandú',
  });
});

t.test('readGguf() accepts every vocabulary file of llama.cpp', async (t) => {
  const files = readdirSync(vocabularies).filter((name) => name.endsWith('.gguf'));
  t.ok(files.length > 10);
  for (const name of files) t.equal((await readGguf(join(vocabularies, name))).tensors.length, 0, name);
});

const withTensors = (...tensors: (TensorSpec | Buffer)[]): Spec => ({ ...sound, tensors });
const [embedding, norm] = sound.tensors as [TensorSpec, TensorSpec];
const broken: [string, Spec | Buffer | string, RegExp][] = [
  ['an empty file', '', /is empty/],
  ['a web page', '<!DOCTYPE html><html><body>Log in</body></html>', /web page/],
  ['a web page after white space', '\n  <html>', /web page/],
  ['a git-LFS pointer', 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n', /git-LFS pointer/],
  ['JSON', '{"error":"gated"}', /JSON/],
  ['a zip archive', Buffer.from('PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaa'), /zip archive/],
  ['a safetensors file', Buffer.concat([u64(300), Buffer.from('{"__metadata__":{}}')]), /safetensors/],
  ['an older ggml file', 'tjgg....................', /older ggml/],
  ['anything else', 'hello world, this is no model', /expected it to begin with "GGUF"/],
  ['a big-endian file', Buffer.from('GGUF\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0', 'latin1'), /big-endian/],
  ['version 1', { ...sound, version: 1 }, /version 1/],
  ['version 4', { ...sound, version: 4 }, /got 4/],
  ['a header that is cut off', Buffer.from('GGUF\x03\0\0\0\0\0', 'latin1'), /cut off/],
  ['more keys than there is room for', { ...sound, keyCount: 2n ** 40n }, /metadata keys/],
  ['the largest key count', { ...sound, keyCount: 2n ** 64n - 1n }, /metadata keys/],
  ['more tensors than there is room for', { ...sound, tensorCount: 60_000 }, /60000 tensors/],
  ['the largest tensor count', { ...sound, tensorCount: 2n ** 64n - 1n }, /tensors/],
  ['a key of impossible length', { metadata: [Buffer.concat([u64(2n ** 62n), Buffer.alloc(64)])] }, /length/],
  ['a key that comes twice', { metadata: [['a', types.u8, 1], ['a', types.u8, 2]] }, /comes twice/],
  ['an unknown value type', { metadata: [['a', 77, 1], ['b', types.u32, 1]] }, /unknown type 77/],
  ['a boolean of 2', { metadata: [['a', types.bool, 2], ['b', types.u32, 1]] }, /boolean/],
  ['a text past the end', { metadata: [Buffer.concat([meta(['a', types.string, '']).subarray(0, -8), u64(1000)])] }, /cut off/],
  ['an array past the end', { metadata: [Buffer.concat([meta(['a', types.array, [], types.u32]).subarray(0, -8), u64(2n ** 61n)])] }, /cut off/],
  ['an array of arrays', { metadata: [['a', types.array, [], types.array]] }, /items of arrays/],
  ['an array of an unknown type', { metadata: [['a', types.array, [], 99]] }, /unknown type 99/],
  ['strings in an array past the end', { metadata: [Buffer.concat([meta(['a', types.array, ['x'], types.string]).subarray(0, -9), u64(2n ** 63n), Buffer.alloc(9)])] }, /cut off/],
  ['an alignment of 0', { metadata: [['general.alignment', types.u32, 0]] }, /alignment/],
  ['an alignment of 1, and data at an odd place', { ...withTensors({ ...norm, offset: 0 }), metadata: [['general.alignment', types.u32, 1]] }, /not a multiple of 32/],
  ['an alignment of 33', { metadata: [['general.alignment', types.u32, 33]] }, /alignment/],
  ['an alignment of 2 GiB', { metadata: [['general.alignment', types.u32, 2 ** 31]] }, /alignment/],
  ['an alignment in words', { metadata: [['general.alignment', types.string, 'x']] }, /alignment/],
  ['a tensor of 5 dimensions', withTensors({ ...norm, offset: 0, shape: [1, 1, 1, 1, 32] }), /5 dimensions/],
  ['a tensor of no dimension', withTensors(Buffer.concat([tensor({ ...norm, shape: [] }), Buffer.alloc(16)])), /0 dimensions/],
  ['a tensor of size 0', withTensors({ ...norm, offset: 0, shape: [0] }), /impossible shape/],
  ['a shape whose product overflows 64 bits', withTensors({ ...norm, offset: 0, shape: [2n ** 33n, 2n ** 33n] }), /impossible shape/],
  ['a negative dimension', withTensors({ ...norm, offset: 0, shape: [-32] }), /impossible shape/],
  ['an unknown tensor type', withTensors({ ...norm, offset: 0, type: 4 }), /type 4/],
  ['a matrix of a type without kernels', withTensors({ ...embedding, shape: [32, 3], type: 25 }), /tensor "token_embd.weight" is a matrix of I16, with which llama.cpp cannot compute/],
  ['rows that are no whole blocks', withTensors({ ...embedding, shape: [33, 3] }), /blocks of 32/],
  ['a tensor larger than the file', withTensors({ ...norm, offset: 0, shape: [1 << 20] }), /is cut off or damaged: it has .* Download it again/],
  ['a tensor at an odd place', withTensors({ ...norm, offset: 33 }), /multiple of 32/],
  ['a tensor past the end', withTensors({ ...norm, offset: 2n ** 60n }), /cut off or damaged/],
  ['a tensor that ends past the end', withTensors({ ...norm, offset: 192 }), /cut off/],
  ['tensors that overlap', withTensors(embedding, { ...norm, offset: 96 }), /overlap/],
  ['a tensor that comes twice', withTensors(norm, { ...norm, offset: 0 }), /comes twice/],
  ['a tensor name of 64 bytes', withTensors({ ...norm, name: 'x'.repeat(64) }), /name of tensor 0/],
  ['a tensor name with a NUL, which llama.cpp takes for another', withTensors({ ...norm, name: 'blk.0.ffn_up.weight\0x' }), /ffn_up.weight\\u0000x" contains a NUL/],
  ['a key with a NUL, which llama.cpp takes for another', {
    metadata: [['tokenizer.ggml.tokens', types.array, ['a', '<0x-1>'], types.string], ['tokenizer.ggml.token_type\0', types.array, [1, 6], types.i32]],
  }, /token_type\\u0000" contains a NUL/],
  ['a byte token of -1', {
    metadata: [['tokenizer.ggml.tokens', types.array, ['a', '<0x-1>'], types.string], ['tokenizer.ggml.token_type', types.array, [1, 6], types.i32]],
  }, /byte token/],
  ['a byte token before the vocabulary', {
    metadata: [['tokenizer.ggml.token_type', types.array, [6], types.i32], ['tokenizer.ggml.tokens', types.array, ['<0x100>'], types.string]],
  }, /byte token/],
];

for (const [what, spec, expected] of broken) {
  t.test(`readGguf() refuses ${what}`, async (t) => {
    const path = join(t.testdir(), 'broken.gguf');
    writeFileSync(path, typeof spec === 'string' || Buffer.isBuffer(spec) ? spec : gguf(spec));
    await t.rejects(readGguf(path), { code: 'invalid_gguf', message: expected });
  });
}

t.test('readGguf() accepts the byte 0 as files of XVERSE spell it', async (t) => {
  const path = join(t.testdir(), 'xverse.gguf');
  const metadata: Spec['metadata'] = [['tokenizer.ggml.tokens', types.array, ['a', "<b'\\x00'>"], types.string], ['tokenizer.ggml.token_type', types.array, [1, 6], types.i32]];
  writeFileSync(path, gguf({ metadata }));
  t.match((await readGguf(path)).metadata.get('tokenizer.ggml.tokens'), { items: ['a', "<b'\\x00'>"] });
});

t.test('readGguf() names a missing file and a folder', async (t) => {
  const folder = t.testdir();
  await t.rejects(readGguf(join(folder, 'none.gguf')), { code: 'model_not_found' });
  mkdirSync(join(folder, 'sub.gguf'));
  await t.rejects(readGguf(join(folder, 'sub.gguf')), { code: 'file_unreadable' });
});

t.test('readGguf() keeps little of a text of many megabytes', async (t) => {
  const path = join(t.testdir(), 'long.gguf');
  writeFileSync(path, gguf({ metadata: [['long', types.string, 'x'.repeat(20_000_000)], ['after', types.u8, 7]] }));
  const { metadata } = await readGguf(path);
  t.match(metadata.get('long'), { lengthBytes: 20_000_000 });
  t.equal(metadata.get('after'), 7);
});

t.test('readGguf() always reports a truncated file', async (t) => {
  const whole = gguf(sound);
  const path = join(t.testdir(), 'cut.gguf');
  writeFileSync(path, whole);
  // The last bytes are padding after the last tensor, which a file may omit.
  const needed = whole.length - 1;
  for (let length = needed; length > 0; length--) {
    truncateSync(path, length);
    await readGguf(path).then(
      (file) => t.ok(file.tensors.every((one) => file.dataOffset + one.offset + one.sizeBytes <= length), `${length} bytes`),
      (error: unknown) => { if (!(error instanceof RecuaError) || error.code !== 'invalid_gguf') throw error; },
    );
  }
});

/** A small random generator with a fixed seed, so that a failure repeats. */
function random(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

const nasty = [0n, 1n, 0xffn, 0x7fff_ffffn, 0x8000_0000n, 0xffff_ffffn, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];

function mutate(bytes: Buffer, next: (below: number) => number, reach: number): void {
  const at = next(Math.min(bytes.length, reach));
  switch (next(4)) {
    case 0: bytes[at] = next(256); break;
    case 1: bytes[at] = bytes[at]! ^ (1 << next(8)); break;
    case 2: if (at + 8 <= bytes.length) bytes.writeBigUInt64LE(nasty[next(nasty.length)]!, at); break;
    default: randomBytes(next(16)).copy(bytes, at);
  }
}

t.test('readGguf() of a mutated file gives a file or invalid_gguf, nothing else', async (t) => {
  const folder = t.testdir();
  const seeds = [gguf(sound), ...['gpt-2', 'llama-spm', 'bert-bge'].map((name) => readFileSync(join(vocabularies, `ggml-vocab-${name}.gguf`)))];
  const builtin = join(root, 'builtin', 'builtin.gguf');
  seeds.push(readFileSync(builtin));
  let refused = 0;
  for (const [index, whole] of seeds.entries()) {
    const path = join(folder, `${index}.gguf`);
    const rounds = index === 0 ? 2000 : 150;
    writeFileSync(path, whole);
    const file = openSync(path, 'r+');
    // Only a mutated head is rewritten: the rest of the file stays.
    const reach = Math.min(whole.length, index === 0 ? whole.length : 4096);
    for (let round = 0; round < rounds; round++) {
      const head = Buffer.from(whole.subarray(0, reach));
      const next = random(index * 100_003 + round);
      for (let count = 1 + next(4); count > 0; count--) mutate(head, next, reach);
      writeSync(file, head, 0, head.length, 0);
      try {
        await readGguf(path);
      } catch (error) {
        if (!(error instanceof RecuaError) || error.code !== 'invalid_gguf') throw error;
        refused++;
      }
    }
    closeSync(file);
  }
  t.ok(refused > 500, `${refused} were refused`);
});

t.test('readGguf() stays under 64 MiB on hostile files', async (t) => {
  const folder = t.testdir();
  const hostile: [string, Buffer][] = [
    ['tensors', gguf({ tensors: Array.from({ length: 65_000 }, (_, i) => ({ name: `t${i}`, shape: [32], type: 0, offset: 0 })) })],
    ['keys', gguf({ metadata: Array.from({ length: 16_000 }, (_, i) => [`${'k'.repeat(500)}${i}`, types.string, 'v'.repeat(500)]) })],
    ['strings', gguf({ metadata: [['tokenizer.ggml.tokens', types.array, [], types.string]].map((one) => Buffer.concat([meta(one as never).subarray(0, -8), u64(4_000_000), Buffer.alloc(32_000_000)])) })],
    ['types', gguf({ metadata: [Buffer.concat([text('tokenizer.ggml.token_type'), Buffer.from([9, 0, 0, 0, 5, 0, 0, 0]), u64(8_000_000), Buffer.alloc(32_000_000, 6)])] })],
  ];
  for (const [name, bytes] of hostile) writeFileSync(join(folder, name), bytes);
  // In a worker with its own heap, whose limit V8 enforces.
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
    import(workerData.module).then(async ({ readGguf }) => {
      for (const path of workerData.paths) await readGguf(path).catch((error) => { if (error.code !== 'invalid_gguf') throw error; });
      parentPort.postMessage(process.memoryUsage().arrayBuffers);
    });`,
    {
      eval: true,
      workerData: { module: import.meta.resolve('#recua/models/gguf/gguf.js'), paths: hostile.map(([name]) => join(folder, name)) },
      resourceLimits: { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 8 },
    });
  const [message] = await once(worker, 'message') as [number];
  t.type(message, 'number');
  await worker.terminate();
});

t.test('a count larger than any file is reported as a number', async (t) => {
  const path = join(t.testdir(), 'a.gguf');
  const huge = 2n ** 64n - 1n;
  const counts = [
    gguf({ ...sound, tensorCount: huge }),
    gguf({ ...sound, keyCount: huge }),
    gguf({ metadata: [Buffer.concat([u64(huge), Buffer.alloc(64)])] }),
    gguf({ metadata: [Buffer.concat([text('k'), Buffer.from([8, 0, 0, 0]), u64(huge), Buffer.alloc(64)])] }),
    gguf({ tensors: [{ name: 't', shape: [huge], type: 0, offset: 0 }], dataBytes: 64 }),
    gguf({ tensors: [{ name: 't', shape: [1], type: 0, offset: huge }], dataBytes: 64 }),
  ];
  for (const [index, bytes] of counts.entries()) {
    writeFileSync(path, bytes);
    await t.rejects(readGguf(path), { code: 'invalid_gguf', message: /over 9007199254740991/ }, `case ${index}`);
  }
});
