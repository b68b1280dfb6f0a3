// native/model/tokens: special tokens in a text, compared with llama.cpp; inputs that would take
// forever; and cancellation.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { loadAddon } from '#recua/addon/addon.js';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { release, root } from '../fake-backend.js';

const folder = join(root, 'vendor', 'llama.cpp', 'models');
const vocabulary = (name: string) =>
  loadAddon().loadModel({ path: join(folder, `ggml-vocab-${name}.gguf`), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;

t.test('texts full of special tokens are tokenized as llama_tokenize() does', { skip: process.platform === 'win32' && 'needs c++' }, async (t) => {
  const built = mkdtempSync(join(tmpdir(), 'recua-tokens-'));
  t.teardown(() => rmSync(built, { recursive: true }));
  const program = join(built, 'check');
  const vendor = join(root, 'vendor', 'llama.cpp');
  execFileSync(process.env['CXX'] || 'c++', [
    '-std=c++17', '-O1', `-I${join(root, 'native')}`, `-I${join(root, 'native', 'llama')}`, `-I${join(vendor, 'include')}`, `-I${join(vendor, 'ggml', 'include')}`,
    join(root, 'test', 'native', 'tokens-check.cpp'), '-o', program, `-L${release}`, '-lllama', '-lggml', '-lggml-base', `-Wl,-rpath,${release}`,
  ], { stdio: ['ignore', 'inherit', 'inherit'] });
  const files = readdirSync(folder).filter((name) => /^ggml-vocab-.*\.gguf$/.test(name)).map((name) => join(folder, name));
  const { compared, differences } = JSON.parse(execFileSync(program, files, { encoding: 'utf8' })) as { compared: number; differences: number };
  t.ok(compared > 5000, `compared ${compared} texts`);
  t.equal(differences, 0);
});

t.test('a text full of special tokens is tokenized in steps proportional to its length', async (t) => {
  // This was once quadratic: minutes.
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  t.equal((await model.tokenize('<|im_end|>a'.repeat(100_000), false, true)).length, 200_000);
});

t.test('a text full of bytes without a token of their own is, too', async (t) => {
  // Each token once copied all earlier ones: this would move 4 TB.
  const model = await vocabulary('llama-spm');
  t.teardown(() => model.close());
  t.equal((await model.tokenize('\n'.repeat(1_000_000), false, false)).length, 1_000_001);
});

t.test('a text full of signs for a space is, too, behind a chat that is known', async (t) => {
  // Each sign once moved the rest of the text: this would move 10 TB.
  const model = await vocabulary('llama-spm');
  t.teardown(() => model.close());
  model.remember(await model.tokenize('Say hello to everyone', true, true));
  const text = `Say hello to${'\u2581'.repeat(1_000_000)}${'\u2582'.repeat(3_000_000)}`;
  t.equal((await model.tokenize(text, true, true, { known: true })).length, 9_062_504);
});

t.test('tokenizing ends when its caller gives up', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  const given = newCancelFlag();
  given[0] = 1;
  await t.rejects(model.tokenize('a', true, true, { cancelled: given }), { code: 'cancelled' });
  const cancelled = newCancelFlag();
  const long = model.tokenize('<|im_end|>a'.repeat(200_000), false, true, { cancelled });
  cancelled[0] = 1;
  await t.rejects(long, { code: 'cancelled' });
});

t.test('a flag whose memory could be taken away while a task reads it is refused', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  for (const cancelled of [new Int32Array(1), new Int32Array(new SharedArrayBuffer(0))]) {
    await t.rejects(model.tokenize('a', true, true, { cancelled }), { code: 'invalid_argument', message: /SharedArrayBuffer/ });
  }
});

t.test('no control token begins in literal text', async (t) => {
  const model = await vocabulary('qwen2');
  t.teardown(() => model.close());
  const text = 'é<|im_end|><|im_end|>';
  const [end] = await model.tokenize('<|im_end|>', false, true);
  const tokens = [...await model.tokenize(text, false, true, { literal: Int32Array.of(2) })];
  t.same(tokens.filter((token) => token === end).length, 1);
  t.equal(tokens.at(-1), end);
  t.equal(Buffer.from(await model.detokenize(Int32Array.from(tokens), true)).toString(), text);
});

t.test('the longest piece bounds what a token can hold', async (t) => {
  for (const name of ['qwen2', 'llama-bpe', 'llama-spm', 'phi-3', 'gemma-4']) {
    const model = await vocabulary(name);
    const { bytes, offsets } = await model.pieces(true);
    const longest = offsets.reduce((most, offset, i) => Math.max(most, offset - (offsets[i - 1] ?? 0)), 0);
    t.ok(bytes.length > 0 && model.info.longestPiece >= longest, `${name}: ${model.info.longestPiece} ≥ ${longest}`);
    t.equal(model.info.takesSpaces, name === 'phi-3', `${name} has tokens that take spaces`);
    await model.close();
  }
  const unbounded = await vocabulary('bert-bge');
  t.equal(unbounded.info.longestPiece, 0, 'a vocabulary that drops characters has no such bound');
  await unbounded.close();
});
