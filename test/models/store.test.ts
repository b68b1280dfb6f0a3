import t from 'tap';
import { utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtinPath, findModel } from '#recua/models/store.js';

t.test('findModel() takes a path, absolute or relative, with or without its ending', async (t) => {
  const folder = t.testdir({ 'ñandú 7b.gguf': 'x' });
  const path = join(folder, 'ñandú 7b.gguf');
  utimesSync(path, 1000, 1234);
  const expected = { path, id: 'ñandú 7b', aliases: [], createdSeconds: 1234 };
  t.strictSame(await findModel(path), expected);
  t.strictSame(await findModel('ñandú 7b.gguf', folder), expected);
  t.strictSame(await findModel('ñandú 7b', folder), expected);
});

t.test('findModel() names a split model without its part', async (t) => {
  const folder = t.testdir({ 'big-00001-of-00003.gguf': '' });
  t.equal((await findModel('big-00001-of-00003.gguf', folder)).id, 'big');
});

t.test('findModel() knows builtin as the embedded model, whatever lies in the folder', async (t) => {
  const folder = t.testdir();
  writeFileSync(join(folder, 'builtin'), '');
  t.match(await findModel('builtin', folder), { path: builtinPath, id: 'builtin' });
});

t.test('findModel() says what it looked for', async (t) => {
  const folder = t.testdir({ sub: {} });
  await t.rejects(findModel('nope', folder), { code: 'model_not_found', message: /nope and the file .*nope\.gguf\. Expected .* builtin/ });
  await t.rejects(findModel('sub', folder), { code: 'file_unreadable', message: /is a folder/ });
  await t.rejects(findModel(''), { code: 'model_not_found' });
});
