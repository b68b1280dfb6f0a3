// Prompts of models that fill gaps, with vocabularies from llama.cpp.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import { prepareCompletion } from '#recua/engine/prompts/chat.js';
import { infillTokens } from '#recua/engine/prompts/infill.js';
import type { Infill } from '#recua/engine/protocol.js';
import { addon } from '../../native/setup.js';
import { completion } from '../requests.js';

const vocabulary = (name: string) => addon.loadModel({
  path: fileURLToPath(new URL(`../../../vendor/llama.cpp/models/ggml-vocab-${name}.gguf`, import.meta.url)), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true,
}).promise;

async function fill(model: NativeModel, infill: Infill, begun = '', contextSize = 1_000) {
  const { tokens, warnings } = await infillTokens({ model, contextSize, cancelled: newCancelFlag(), guesses: false }, infill, begun, 10);
  return { tokens, warnings, text: Buffer.from(await model.detokenize(tokens, true)).toString() };
}

const infill: Infill = { prefix: 'def f(x):\n  return ', suffix: '\nprint(f(1))', extra: [{ filename: 'a.py', text: 'A = 1\n' }] };

t.test('files, prefix, suffix and the begun middle each follow their mark', async (t) => {
  const model = await vocabulary('starcoder');
  const { text, warnings } = await fill(model, infill, 'x +');
  t.equal(text, '\n\n--- snippet ---\n\nA = 1\n<fim_prefix>def f(x):\n  return x +<fim_suffix>\nprint(f(1))<fim_middle>');
  t.same(warnings, []);
  const marked = await fill(model, { prefix: '<fim_middle>', suffix: '', extra: [] });
  t.equal(Array.from(marked.tokens).filter((token) => token === model.info.fimMiddle).length, 1, 'text is text');
  await model.close();
});

t.test('a model that knows repositories gets one, and one with a BOS has it before the prefix', async (t) => {
  const refact = await vocabulary('refact');
  t.match((await fill(refact, infill)).text, /^\S+myproject\n\n\n--- snippet ---/);
  await refact.close();
  const deepseek = await vocabulary('deepseek-coder');
  const { tokens } = await fill(deepseek, { ...infill, extra: [] });
  t.same(Array.from(tokens.subarray(0, 2)), [deepseek.info.bosToken, deepseek.info.fimPrefix]);
  await deepseek.close();
});

t.test('code that does not fit is cut far from the gap, and reported', async (t) => {
  const model = await vocabulary('starcoder');
  const long = await fill(model, { ...infill, prefix: 'one two '.repeat(200), suffix: ' three four'.repeat(200) }, '', 100);
  t.ok(long.tokens.length < 100 - 10);
  t.match(long.text, /^<fim_prefix>.*two <fim_suffix> three four.*<fim_middle>$/);
  t.match(long.warnings, [/^The prefix and the suffix were cut to the \d+ and \d+ tokens/]);
  const tiny = await fill(model, infill, '', 4);
  t.same(Array.from(tiny.tokens), [model.info.fimPrefix, model.info.fimSuffix, model.info.fimMiddle]);
  await model.close();
});

t.test('a model without marks is refused', async (t) => {
  const model = await vocabulary('gpt-2');
  await t.rejects(fill(model, infill), { code: 'infill_unsupported' });
  await model.close();
});

t.test('of megabytes of code, only what may fit is tokenized', async (t) => {
  const model = await vocabulary('starcoder');
  let longest = 0;
  const watched = {
    info: model.info,
    detokenize: (tokens, special) => model.detokenize(tokens, special),
    tokenize(text, ...more) {
      longest = Math.max(longest, text.length);
      return model.tokenize(text, ...more);
    },
  } as NativeModel;
  const code = (bytes: number): Infill => ({ prefix: 'x = 1; '.repeat(bytes / 7), suffix: ' y = 2;'.repeat(bytes / 7), extra: [{ filename: 'lost.py', text: 'z' }, { filename: 'a.py', text: 'a = 3\n'.repeat(bytes / 6) }] });
  const { tokens, text, warnings } = await fill(watched, code(4_200_000), '', 100);
  t.ok(longest <= 100 * model.info.longestPiece && longest < 1_000_000, `${longest} characters`);
  const shorter = await fill(model, code(42_000), '', 100);
  t.same([text, tokens, warnings], [shorter.text, shorter.tokens, shorter.warnings]);
  await model.close();
});

t.test('of names of files of megabytes, only what may fit is tokenized', async (t) => {
  const model = await vocabulary('refact');
  let read = 0;
  const watched = {
    info: { ...model.info, fimSeparator: model.info.fimRepository },
    detokenize: (tokens, special) => model.detokenize(tokens, special),
    tokenize(text, ...more) {
      read += text.length;
      return model.tokenize(text, ...more);
    },
  } as NativeModel;
  const named = (characters: number): Infill => ({ prefix: 'x', suffix: 'y', extra: Array.from({ length: 20 }, () => ({ filename: 'folder/'.repeat(characters / 7), text: '' })) });
  const { text, tokens } = await fill(watched, named(210_000), '', 100);
  t.ok(read < 110 * model.info.longestPiece, `${read} characters`);
  const shorter = await fill(watched, named(21_000), '', 100);
  t.same([text, tokens], [shorter.text, shorter.tokens]);
  await model.close();
});

t.test('a begun middle of megabytes is refused before it is tokenized', async (t) => {
  const model = await vocabulary('starcoder');
  const watched = {
    info: model.info,
    tokenize(text, ...more) {
      t.ok(text.length < 1_000, `${text.length} characters`);
      return model.tokenize(text, ...more);
    },
  } as NativeModel;
  const request = completion('x = 1; '.repeat(100_000), { infill });
  await t.rejects(prepareCompletion(addon, { model: watched, contextSize: 100, cancelled: newCancelFlag(), guesses: false }, request),
    { code: 'context_length_exceeded', param: 'prompt', message: /got at least \d+/ });
  await model.close();
});
