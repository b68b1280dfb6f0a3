// Recua checks the file before every load, whatever it checked before.
import t from 'tap';
import { appendFileSync, copyFileSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { startEngine } from '#recua/engine/gateway/client.js';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import type { EngineOptions } from '#recua/engine/protocol.js';
import { checkedFiles, ensureChecked, fingerprintOf, readModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { gguf, sound, types } from '../models/gguf-bytes.js';
import { partFile, modelPart } from '../models/hub-layout.js';
import { options } from './requests.js';

/**
 * A file that llama.cpp must not see: a byte token in an invalid form makes it write outside a
 * buffer.
 */
const hostile = gguf({ ...sound, metadata: [...sound.metadata!.filter((one) => Buffer.isBuffer(one) || one[0] !== 'tokenizer.ggml.tokens'),
  ['tokenizer.ggml.tokens', types.array, ['a', 'b', '<0x-1>'], types.string]] });

async function optionsFor(path: string): Promise<EngineOptions> {
  return { ...options, modelPath: path, checked: checkedFiles(await readModelFile(path)), contextSize: 256, parallel: 1 };
}

t.test('a file that was replaced while the engine ran is refused when a crashed engine restarts', async (t) => {
  const path = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, path);
  const engine = startEngine(await optionsFor(path), { restart: { delayMs: 1, holdOffMs: 600_000 } });
  t.teardown(() => engine.close(0));
  t.match((await engine.ready()).description, /^llama [\d.]+[KMB] [A-Z]+\d\w*$/, 'and the model is described by what it has');
  writeFileSync(`${path}.new`, hostile);
  renameSync(`${path}.new`, path);
  process.kill(engine.pid!, 'SIGKILL');
  while (engine.state.state !== 'failed') await wait(5);
  t.match(engine.state, { state: 'failed', error: { code: 'invalid_gguf', message: /token 2 is a byte token with the text "<0x-1>"/ } });
  t.equal(engine.crashes, 1, 'only the one that was killed');
});

t.test('a file replaced between the check and the first load is refused, in a process of its own or not', async (t) => {
  for (const start of [startEngine, startLocalEngine]) {
    const path = join(t.testdir(), 'model.gguf');
    copyFileSync(builtinPath, path);
    const given = await optionsFor(path);
    writeFileSync(path, hostile);
    const engine = start(given);
    await t.rejects(engine.ready(), { code: 'invalid_gguf' }, start.name);
    await engine.close(0);
  }
});

t.test('an error about a file that is gone does not tell clients its folder', async (t) => {
  for (const start of [startEngine, startLocalEngine]) {
    const path = join(t.testdir(), 'model.gguf');
    copyFileSync(builtinPath, path);
    const given = await optionsFor(path);
    rmSync(path);
    const engine = start(given);
    await t.rejects(engine.ready(), { code: 'model_not_found', message: 'There is no file model.gguf.' }, start.name);
    await engine.close(0);
  }
});

t.test('a changed file is read again, an unchanged one is not', async (t) => {
  const folder = t.testdir();
  const whole = join(folder, 'model.gguf');
  writeFileSync(whole, gguf(sound));
  const parts = [1, 2].map((part) => join(folder, partFile('big', part, 2)));
  for (const [index, path] of parts.entries()) writeFileSync(path, modelPart(index, 2));
  for (const files of [[whole], parts]) {
    const [path] = files as [string];
    const checked = checkedFiles(await readModelFile(path));
    t.strictSame(checked.map((file) => file.path), files);
    const last = files.at(-1)!;
    const bytes = readFileSync(last);
    await ensureChecked(path, checked);
    t.strictSame(await ensureChecked(path, []), checked);
    // Same length, and the same modification time as far as a program can set it.
    writeFileSync(last, Buffer.alloc(bytes.length, 'x'));
    utimesSync(last, 1, 1);
    await t.rejects(ensureChecked(path, checked), { code: 'invalid_gguf' });
    // The check of one file says nothing about another.
    await t.rejects(ensureChecked(last, [{ path: `${last}.other`, mark: checked.at(-1)!.mark }]), { code: 'invalid_gguf' });
    writeFileSync(last, bytes);
    appendFileSync(last, '');
    const now = await ensureChecked(path, checked);
    t.not(fingerprintOf(now), fingerprintOf(checked), 'another file by its times, though not by its bytes');
    t.equal(fingerprintOf(now), fingerprintOf(checkedFiles(await readModelFile(path))));
  }
});
