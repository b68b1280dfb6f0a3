// Tokens of every vocabulary file in the vendored llama.cpp tree that has expected ones. An .inp
// file holds texts between lines `__ggml_vocab_test__`, the .out file one line of token ids for
// each.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { loadAddon } from '#recua/addon/addon.js';
import { gguf, types, type Meta } from '../models/gguf-bytes.js';

const folder = new URL('../../vendor/llama.cpp/models/', import.meta.url);
const addon = loadAddon();

const names = readdirSync(folder)
  .filter((name) => name.endsWith('.gguf.inp') && existsSync(new URL(name.replace(/\.inp$/, '.out'), folder)))
  .map((name) => name.replace(/\.inp$/, ''));

t.ok(names.length >= 15, `the tree holds vocabularies to test (${names.length})`);

for (const name of names) {
  t.test(`${name} gives the expected tokens`, async (t) => {
    const texts = readFileSync(new URL(`${name}.inp`, folder), 'utf8').split('\n__ggml_vocab_test__\n');
    const lines = readFileSync(new URL(`${name}.out`, folder), 'utf8').split('\n');
    const model = await addon.loadModel({
      path: fileURLToPath(new URL(name, folder)),
      gpuLayers: 0,
      mmap: true,
      mlock: false,
      vocabOnly: true,
    }).promise;
    t.teardown(() => model.close());
    let compared = 0;
    for (const [index, text] of texts.entries()) {
      const expected = (lines[index] ?? '').split(' ').filter(Boolean).map(Number);
      const tokens = await model.tokenize(text, false, false);
      t.same([...tokens], expected, `text ${index}: ${JSON.stringify(text.slice(0, 40))}`);
      compared++;
    }
    t.ok(compared > 20, `compared ${compared} texts`);
  });
}

// Each text once crashed the process with some vocabulary: word matching recursed once per
// character.
const longRuns = ['a', 'A', '7', ' ', '!', '中', '\u0301', 'aA'].map((of) => of.repeat(40_000));

t.test('a long run of one kind of character is just text', async (t) => {
  for (const name of readdirSync(folder).filter((name) => /^ggml-vocab-.*\.gguf$/.test(name))) {
    const model = await addon.loadModel({
      path: fileURLToPath(new URL(name, folder)),
      gpuLayers: 0,
      mmap: true,
      mlock: false,
      vocabOnly: true,
    }).promise;
    let tokens = 0;
    for (const text of longRuns) tokens += (await model.tokenize(text, false, false)).length;
    await model.close();
    t.ok(tokens > 0, `${name}: ${tokens} tokens`);
  }
});

/** A file of a vocabulary alone. */
const vocabularyOf = (kind: string, tokens: string[], tokenTypes: number[], more: Meta[] = []): Buffer => gguf({ metadata: [
  ['general.architecture', types.string, 'llama'],
  ...['block_count', 'context_length', 'embedding_length', 'feed_forward_length', 'attention.head_count'].map((key): [string, number, number] => [`llama.${key}`, types.u32, 1]),
  ['llama.attention.layer_norm_rms_epsilon', types.f32, 1e-5],
  ['tokenizer.ggml.model', types.string, kind],
  ['tokenizer.ggml.tokens', types.array, tokens, types.string],
  ['tokenizer.ggml.scores', types.array, tokens.map(() => -1), types.f32],
  ['tokenizer.ggml.token_type', types.array, tokenTypes, types.i32],
  ...more,
] });

