import { spawnSync } from 'node:child_process';
import { copyFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { loadModel, RecuaError, type LoadOptions } from 'recua';
import { codeOf, inBothModes } from './modes.js';

const builtin = fileURLToPath(new URL('../../builtin/builtin.gguf', import.meta.url));
const library = new URL('../../dist/index.js', import.meta.url).href;

inBothModes('loading reports its progress and describes the model', async (t, load) => {
  const fractions: number[] = [];
  const lines: string[] = [];
  const model = await load(t, {
    contextSize: 512,
    parallel: 2,
    onProgress: (fraction) => fractions.push(fraction),
    onLog: (_, text) => lines.push(text),
  });
  t.ok(fractions.every((fraction, i) => fraction >= (fractions[i - 1] ?? 0) && fraction <= 1));
  t.equal(fractions.at(-1), 1);
  t.ok(lines.length > 10, 'llama.cpp tells a lot');
  t.match(model.info, { id: 'builtin', path: builtin, contextSize: 512, parallel: 2, canGenerate: true, canEmbed: true, canRerank: false, hasChatTemplate: true });
});

t.test('a type of cached values that needs flash attention is refused without it', async (t) => {
  await t.rejects(loadModel('builtin', { cacheTypeV: 'q4_0', flashAttention: 'off' }), { code: 'invalid_value', message: /q4_0 \(--cache-type-v\), got off\. Without it, they can be f16/ });
});

t.test('a type of cached keys that does not fit the heads is refused in words', async (t) => {
  const path = join(t.testdir(), 'nano.gguf');
  const { writeRandomModel } = await import(new URL('../../bench/random-model.mjs', import.meta.url).href) as { writeRandomModel(name: string, path: string): void };
  writeRandomModel('nano', path);
  for (const [options, flag] of [[{ cacheTypeK: 'q8_0' }, 'k'], [{ cacheTypeV: 'q8_0' }, 'v']] as const) {
    const message = new RegExp(`--cache-type-${flag} that fits the model's heads of 16 values, got q8_0, which has blocks of 32`);
    await t.rejects(loadModel(path, options), { code: 'invalid_value', message });
  }
});

t.test('an onProgress that throws at the end leaves the model loaded', async (t) => {
  const thrown: string[] = [];
  process.setUncaughtExceptionCaptureCallback((error) => thrown.push(error.message));
  t.teardown(() => process.setUncaughtExceptionCaptureCallback(null));
  const model = await loadModel('builtin', { onProgress: (fraction) => { if (fraction === 1) throw new Error('of a callback'); } });
  t.teardown(() => model.dispose());
  t.match(await model.chat('Hello!', { temperature: 0, maxTokens: 2 }), { finishReason: 'length' });
  t.ok(thrown.includes('of a callback'));
});

inBothModes('a path is also a name, with blanks and letters of any script', async (t, load) => {
  const path = join(t.testdir(), 'ein Modell für äöü 模型.gguf');
  copyFileSync(builtin, path);
  const model = await load(t, { name: path });
  t.match(await model.chat('Hello!', { temperature: 0 }), { finishReason: 'stop' });
});

inBothModes('an aborted load rejects, whenever it is aborted', async (t, _load, isolated) => {
  t.equal(await codeOf(loadModel('builtin', { isolated, signal: AbortSignal.abort() })), 'cancelled');
  // From immediately to nearly done.
  for (const delayMs of [0, 5, 20, 60, 120]) {
    const controller = new AbortController();
    const loading = loadModel('builtin', { isolated, signal: controller.signal });
    setTimeout(() => controller.abort(), delayMs);
    const end = await loading.then((model) => model.dispose().then(() => 'loaded'), (error: RecuaError) => error.code);
    t.ok(end === 'cancelled' || end === 'loaded', `after ${delayMs} ms: ${end}`);
  }
  const model = await loadModel('builtin', { isolated });
  await model.dispose();
});

inBothModes('a failed load has an error code', async (t, load) => {
  await t.rejects(load(t, { name: 'no-such-model' }), { code: 'model_not_found' });
  await t.rejects(load(t, { name: '' }), { code: 'model_not_found' });
  await t.rejects(load(t, { name: 7 as unknown as string }), { code: 'invalid_type', param: 'name' });
  const path = join(t.testdir(), 'cut.gguf');
  copyFileSync(builtin, path);
  truncateSync(path, 100_000);
  await t.rejects(load(t, { name: path }), { code: 'invalid_gguf' });
  const vocabulary = fileURLToPath(new URL('../../vendor/llama.cpp/models/ggml-vocab-gpt-2.gguf', import.meta.url));
  const error: unknown = await load(t, { name: vocabulary }).catch((thrown: unknown) => thrown);
  t.ok(error instanceof RecuaError);
  t.match(error, { code: 'model_unusable' });
});

t.test('options are checked by name', async (t) => {
  const wrong: [object, string, string][] = [
    [{ contextsize: 1 }, 'invalid_value', 'contextsize'], [{ contextSize: -1 }, 'invalid_value', 'contextSize'], [{ parallel: 0 }, 'invalid_value', 'parallel'],
    [{ gpuLayers: 1.5 }, 'invalid_type', 'gpuLayers'], [{ cacheTypeK: 'q3' }, 'invalid_value', 'cacheTypeK'], [{ isolated: 'yes' }, 'invalid_type', 'isolated'],
    [{ onProgress: 1 }, 'invalid_type', 'onProgress'], [{ signal: 'x' }, 'invalid_type', 'signal'], [{ pooling: 'max' }, 'invalid_value', 'pooling'],
  ];
  for (const [options, code, param] of wrong) await t.rejects(loadModel('builtin', options as LoadOptions), { code, param }, JSON.stringify(options));
  await t.rejects(loadModel('builtin', 7 as unknown as LoadOptions), { code: 'invalid_type', param: 'options' });
  for (const [wrong, got] of [[Symbol('x'), 'Symbol(x)'], [() => 5, 'a function']] as const) {
    await t.rejects(loadModel('builtin', { parallel: wrong as never }), { code: 'invalid_type', message: `Expected an integer for parallel, got ${got}.` });
  }
});

inBothModes('a program that forgets dispose exits by itself, with its own exit code', async (t, _load, isolated) => {
  const end = (code: string) => {
    const source = `import { loadModel } from ${JSON.stringify(library)}; const model = await loadModel('builtin', { isolated: ${isolated} }); ${code}`;
    return spawnSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8', timeout: 60_000 });
  };
  const answered = end("process.stdout.write((await model.chat('Hello!', { temperature: 0 })).finishReason); process.exitCode = 3");
  t.match(answered, { status: 3, stdout: 'stop', stderr: '' });
  t.match(end("const reply = model.chat('Tell', { ignoreEos: true }); for await (const _ of reply) process.exit(4)"), { status: 4, stderr: '' });
  t.match(end("model.chat('Tell', { ignoreEos: true }); for await (const _ of model.chat('x', { ignoreEos: true })) throw new Error('own')"), { status: 1, stderr: /own/ });
});
