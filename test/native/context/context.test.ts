import { join } from 'node:path';
import t from 'tap';
import type { NativeContext, NativeModel } from '#recua/addon/addon.js';
import { gpuLayers } from '../../device.js';
import { addon, contextOptions, generate, loadBuiltin, step } from '../setup.js';
import { writeMamba } from '../zero-mamba.js';

let model: NativeModel;
let context: NativeContext;
let prompt: Int32Array;
t.before(async () => {
  model = await loadBuiltin();
  prompt = await model.tokenize('<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n', true, true);
});
t.beforeEach(async () => { context = await model.createContext(contextOptions()); });
t.afterEach(() => context.close());
t.teardown(() => model.close());

const greedy = () => model.createSampler({ temperature: 0 }, new Int32Array());

t.test('a step of several sequences samples the same tokens as each alone', async (t) => {
  const other = await model.tokenize('<|im_start|>user\nHello there!<|im_end|>\n<|im_start|>assistant\n', true, true);
  const sampler = await greedy();
  const alone = [await generate(context, sampler, prompt, 12, 0), await generate(context, sampler, other, 12, 1)];
  const together: number[][] = [[], []];
  let { tokens } = await step(context, [
    { sequence: 2, from: 0, tokens: prompt, sampler },
    { sequence: 3, from: 0, tokens: other, sampler },
  ]);
  for (let i = 0; i < 12; i++) {
    together[0]!.push(tokens[0]!);
    together[1]!.push(tokens[1]!);
    ({ tokens } = await step(context, [
      { sequence: 2, from: prompt.length + i, tokens: [tokens[0]!], sampler },
      { sequence: 3, from: other.length + i, tokens: [tokens[1]!], sampler },
    ]));
  }
  t.same(together, alone);
});

t.test('a prompt in chunks gives the same result as whole', async (t) => {
  const sampler = await greedy();
  const whole = await generate(context, sampler, prompt, 8, 0);
  for (let at = 0; at < prompt.length - 1; at += 3) {
    await step(context, [{ sequence: 1, from: at, tokens: prompt.subarray(at, Math.min(at + 3, prompt.length - 1)), sampler: null }]);
  }
  t.same(await generate(context, sampler, prompt.subarray(-1), 8, 1, prompt.length - 1), whole);
});

