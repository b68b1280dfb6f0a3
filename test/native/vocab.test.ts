// Tokens of every vocabulary file in the vendored llama.cpp tree that has expected ones. An .inp
// file holds texts between lines `__ggml_vocab_test__`, the .out file one line of token ids for
// each.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { loadAddon } from '#recua/addon/addon.js';

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
    const model = await addon.loadModel({ path: fileURLToPath(new URL(name, folder)), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
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
    const model = await addon.loadModel({ path: fileURLToPath(new URL(name, folder)), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
    let tokens = 0;
    for (const text of longRuns) tokens += (await model.tokenize(text, false, false)).length;
    await model.close();
    t.ok(tokens > 0, `${name}: ${tokens} tokens`);
  }
});
