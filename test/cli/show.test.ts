import t from 'tap';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gguf, sound, types } from '../models/gguf-bytes.js';
import { recua, root } from './recua.js';

t.test('show prints what a file holds', async (t) => {
  const path = join(t.testdir(), 'ñandú modelo.gguf');
  writeFileSync(path, gguf(sound));
  const { code, stdout, stderr } = await recua(['show', path]);
  t.equal(code, 0);
  t.equal(stderr, '');
  const rows = Object.fromEntries(stdout.trim().split('\n').map((line) => [line.slice(0, 15).trim(), line.slice(16)]));
  t.match(rows, {
    File: path, Version: 'GGUF 3', Tensors: '2', Architecture: 'llama', Name: 'Tiny', Parameters: '128', Quantisation: 'Q8_0', Context: '128 tokens',
    'Embedding size': '32', Layers: '2', Vocabulary: '3 tokens', 'Chat template': 'yes',
  });
});

t.test('show --json prints one JSON object with the same, and more where asked', async (t) => {
  const path = join(t.testdir(), 'a.gguf');
  writeFileSync(path, gguf(sound));
  const plain = JSON.parse((await recua(['show', path, '--json'])).stdout) as object;
  t.match(plain, { version: 3, tensor_count: 2, architecture: 'llama', parameters: 128, quantisation: 'Q8_0', chat_template: true, vocabulary_size: 3 });
  t.notOk('metadata' in plain);
  t.match(JSON.parse((await recua(['show', path, '--json', '--all', '--tensors'])).stdout), {
    metadata: { 'general.name': 'Tiny', 'llama.block_count': 2, 'tokenizer.ggml.tokens': ['a', 'b', '<0x0A>'] },
    tensors: [{ name: 'token_embd.weight', type: 'Q8_0', shape: [32, 3], size_bytes: 102 }, {}],
  });
});

t.test('show --all and --tensors list them', async (t) => {
  const path = join(t.testdir(), 'a.gguf');
  writeFileSync(path, gguf(sound));
  const { stdout } = await recua(['show', '--all', '--tensors', path]);
  t.match(stdout, /general\.name = "Tiny"/);
  t.match(stdout, /tokenizer\.ggml\.tokens = \["a", "b", "<0x0A>"\] \(3 × string\)/);
  t.match(stdout, /token_embd\.weight {2}Q8_0 {2}32 × 3 {2}102 bytes/);
});

t.test('show writes no control characters from a file to the terminal', async (t) => {
  const path = join(t.testdir(), 'evil.gguf');
  writeFileSync(path, gguf({ metadata: [['general.name', types.string, 'a\x1b]0;owned\x07b'], ['k\x1b[2J', types.u8, 1]] }));
  const { code, stdout } = await recua(['show', '--all', path]);
  t.equal(code, 0);
  t.notMatch(stdout, /[\x00-\x09\x0b-\x1f]/);
});

t.test('show reads a vocabulary of llama.cpp', async (t) => {
  const { stdout } = await recua(['show', join(root, 'vendor/llama.cpp/models/ggml-vocab-qwen2.gguf')]);
  t.match(stdout, /Vocabulary +151936 tokens/);
});

t.test('show exits 1 with one sentence for a file that is no model', async (t) => {
  const folder = t.testdir({ 'page.gguf': '<!DOCTYPE html><html></html>', sub: {} });
  for (const [name, sentence] of [['page.gguf', /web page/], ['none.gguf', /There is no model none\.gguf: looked for/], ['sub', /is a folder/]] as const) {
    const { code, stdout, stderr } = await recua(['show', name], '', { cwd: folder });
    t.equal(code, 1, name);
    t.equal(stdout, '');
    t.match(stderr, sentence);
    t.equal(stderr.trim().split('\n').length, 1, 'one line, no stack');
  }
});

t.test('show without a file, or with two, exits 2', async (t) => {
  t.match(await recua(['show']), { code: 2, stderr: /Expected a file/ });
  t.match(await recua(['show', 'a', 'b']), { code: 2, stderr: /Expected one file/ });
});
