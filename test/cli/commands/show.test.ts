import t from 'tap';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gguf, sound, types } from '../../models/gguf-bytes.js';
import type { Meta } from '../../models/gguf-bytes.js';
import { modelPart, partFile, put } from '../../models/hub-layout.js';
import { recua, root, start } from '../recua.js';

t.test('show prints what a file holds', async (t) => {
  const path = join(t.testdir(), 'ñandú modelo.gguf');
  writeFileSync(path, gguf(sound));
  const { code, stdout, stderr } = await recua(['show', path]);
  t.equal(code, 0);
  t.equal(stderr, '');
  const rows = Object.fromEntries(stdout.trim().split('\n').map((line) => [line.slice(0, 15).trim(), line.slice(16)]));
  t.match(rows, {
    File: path, Version: 'GGUF 3', Tensors: '2', Architecture: 'llama', Name: 'Tiny', Parameters: '128', Quantization: 'Q8_0', Context: '128 tokens',
    'Embedding size': '32', Layers: '2', Vocabulary: '3 tokens', 'Chat template': 'yes',
  });
});

t.test('show --json prints one JSON object with the same content, and more on request', async (t) => {
  const path = join(t.testdir(), 'a.gguf');
  writeFileSync(path, gguf(sound));
  const plain = JSON.parse((await recua(['show', path, '--json'])).stdout) as object;
  t.match(plain, { version: 3, tensor_count: 2, architecture: 'llama', parameters: 128, quantization: 'Q8_0', chat_template: true, vocabulary_size: 3 });
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
  writeFileSync(path, gguf({ metadata: [['general.name', types.string, 'a\x1b]0;owned\x07\x9b2J\u202eb'], ['k\x1b[2J\x9b2J', types.u8, 1]] }));
  const { code, stdout } = await recua(['show', '--all', path]);
  t.equal(code, 0);
  t.notMatch(stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
});

t.test('show reads a vocabulary of llama.cpp', async (t) => {
  const { stdout } = await recua(['show', join(root, 'vendor/llama.cpp/models/ggml-vocab-qwen2.gguf')]);
  t.match(stdout, /Vocabulary +151936 tokens/);
});

t.test('show exits 1 with one sentence for a file that is not a model', async (t) => {
  const folder = t.testdir({ 'page.gguf': '<!DOCTYPE html><html></html>', sub: {} });
  for (const [name, sentence] of [['page.gguf', /web page/], ['none.gguf', /There is no model none\.gguf, neither as a file nor in the store\. Expected the path /], ['sub', /is a folder/]] as const) {
    const { code, stdout, stderr } = await recua(['show', name], '', { cwd: folder });
    t.equal(code, 1, name);
    t.equal(stdout, '');
    t.match(stderr, sentence);
    t.equal(stderr.trim().split('\n').length, 1, 'one line, no stack');
  }
});

t.test('show without a model, or with two, exits 2', async (t) => {
  t.match(await recua(['show']), { code: 2, stderr: /Expected a model/ });
  t.match(await recua(['show', 'a', 'b']), { code: 2, stderr: /Expected one model/ });
});

t.test('show reports the memory that a model needs for the requested context', async (t) => {
  const memory = async (...flags: string[]) => (JSON.parse((await recua(['show', 'builtin', '--json', ...flags])).stdout) as { memory: Record<string, number> }).memory;
  const plain = await memory();
  t.match(plain, { context_size: 4096, parallel: 1, kv_bytes: 10 * 1024 * 1024, fits: true, largest_context_size: 4096 });
  t.equal(plain['total_bytes'], plain['weights_bytes'] + plain['kv_bytes'] + plain['compute_bytes']);
  t.match(await memory('-c', '1024', '-np', '2'), { context_size: 1024, parallel: 2, kv_bytes: 5 * 1024 * 1024 });
  t.match(await memory('--ctx-size', '0'), { context_size: 4096 });
  t.match(await memory('--ctx-size', '99999'), { context_size: 4096 }, 'the engine gives no more than the training size');
  const { stdout } = await recua(['show', 'builtin', '-c', '1024', '-np', '2']);
  t.match(stdout, /^Memory +[\d.]+ MiB: weights 2\.2\d MiB, context 5\.00 MiB for 2 requests of 1024 tokens, computing [\d.]+ MiB$/m);
  t.match(stdout, /^Machine +[\d.]+ [MGT]iB, .* available: it fits$/m);
});

t.test('show says what fits if the requested context does not', async (t) => {
  const path = join(t.testdir(), 'large.gguf');
  writeFileSync(path, gguf({
    ...sound, metadata: [
      ...sound.metadata!.filter((one) => !Buffer.isBuffer(one)).filter(([key]) => key !== 'llama.context_length' && key !== 'llama.block_count'),
      ['llama.context_length', types.u32, 2 ** 30], ['llama.block_count', types.u32, 512], ['llama.attention.head_count', types.u32, 1], ['llama.attention.key_length', types.u32, 8192], ['llama.attention.value_length', types.u32, 8192],
    ] as Meta[],
  }));
  const { stdout } = await recua(['show', path, '-c', '0']);
  const most = /it does not fit; it would with --ctx-size (\d+)/.exec(stdout)?.[1];
  t.ok(Number(most) > 0 && Number(most) % 256 === 0, String(most));
  t.match((await recua(['show', path, '-c', String(Math.floor(Number(most) / 2))])).stdout, /it fits/);
});

t.test('show --template prints the chat template, whole, and nothing else', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'a.gguf');
  // Longer than the part of a text that the reader keeps.
  const long = `{# ${'ñ'.repeat(400_000)} #}{{ messages }}`;
  writeFileSync(path, gguf({ metadata: [['tokenizer.chat_template', types.string, long]] }));
  t.equal((await recua(['show', path, '--template'])).stdout, `${long}\n`);
  t.equal((JSON.parse((await recua(['show', path, '--template', '--json'])).stdout) as { template: string }).template, long);
  writeFileSync(path, gguf(sound));
  t.equal((await recua(['show', path, '--template'])).stdout, '{{ messages }}\n');
  writeFileSync(path, gguf({ metadata: [] }));
  t.match(await recua(['show', path, '--template']), { code: 1, stdout: '', stderr: /has no chat template/ });
});

