import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { gpuLayers } from '../../device.js';
import { addon, builtin, loadBuiltin } from '../setup.js';

t.test('loadModel() describes the model and reports progress up to 1', async (t) => {
  const load = addon.loadModel({ path: builtin, gpuLayers, mmap: true, mlock: false });
  // The load runs already.
  t.ok(load.progress() >= 0 && load.progress() <= 1, String(load.progress()));
  const model = await load.promise;
  t.teardown(() => model.close());
  t.equal(model.info.architecture, 'llama');
  t.ok(model.info.parameters > 100_000);
  t.ok(model.info.hasChatTemplate);
  t.equal(model.chatTemplate().length > 0, true);
  t.equal(model.metadata()['general.architecture'], 'llama');
  t.equal(load.progress(), 1);
});

t.test('loadModel() can be cancelled', async (t) => {
  const load = addon.loadModel({ path: builtin, gpuLayers, mmap: false, mlock: false });
  load.cancel();
  await t.rejects(load.promise, { code: 'cancelled' });
});

t.test('loadModel() of a missing, a foreign and a cut file rejects with what llama.cpp says', async (t) => {
  const folder = t.testdir({ 'text.gguf': '<html>not a model</html>' });
  const cut = join(folder, 'cut.gguf');
  writeFileSync(cut, readFileSync(builtin).subarray(0, 100_000));
  for (const path of [join(folder, 'nothing.gguf'), join(folder, 'text.gguf')]) {
    await t.rejects(addon.loadModel({ path, gpuLayers, mmap: true, mlock: false }).promise, { code: 'model_unusable', message: path });
  }
  await t.rejects(addon.loadModel({ path: cut, gpuLayers, mmap: true, mlock: false }).promise, { code: 'model_unusable', message: cut });
});

t.test('the tokens of any text give its bytes back', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  for (const text of ['', 'Hello', ' two  spaces ', 'naïve café 北京 🦙👩‍👩‍👧', '\u0000\u0001\r\n\t', 'x'.repeat(5000)]) {
    const tokens = await model.tokenize(text, false, false);
    const bytes = await model.detokenize(tokens, false);
    t.equal(Buffer.from(bytes).toString(), text);
  }
});

t.test('pieces() agrees with piece() for every token', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  for (const special of [false, true]) {
    const { bytes, offsets, flags } = await model.pieces(special);
    t.equal(offsets.length, model.info.vocabSize + 1);
    t.equal(flags.length, model.info.vocabSize);
    let different = 0;
    for (let token = 0; token < model.info.vocabSize; token++) {
      if (Buffer.compare(bytes.subarray(offsets[token], offsets[token + 1]), model.piece(token, special)) !== 0) different++;
    }
    t.equal(different, 0);
    t.ok((flags[model.info.eosToken]! & 1) === 1, 'EOS ends a generation');
  }
});

t.test('control tokens are parsed only when asked', async (t) => {
  const model = await loadBuiltin();
  t.teardown(() => model.close());
  const eos = Buffer.from(model.piece(model.info.eosToken, true)).toString();
  t.same([...await model.tokenize(eos, false, true)], [model.info.eosToken]);
  t.ok((await model.tokenize(eos, false, false)).length > 1);
});

t.test('devices() lists at least the CPU', async (t) => {
  const cpu = addon.devices().find(({ kind }) => kind === 'cpu');
  t.ok(cpu && cpu.memoryTotalBytes > 0);
  t.ok(addon.version.backends.includes('CPU'));
});

t.test('log lines reach the sink, not the terminal', async (t) => {
  const lines: string[] = [];
  addon.setLog((level, text) => lines.push(`${level} ${text}`));
  const model = await loadBuiltin();
  await model.close();
  const talked = (): boolean => lines.some((line) => line.includes('general.architecture'));
  for (let tries = 0; tries < 400 && !talked(); tries++) await new Promise((resolve) => setTimeout(resolve, 50));
  addon.setLog(null);
  t.ok(talked(), 'the loader talked');
});