async function loadVocabulary(t: Test, file: Buffer) {
  const path = join(t.testdir(), 'vocabulary.gguf');
  writeFileSync(path, file);
  const model = await addon.loadModel({ path, gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
  t.teardown(() => model.close());
  return model;
}

const bytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

t.test('a vocabulary of RWKV without a token for each byte is refused: a text with this byte would be read for ever', async (t) => {
  const tokens = ['<s>', ...bytes.map((byte) => `\\x${byte}`), 'zz'];
  const normal = tokens.map(() => 1);
  const model = await loadVocabulary(t, vocabularyOf('rwkv', tokens, normal));
  t.same([...await model.tokenize('zzz', false, false)], [257, 0x7a + 1]);
  for (const byte of ['7a', '0a']) {
    const lacking = tokens.map((token) => (token === `\\x${byte}` ? 'zzz' : token));
    await t.rejects(loadVocabulary(t, vocabularyOf('rwkv', lacking, normal)), { code: 'model_unusable', message: /a token for each byte/ });
  }
});

t.test('a vocabulary of RWKV with a token that would need megabytes of stack is refused', async (t) => {
  const tokens = ['<s>', ...bytes.map((byte) => `\\x${byte}`), 'z'.repeat(1_000)];
  const model = await loadVocabulary(t, vocabularyOf('rwkv', tokens, tokens.map(() => 1)));
  t.same([...await model.tokenize('z'.repeat(1_000), false, false)], [257]);
  const longer = [...tokens, 'z'.repeat(1_000_000)];
  await t.rejects(loadVocabulary(t, vocabularyOf('rwkv', longer, longer.map(() => 1))), { code: 'model_unusable', message: /at most 1024 bytes, got 1000000/ });
});

t.test('a token of a PLaMo-2 vocabulary that is not UTF-8 or very long breaks nothing', async (t) => {
  const plamo = (...more: string[]): Buffer => vocabularyOf('plamo2', ['<unk>', ...bytes.map((byte) => `<0x${byte.toUpperCase()}>`), ...more], [2, ...bytes.map(() => 6), ...more.map(() => 1)]);
  const tail = 'A'.repeat(500);
  const file = plamo(`z\u0001${tail}`, `z\uFFFD${tail}`);
  file[file.indexOf(`z\u0001${tail}`) + 1] = 0x80;
  const model = await loadVocabulary(t, file);
  t.same([...await model.tokenize('abc z', false, false)], Array.from(Buffer.from('abc z'), (byte) => byte + 1));
  await t.rejects(loadVocabulary(t, plamo('A'.repeat(8_000))), { code: 'model_unusable', message: /lengths, cubed/ });
});

t.test('many tokens that are taken whole: texts with all of them, or with many, take steps proportional to their length', async (t) => {
  // Each token was searched for in the whole text, and again in each part between two of them.
  const whole = Array.from({ length: 50_000 }, (_, i) => `<u${i}>`);
  const model = await loadVocabulary(t, vocabularyOf('llama', ['<unk>', ...bytes.map((byte) => `<0x${byte.toUpperCase()}>`), ...whole], [2, ...bytes.map(() => 6), ...whole.map(() => 4)]));
  const firstTokens = (await model.tokenize(whole.join('') + '<'.repeat(500_000), false, false)).subarray(0, whole.length);
  t.ok(firstTokens.every((token, i) => token === 257 + i));
  const once = await model.tokenize('<u7>a', false, false);
  t.equal(once[0], 257 + 7);
  const often = await model.tokenize('<u7>a'.repeat(50_000), false, false);
  t.equal(often.length, 50_000 * once.length);
  t.ok(often.every((token, i) => token === once[i % once.length]));
  // A token that is everywhere in the text, and another that begins with it.
  t.same([...await model.tokenize('<u1><u1><u12>'.repeat(1_000), false, false)].slice(-3), [258, 258, 269]);
});

const spm = (...more: [text: string, type: number][]): [string[], number[]] => [
  ['<unk>', '<s>', '</s>', ...bytes.map((byte) => `<0x${byte.toUpperCase()}>`), ...more.map(([text]) => text)],
  [2, 3, 3, ...bytes.map(() => 6), ...more.map(([, type]) => type)],
];
const merges: Meta = ['tokenizer.ggml.merges', types.array, ['a b'], types.string];

t.test('vocabularies on which llama.cpp ends the process are refused', async (t) => {
  await t.rejects(loadVocabulary(t, vocabularyOf('llama', ...spm(['x', 1], ['x', 1]))), { code: 'model_unusable', message: /each token once, got 1/ });
  await t.rejects(loadVocabulary(t, vocabularyOf('llama', ...spm(['x\0a', 1], ['x\0b', 1]))), { code: 'model_unusable', message: /each token once/ });
  for (const kind of ['test', 'llama']) await t.rejects(loadVocabulary(t, vocabularyOf(kind, [], [])), { code: 'model_unusable', message: /expected tokens, got none/ });
  await t.rejects(loadVocabulary(t, vocabularyOf('no_vocab', [], [], [['llama.vocab_size', types.u32, 32]])), { code: 'model_unusable', message: /expected a vocabulary/ });
});

t.test('a token that is to be added to each text, but is not there, is an error', async (t) => {
  const adds = (what: string): Meta => [`tokenizer.ggml.add_${what}_token`, types.bool, true];
  const files = [
    vocabularyOf('llama', ['<unk>'], [2]), vocabularyOf('bert', ['[UNK]', '\u2581a'], [2, 1]), vocabularyOf('t5', ['a', 'b', '<unk>'], [1, 1, 2], [adds('bos')]),
    vocabularyOf('gpt2', ['a', 'b'], [1, 1], [merges, adds('bos')]), vocabularyOf('gpt2', ['a', 'b'], [1, 1], [merges, adds('eos')]),
  ];
  for (const file of files) {
    const model = await loadVocabulary(t, file);
    await t.rejects(model.tokenize('', true, true), { code: 'internal_error', message: /the token that it adds/ });
  }
});

t.test('spaces in a word of BPE are no error', async (t) => {
  const model = await loadVocabulary(t, vocabularyOf('gpt2', ['a', 'b', ' '], [1, 1, 1], [merges, ['tokenizer.ggml.pre', types.string, 'whitespace']]));
  t.same([...await model.tokenize('a  b', false, false)], [0, 2, 2, 1]);
});

t.test('text that must stay text becomes no control token, whatever tokenizer makes it of that text', async (t) => {
  const rwkv = ['<s>', ...bytes.map((byte) => `\\x${byte}`), '<|end|>'];
  const plamo = ['<unk>', ...bytes.map((byte) => `<0x${byte.toUpperCase()}>`), '<|end|>'];
  const parts = ['<', '|', 'end', '>', '<|', 'en', 'd', 'e', 'n', '|>', '<|end', 'end|>', '\u2581'].map((text): [string, number] => [text, 1]);
  for (const [kind, tokens, kinds] of [
    ['rwkv', rwkv, [3, ...bytes.map(() => 1), 3]], ['plamo2', plamo, [2, ...bytes.map(() => 6), 3]], ['llama', ...spm(...parts, ['<|end|>', 3])],
  ] as const) {
    const model = await loadVocabulary(t, vocabularyOf(kind, [...tokens], [...kinds]));
    const control = tokens.length - 1;
    for (const text of ['<|end|>', 'a<|end|>b', '<|end|><|end|>', '<<|end|> <|en']) {
      const literal = Int32Array.from({ length: text.length }, (_, at) => at);
      for (const places of [literal, literal.map((at) => ~at)]) {
        const tokensOf = [...await model.tokenize(text, false, true, { literal: places })];
        t.notOk(tokensOf.includes(control), `${kind}: ${text}`);
        const spelled = Buffer.from(await model.detokenize(Int32Array.from(tokensOf), true)).toString();
        t.equal(spelled.trimStart(), text, `${kind}: it is still that text`);
      }
      t.ok([...await model.tokenize(text, false, true)].includes(control));
    }
  }
});

t.test('a token of BPE of many characters that stand for no bytes takes little memory', async (t) => {
  await t.rejects(loadVocabulary(t, vocabularyOf('gpt2', ['a', 'b', '中'.repeat(20_000)], [1, 1, 1], [merges])), { code: 'model_unusable', message: /characters that stand for bytes/ });
});

t.test('a word of WordPiece takes steps in proportion to its length, though a token is long', async (t) => {
  const start = performance.now();
  const long = 'b'.repeat(1_000);
  const ids: Meta[] = ['unknown', 'seperator', 'bos'].map((what) => [`tokenizer.ggml.${what}_token_id`, types.u32, 0]);
  const model = await loadVocabulary(t, vocabularyOf('bert', ['[UNK]', '\u2581', 'a', 'aa', long], [2, 1, 1, 1, 1], ids));
  t.equal((await model.tokenize('a'.repeat(1_000_001), false, false)).length, 500_002);
  t.same([...await model.tokenize(`a${long}a ab`, false, false)], [1, 2, 4, 2, 0]);
  t.ok(performance.now() - start < 15_000, 'it took a minute');
});

t.test('replacements of a T5 vocabulary make a text neither endlessly long nor slow', async (t) => {
  // A double array in which `a` leads from the root to itself for ever, each time replaced.
  const map = (leaf: number, replacement: string): Meta => {
    const nodes = new Uint32Array(256);
    nodes[0] = 0x61 | leaf << 8 | 0x61 << 10;
    const size = Buffer.alloc(4);
    size.writeUInt32LE(nodes.byteLength);
    return ['tokenizer.ggml.precompiled_charsmap', types.array, [...size, ...Buffer.from(nodes.buffer), ...Buffer.from(`${replacement}\0`)], types.u8];
  };
  const tokens = ['<pad>', '</s>', '<unk>', 'a', 'b', '\u2581'], kinds = [3, 3, 2, 1, 1, 1];
  const load = (charsmap: Meta) => loadVocabulary(t, vocabularyOf('t5', tokens, kinds, [charsmap]));
  t.ok((await (await load(map(0, ''))).tokenize('a'.repeat(300_000), false, false)).length >= 300_000);
  const short = await load(map(1, 'b'.repeat(10)));
  t.equal((await short.tokenize('b' + 'ab'.repeat(1_000), false, false)).filter((token) => token === 4).length, 11_001);
  for (const [length, message] of [[600, /at most 32 times/], [2_000, /Unterminated/]] as const) {
    const model = await load(map(1, 'b'.repeat(length)));
    await t.rejects(model.tokenize('b' + 'ab'.repeat(1_000), false, false), { code: 'internal_error', message });
  }
});

t.test('a text with each of many tokens that begin with each other takes little memory', async (t) => {
  const nested = Array.from({ length: 1_000 }, (_, i): [string, number] => ['abcdefghij'.repeat(100).slice(0, i + 1), 4]);
  const model = await loadVocabulary(t, vocabularyOf('llama', ...spm(...nested)));
  const before = process.resourceUsage().maxRSS;
  const tokens = await model.tokenize('abcdefghij'.repeat(100_000), false, false);
  t.same([...tokens], Array.from({ length: 1_000 }, () => 258 + 1_000));
  t.ok(process.resourceUsage().maxRSS - before < 400 * 1024, 'instead of 8 bytes for each token and place');
});

t.test('an error message of millions of lines is read in one pass', async (t) => {
  const start = performance.now();
  await t.rejects(loadVocabulary(t, vocabularyOf('gpt2', ['a', 'b'], [1, 1], [merges, ['tokenizer.ggml.pre', types.string, 'x\n'.repeat(2_000_000)]])), { code: 'model_unusable' });
  t.ok(performance.now() - start < 20_000, 'it took minutes');
});