t.test('show reads a file of 100 GB without reading its weights', async (t) => {
  const path = join(t.testdir(), 'huge.gguf');
  const width = 32 * 1024;
  const rows = 800_000;
  const header = gguf({ ...sound, tensors: [{ name: 'token_embd.weight', shape: [width, rows], type: 0, offset: 0 }], dataBytes: 0 });
  writeFileSync(path, header);
  truncateSync(path, header.length + width * rows * 4);
  // A reader of the weights would get through a hundredth of them before this ends.
  const running = start(['show', path, '--tensors']);
  const timer = setTimeout(() => running.child.kill('SIGKILL'), 20_000);
  const { code, stdout } = await running.ended;
  clearTimeout(timer);
  t.equal(code, 0);
  t.match(stdout, /Size +97\.7 GiB/);
  t.match(stdout, /weights 97\.7 GiB/);
});

t.test('show sums up a split set as one model, by any of its names', async (t) => {
  const folder = t.testdir();
  for (const part of [1, 2, 3]) put(join(folder, 'hub'), { repo: 'acme/big', file: `Q6_K/${partFile('big-Q6_K', part, 3)}`, bytes: modelPart(part - 1, 3) });
  const env = { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };
  for (const name of ['acme/big', 'acme/big:q6_k', 'big-Q6_K']) {
    const { code, stdout } = await recua(['show', name, '--json'], '', { env, cwd: folder });
    t.equal(code, 0, name);
    t.match(JSON.parse(stdout), {
      parts: 3,
      tensor_count: 3,
      parameters: 96,
      size_bytes: [0, 1, 2].reduce((sum, part) => sum + modelPart(part, 3).length, 0),
    });
  }
  t.match(await recua(['show', 'acme/bigg'], '', { env, cwd: folder }), { code: 1, stderr: /Did you mean acme\/big\?/ });
});

t.test('show names the keys that llama.cpp will miss', async (t) => {
  const path = join(t.testdir(), 'lost.gguf');
  const without = (...keys: string[]) => sound.metadata!.filter((one) => Buffer.isBuffer(one) || !keys.includes(one[0]));
  writeFileSync(path, gguf({ ...sound, metadata: without('llama.block_count', 'llama.context_length') }));
  const { stdout } = await recua(['show', path]);
  t.match(stdout, /^Missing +llama\.context_length, llama\.block_count, llama\.attention\.layer_norm_rms_epsilon: llama\.cpp cannot load the model without/m);
  t.strictSame(JSON.parse((await recua(['show', path, '--json'])).stdout).missing_keys, ['llama.context_length', 'llama.block_count', 'llama.attention.layer_norm_rms_epsilon']);
  t.notMatch((await recua(['show', 'builtin'])).stdout, /Missing/);
});

t.test('in a folder that is gone, the message says what to do', { skip: process.platform === 'win32' && 'a folder in use stays' }, async (t) => {
  const through = ['sh', '-c', 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$0" "$@"'];
  t.match(await recua(['show', 'none.gguf'], '', { through, bare: true }), { code: 1, stdout: '', stderr: /^recua: The current folder is gone or cannot be read\. Change to another one/ });
});