t.test('polls() grows while a step or an embedding computes, and only then', { skip: gpuLayers !== 0 && 'a GPU asks nothing' }, async (t) => {
  const sampler = await greedy();
  const idle = context.polls();
  t.equal(await context.removeSequence(0, context.contextSize, -1), true, 'a turn that changes nothing');
  t.equal(context.polls(), idle);
  let seen = idle;
  // Several short steps may end in one turn of the event loop: then nobody looks between them.
  for (let round = 0; round < 50 && seen === idle; round++) {
    let over = false;
    const before = context.polls();
    const computing = generate(context, sampler, prompt, 8, 0).then(() => (over = true));
    while (!over) {
      if (context.polls() > before) seen = context.polls();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await computing;
    t.ok(context.polls() > before + 8, 'many in each step');
  }
  t.ok(seen > idle, 'told while it computes');
  const embedder = await model.createEmbedder({ contextSize: 64, sequences: 1, threads: 1, pooling: 'mean' });
  const before = embedder.polls();
  await embedder.embed(prompt, Int32Array.of(prompt.length));
  t.ok(embedder.polls() > before);
  await embedder.close();
});

t.test('a copied, a cut and a restored sequence continue like the original', async (t) => {
  const sampler = await greedy();
  const original = await generate(context, sampler, prompt, 8, 0);
  const shared = prompt.length - 2;
  const rest = prompt.subarray(shared);
  t.equal(await context.copySequence(0, 1, shared), true);
  t.same(await generate(context, sampler, rest, 8, 1, shared), original, 'copied to another sequence');
  const { id, sizeBytes } = await context.stashSequence(0);
  const state = new Uint8Array(sizeBytes);
  context.readStash(id, 0, state);
  t.equal(await context.removeSequence(0, shared, -1), true);
  t.same(await generate(context, sampler, rest, 8, 0, shared), original, 'cut back');
  const later = context.createStash(sizeBytes);
  for (let at = 0; at < sizeBytes; at += 1000) context.writeStash(later, at, state.subarray(at, at + 1000));
  t.equal(await context.unstashSequence(later, 2, shared), true);
  t.same(await generate(context, sampler, rest, 8, 2, shared), original, 'saved and loaded');
});

t.test('the time of a copy does not include its wait for the thread', async (t) => {
  await generate(context, await greedy(), prompt, 1, 0);
  t.equal(context.copyMs(), 0, 'before the first');
  const embedder = await model.createEmbedder({ contextSize: 512, sequences: 1, pooling: 'mean', threads: 2 });
  t.teardown(() => embedder.close());
  // The copy waits for one text, so that is long.
  const long = Int32Array.from({ length: 500 }, (_, i) => prompt[i % prompt.length]!);
  const texts = Array.from({ length: 16 }, () => long);
  const embedding = embedder.embed(Int32Array.from(texts.flatMap((tokens) => [...tokens])), Int32Array.from(texts, ({ length }) => length));
  const start = performance.now();
  await context.stashSequence(0);
  const waited = performance.now() - start;
  await embedding;
  t.ok(context.copyMs() > 0 && context.copyMs() < waited / 2, `${context.copyMs()} of ${waited} ms`);
});

t.test('a stash moves to contexts with more or fewer sequences', async (t) => {
  const expected = await generate(context, await greedy(), prompt, 8, 3);
  const { id, sizeBytes } = await context.stashSequence(3);
  const state = new Uint8Array(sizeBytes);
  context.readStash(id, 0, state);
  await context.dropStash(id);
  await context.removeSequence(3, 0, -1);
  for (const sequences of [1, 2, 9]) {
    const other = await model.createContext(contextOptions({ sequences }));
    const stash = other.createStash(sizeBytes);
    other.writeStash(stash, 0, state);
    t.equal(await other.unstashSequence(stash, sequences - 1, prompt.length - 2), true, `to ${sequences}`);
    t.same(await generate(other, await greedy(), prompt.subarray(-2), 8, sequences - 1, prompt.length - 2), expected);
    await other.close();
  }
});

t.test('a stash whose bytes were tampered with is refused, and breaks nothing', async (t) => {
  const context = await model.createContext(contextOptions({ sequences: 2 }));
  t.teardown(() => context.close());
  const sampler = () => model.createSampler({ temperature: 0 }, new Int32Array());
  const prompt = await model.tokenize('The llamas walk over the mountains, and then', true, false);
  const expected = await generate(context, await sampler(), prompt, 5);
  const { id, sizeBytes } = await context.stashSequence(0);
  const sound = new Uint8Array(sizeBytes);
  context.readStash(id, 0, sound);
  // llama.cpp writes, after a header of 12 bytes that ends with the number of streams, the number
  // of cells, and of each its position.
  const cells = new DataView(sound.buffer).getInt32(12, true);
  t.equal(cells, prompt.length + 4);
  const tampered = async (change: (view: DataView) => void, length = cells): Promise<boolean> => {
    const bytes = sound.slice();
    change(new DataView(bytes.buffer));
    const stash = context.createStash(sizeBytes);
    context.writeStash(stash, 0, bytes);
    const taken = await context.unstashSequence(stash, 1, length);
    await context.dropStash(stash);
    return taken;
  };
  t.equal(await tampered(() => {}), true);
  for (const count of [-1, 2 ** 31 - 1, -(2 ** 31), 100_000]) t.equal(await tampered((view) => view.setInt32(12, count, true)), false, `${count} cells`);
  for (const streams of [0, 1, 3, -1]) t.equal(await tampered((view) => view.setInt32(8, streams, true)), streams === 1, `${streams} streams`);
  for (const position of [-1, 2 ** 31 - 1, 400]) t.equal(await tampered((view) => view.setInt32(16, position, true)), false, `a cell at ${position}`);
  t.equal(await tampered(() => {}, cells + 1), false, 'fewer tokens than it is said to have');
  t.same(await generate(context, await sampler(), prompt, 5, 1), expected, 'the sequence is empty and works');
});

t.test('so is one of a recurrent model: a sequence has one cell', async (t) => {
  const path = join(t.testdir(), 'mamba.gguf');
  writeMamba(path);
  const recurrent = await addon.loadModel({ path, gpuLayers: 0, mmap: false, mlock: false }).promise;
  t.teardown(() => recurrent.close());
  const context = await recurrent.createContext(contextOptions({ sequences: 4 }));
  await step(context, [{ sequence: 0, from: 0, tokens: [1, 2, 3, 4, 5], sampler: null }]);
  const { id, sizeBytes } = await context.stashSequence(0);
  const sound = Buffer.alloc(sizeBytes);
  context.readStash(id, 0, sound);
  // After a header of 8 bytes: the number of cells, and of each its position and 4 bytes.
  t.equal(sound.readInt32LE(8), 1);
  const taken = async (cells: number): Promise<boolean> => {
    const bytes = Buffer.concat([
      sound.subarray(0, 8),
      Buffer.of(cells, 0, 0, 0),
      ...Array<Buffer>(cells).fill(sound.subarray(12, 20)),
      sound.subarray(20),
    ]);
    const stash = context.createStash(bytes.length);
    context.writeStash(stash, 0, bytes);
    const result = await context.unstashSequence(stash, 1, 5);
    await context.dropStash(stash);
    return result;
  };
  for (const cells of [2, 4, 0]) t.equal(await taken(cells), false, `${cells} cells`);
  t.equal(await taken(1), true);
});

t.test('readStash() and writeStash() stay within their stash', async (t) => {
  const id = context.createStash(100);
  const invalid = { code: 'invalid_argument' };
  for (const [offset, bytes] of [[0, 101], [1, 100], [101, 0], [-1, 1], [NaN, 1], [2 ** 53, 1]] as const) {
    t.throws(() => context.readStash(id, offset, new Uint8Array(bytes)), invalid, `${bytes} bytes at ${offset}`);
    t.throws(() => context.writeStash(id, offset, new Uint8Array(bytes)), invalid);
  }
  context.writeStash(id, 99, Uint8Array.of(7));
  const last = new Uint8Array(1);
  context.readStash(id, 99, last);
  t.equal(last[0], 7);
  t.equal(await context.dropStash(id), true);
  t.throws(() => context.readStash(id, 0, last), invalid, 'it is gone');
  t.equal(await context.unstashSequence(id, 0, 1), false);
  t.equal(context.createStash(2 ** 52), 0, 'no machine has that much');
});

t.test('a stash may be larger than 4 GiB', async (t) => {
  const size = 2 ** 32 + 2 ** 20;
  // Only written pages take memory.
  const id = context.createStash(size);
  if (id === 0) return void t.comment('this machine gives no 4 GiB of addresses');
  const mark = Uint8Array.of(1, 2, 3);
  for (const at of [0, 2 ** 31 - 1, 2 ** 32 - 2, size - 3]) {
    context.writeStash(id, at, mark);
    const read = new Uint8Array(3);
    context.readStash(id, at, read);
    t.same(read, mark, `at ${at}`);
  }
  await context.dropStash(id);
});

t.test('a batch that cannot be decoded rejects, and the context stays usable', async (t) => {
  const sampler = await greedy();
  await t.rejects(step(context, [{ sequence: 0, from: 40, tokens: prompt, sampler }, { sequence: 0, from: 2, tokens: prompt, sampler }]), { code: 'generation_failed' });
  await context.removeSequence(0, 0, -1);
  await t.rejects(context.steps({ tokens: prompt, positions: prompt, sequences: prompt, outputs: new Uint8Array(prompt.length), rows: 0, samplers: [] }, 1, () => undefined), { code: 'invalid_argument' });
  t.equal((await generate(context, sampler, prompt, 3)).length, 3);
});

t.test('filling a sequence beyond its cells rejects, and others continue', async (t) => {
  const small = await model.createContext(contextOptions({ contextSize: 256, sequences: 2 }));
  const sampler = await greedy();
  const long = new Int32Array(300).fill(prompt[1]!);
  await t.rejects(step(small, [{ sequence: 0, from: 0, tokens: long, sampler }]), { code: 'generation_failed' });
  await small.removeSequence(0, 0, -1);
  t.equal((await generate(small, sampler, prompt, 3, 1)).length, 3);
  await small.close();
});

t.test('a context that cannot be made rejects with a reason', async (t) => {
  await t.rejects(model.createContext(contextOptions({ cacheTypeK: 'q9_9' })), { code: 'invalid_argument', message: 'q9_9' });
});
