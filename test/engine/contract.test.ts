// What engine/ relies on in the addon, checked on the fake and on the real one with the embedded
// model: the real addon keeps what the fake promises.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { NativeAddon, NativeContext, NativeModel, NativeSampler } from '#recua/addon/addon.js';
import { EngineLoop } from '#recua/engine/loop/engine-loop.js';
import { load } from '#recua/engine/process/load.js';
import { gpuLayers, openTestAddon } from '../device.js';
import { fakeAddon } from './fake-addon.js';
import { chat, options } from './requests.js';

const builtin = fileURLToPath(new URL('../../builtin/builtin.gguf', import.meta.url));
const addons: { name: string; open: () => NativeAddon | Promise<NativeAddon> }[] = [
  { name: 'fake', open: () => fakeAddon() },
  { name: 'real', open: openTestAddon },
];

const contextOptions = {
  contextSize: 256, sequences: 2, batchSize: 128, microBatchSize: 128, threads: 2, threadsBatch: 2, flashAttention: 'auto' as const, cacheTypeK: 'f16', cacheTypeV: 'f16',
};

/** Evaluates tokens from a position on; returns the token that follows. */
async function feed(context: NativeContext, sequence: number, from: number, all: Int32Array, sampler: NativeSampler): Promise<number> {
  const rows = all.length - from;
  const outputs = new Uint8Array(rows);
  outputs[rows - 1] = 1;
  const [result] = await context.steps(
    {
      tokens: all.slice(from),
      positions: Int32Array.from({ length: rows }, (_, i) => from + i),
      sequences: new Int32Array(rows).fill(sequence),
      outputs,
      rows,
      samplers: [sampler],
    },
    1,
    () => undefined,
  );
  return result.tokens[0];
}

/** Greedy tokens after a prompt whose first `from` tokens are already evaluated. */
async function generate(
  model: NativeModel,
  context: NativeContext,
  sequence: number,
  from: number,
  prompt: Int32Array,
  count: number,
): Promise<number[]> {
  const sampler = await model.createSampler({ temperature: 0 }, prompt);
  const all = Int32Array.from([...prompt, ...new Array<number>(count).fill(0)]);
  for (let length = prompt.length; length < all.length; length++) {
    all[length] = await feed(context, sequence, from, all.subarray(0, length), sampler);
    from = length;
  }
  sampler.close();
  return [...all.subarray(prompt.length)];
}

for (const { name, open } of addons) {
  t.test(`the ${name} addon keeps the contract`, async (t) => {
    const addon = await open();
    const { promise } = addon.loadModel({ path: builtin, gpuLayers, mmap: true, mlock: false });
    const model = await promise;
    const context = await model.createContext(contextOptions);
    const prompt = await model.tokenize('What is your name and what can you do for me today?', true, true);
    const solo = await generate(model, context, 0, 0, prompt, 8);

    await t.test('continues from a removed tail as if it had never been', async (t) => {
      t.ok(await context.removeSequence(0, prompt.length - 1, -1));
      t.same(await generate(model, context, 0, prompt.length - 1, prompt, 8), solo);
    });
    await t.test('copies the beginning of a sequence into an empty one', async (t) => {
      t.ok(await context.copySequence(0, 1, prompt.length - 3));
      t.same(await generate(model, context, 1, prompt.length - 3, prompt, 8), solo);
      t.ok(await context.removeSequence(0, 0, -1));
      t.ok(await context.removeSequence(1, 0, -1));
    });
    await t.test('restores a stashed sequence, whole or cut, as often as wanted', async (t) => {
      t.same(await generate(model, context, 0, 0, prompt, 8), solo);
      const { id, sizeBytes } = await context.stashSequence(0);
      t.ok(id > 0 && sizeBytes > 0);
      t.same(await context.stashSequence(0, sizeBytes - 1), { id: 0, sizeBytes }, 'not if it takes too much memory');
      t.ok(await context.removeSequence(0, 0, -1));
      for (const [sequence, length] of [[1, prompt.length - 1], [0, 5]] as const) {
        t.ok(await context.unstashSequence(id, sequence, length));
        t.same(await generate(model, context, sequence, length, prompt, 8), solo);
        t.ok(await context.removeSequence(sequence, 0, -1));
      }
      t.same(await context.stashSequence(0), { id: 0, sizeBytes: 0 });
      t.ok(await context.dropStash(id));
    });
    await t.test('has a piece for every token, and flags end tokens', async (t) => {
      const { bytes, offsets, flags } = await model.pieces(false);
      t.equal(offsets.length, model.info.vocabSize + 1);
      t.equal(offsets.at(-1), bytes.length);
      t.ok(flags[model.info.eosToken] & 1);
      const text = await model.tokenize('plain text', false, false);
      t.equal(Buffer.concat(Array.from(text, (token) => bytes.subarray(offsets[token], offsets[token + 1]))).toString().trim(), 'plain text');
    });
    await t.test('rejects calls after close() with closed', async (t) => {
      const sampler = await model.createSampler({ temperature: 0 }, prompt);
      sampler.close();
      sampler.close();
      await context.close();
      await context.close();
      await t.rejects(context.removeSequence(0, 0, -1), { code: 'closed' });
      await model.close();
      await model.close();
      await t.rejects(async () => await model.tokenize('x', true, true), { code: 'closed' });
    });
    await t.test('runs an engine whose answers are the same together as alone', async (t) => {
      const { promise } = load(
        addon,
        { ...options, gpuLayers, modelPath: builtin, contextSize: 512, threads: 2, threadsBatch: 2 },
        () => {},
      );
      const loaded = await promise;
      const answers = new Map<number, string>();
      const ends = new Map<number, () => void>();
      const engine = new EngineLoop(addon, loaded, {
        log: () => {},
        emit: (events) => {
          for (const event of events) {
            if (event.kind === 'delta') answers.set(event.id, (answers.get(event.id) ?? '') + (event.delta.content ?? ''));
            else if (event.kind === 'done') ends.get(event.id)?.();
            else if (event.kind === 'error') t.fail(event.error.message);
          }
        },
      });
      let id = 0;
      const ask = async (content: string) => {
        const mine = ++id;
        engine.chat(mine, chat(content, { maxTokens: 24 }));
        await new Promise<void>((resolve) => ends.set(mine, resolve));
        return answers.get(mine);
      };
      const questions = ['Hello!', 'My name is Ada.', 'What is 2 + 3?', 'Repeat: red roses', 'Who are you?', 'Bye.'];
      const alone: (string | undefined)[] = [];
      for (const question of questions) alone.push(await ask(question));
      t.same(await Promise.all(questions.map(ask)), alone);
      await engine.close();
    });
    if ('violations' in addon) t.same(addon.violations, []);
  });
}
