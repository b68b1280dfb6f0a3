import t from 'tap';
import { bytesPerToken, chooseContext, hasRoomFor } from '#recua/cli/chat/context-size.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import type { ModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';

const f16 = { cacheTypeK: 'f16', cacheTypeV: 'f16' };
const mebibyte = 1024 * 1024;
const builtin = await readModelFile(builtinPath);
/** The built-in model, if it were trained with more. */
const trained = (contextTrain: number, more: Partial<ModelFile> = {}): ModelFile => ({ ...builtin, contextTrain, ...more });

t.test('a token costs its keys and values in every layer', async (t) => {
  // 5 layers, 4 heads of 32.
  t.equal(bytesPerToken(builtin, f16), 5 * 4 * 32 * 2 * 2);
  t.equal(bytesPerToken(builtin, { cacheTypeK: 'f32', cacheTypeV: 'f32' }), 5 * 4 * 32 * 4 * 2);
  t.equal(bytesPerToken(trained(1, { architecture: 'unheard-of' }), f16), undefined);
});

t.test('the context is the training size, as far as memory allows, and says so', async (t) => {
  t.match(chooseContext(builtin, f16, 16 * 1024 * mebibyte), { size: 4096, reason: /4096 tokens, the model's training size/ });
  const bounded = chooseContext(trained(1_000_000), f16, 1024 * mebibyte);
  t.ok(bounded.size > 100_000 && bounded.size < 1_000_000 && bounded.size % 256 === 0);
  t.match(bounded.reason, new RegExp(`${bounded.size} of the 1000000 tokens`));
  t.ok(bounded.size * bytesPerToken(builtin, f16)! <= 512 * mebibyte, 'half of it is left for all else');
  t.equal(chooseContext(trained(1_000_000), f16, 0).size, 512, 'never less than can hold a chat');
});

t.test('the context has its usual size if the file says too little', async (t) => {
  t.match(chooseContext(trained(0), f16), { size: 4096, reason: /does not say/ });
  t.match(chooseContext(trained(100_000, { architecture: 'unheard-of' }), f16), { size: 4096, reason: /4096 of the 100000/ });
  t.match(chooseContext(trained(2048, { architecture: 'unheard-of' }), f16), { size: 2048 });
});

t.test('there is room for a model if all of it fits and other programs keep their share', (t) => {
  const settings = { ...f16, contextSize: 0, parallel: 4 };
  t.ok(hasRoomFor(builtin, settings, 1024 * mebibyte));
  t.notOk(hasRoomFor(builtin, settings, 512 * mebibyte));
  t.notOk(hasRoomFor(trained(1_000_000), settings, 1024 * mebibyte), '0 is the training size');
  t.ok(hasRoomFor(trained(1_000_000), { ...settings, contextSize: 512 }, 1024 * mebibyte));
  t.end();
});
