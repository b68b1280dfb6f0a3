// The table of keys matches the source of llama.cpp.
import t from 'tap';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { missingKeys, requiredKeys } from '#recua/models/gguf/required-keys.js';
import { builtinPath } from '#recua/models/store.js';
import { root } from '../../cli/recua.js';

const source = join(root, 'vendor/llama.cpp/src');
const read = (file: string) => readFileSync(join(source, file), 'utf8').replace(/\/\/[^\n]*/g, '');

/** The keys that a function always reads: statements outside any block. */
function unconditional(body: string): string[] {
  let depth = 1;
  let plain = '';
  for (const letter of body) {
    if (letter === '{') depth++;
    else if (letter === '}' && --depth === 0) break;
    else if (letter === '}') plain += depth === 1 ? ';' : '';
    else if (depth === 1) plain += letter;
  }
  return plain.split(';').flatMap((statement) => {
    const call = /^\s*ml\.get_key(?:_or_arr)?\(\s*(LLM_KV_\w+)\s*,(.*)\)\s*$/s.exec(statement);
    return call && !/,\s*false\s*$/.test(call[2]) ? [call[1]] : [];
  });
}

function pairs(text: string, pattern: RegExp): Map<string, string> {
  return new Map([...text.matchAll(pattern)].map(([, from, to]) => [from, to]));
}

t.test('each architecture has the keys that its load_arch_hparams() requires', (t) => {
  const names = read('llama-arch.cpp');
  const architectures = pairs(names, /\{ (LLM_ARCH_\w+),\s*"([^"]+)"/g);
  const keys = new Map([...pairs(names, /\{ (LLM_KV_\w+),\s*"([^"]+)"/g)].map(([name, key]) => [name, key.startsWith('%s.') ? key.slice(3) : `/${key}`]));
  const bases = pairs(read('models/models.h'), /struct (llama_model_\w+)\s*:\s*public\s+(llama_model_\w+)/g);
  const bodies = readdirSync(join(source, 'models')).filter((file) => file.endsWith('.cpp')).map((file) => read(join('models', file))).join('\n');
  const asked = new Map<string, string[]>();
  for (const found of bodies.matchAll(/void (llama_model_\w+)::load_arch_hparams\([^)]*\)\s*\{/g)) asked.set(found[1], unconditional(bodies.slice(found.index + found[0].length)));
  const askedBy = (name: string | undefined): string[] => (name === undefined ? [] : asked.get(name) ?? askedBy(bases.get(name)));
  let known = 0;
  for (const [, architecture, made] of read('llama-model.cpp').matchAll(/case (LLM_ARCH_\w+):\s*return new (llama_model_\w+)/g)) {
    const expected = [...new Set(askedBy(made).map((key) => keys.get(key)))].sort();
    const name = architectures.get(architecture)!;
    if (expected.length > 0) known++;
    t.strictSame([...requiredKeys(name) ?? []].sort(), expected, name);
  }
  t.ok(known > 100, `${known} architectures`);
  t.end();
});

t.test('the built-in model has every key, and a removed key is reported', async (t) => {
  const model = await readModelFile(builtinPath);
  t.strictSame(missingKeys(model), []);
  for (const key of ['llama.block_count', 'llama.embedding_length', 'llama.context_length', 'llama.attention.layer_norm_rms_epsilon', 'llama.attention.head_count', 'llama.feed_forward_length']) {
    const metadata = new Map(model.parts[0].metadata);
    t.ok(metadata.delete(key), key);
    t.strictSame(missingKeys({ ...model, parts: [{ ...model.parts[0], metadata }] }), [key]);
  }
});

t.test('files that are not models on their own lack nothing', async (t) => {
  t.strictSame(missingKeys(await readModelFile(join(root, 'vendor/llama.cpp/models/ggml-vocab-qwen2.gguf'))), []);
});
