import t from 'tap';
import { existsSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { importModel } from '#recua/models/cache/local-import.js';
import type { ImportRequest } from '#recua/models/cache/local-import.js';
import { gguf, types } from '../gguf-bytes.js';
import { model } from '../hub-layout.js';

function placesIn(folder: string) {
  return { hub: join(folder, 'hub'), sessions: folder, state: join(folder, 'state'), tokenFile: folder };
}
const request: ImportRequest = { path: '', mode: 'copy', repo: '', alias: '', force: false };

t.test('an import that is stopped during reading or copying leaves nothing behind', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'big.gguf');
  writeFileSync(path, model('big'));
  truncateSync(path, 8 * 1024 * 1024);
  for (const stage of ['checking', 'copying']) {
    const controller = new AbortController();
    const seen = new Set<string>();
    const progress = (doing: string) => {
      seen.add(doing);
      if (doing === stage) controller.abort();
    };
    await t.rejects(importModel(placesIn(folder), { ...request, path, alias: 'big' }, { signal: controller.signal, progress }), { code: 'cancelled', message: /nothing was imported/ });
    t.ok(seen.has(stage));
    t.strictSame(readdirSync(join(folder, 'hub')), []);
    t.notOk(existsSync(join(folder, 'state')));
  }
});

t.test('a file that changes during its import is not taken', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'big.gguf');
  writeFileSync(path, model('big'));
  truncateSync(path, 8 * 1024 * 1024);
  const progress = (doing: string) => { if (doing === 'checking') writeFileSync(path, model('other')); };
  for (const mode of ['copy', 'auto'] as const) {
    await t.rejects(importModel(placesIn(folder), { ...request, path, mode }, { signal: new AbortController().signal, progress }), { code: 'file_unreadable', message: /changed while it was imported/ });
    t.strictSame(readdirSync(join(folder, 'hub')), []);
    truncateSync(path, 8 * 1024 * 1024);
  }
});

t.test('several imports of one file at once end with one model', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'm.gguf');
  writeFileSync(path, model('m'));
  const watch = { signal: new AbortController().signal, progress: () => { /* Nobody looks. */ } };
  const done = await Promise.all(Array.from({ length: 5 }, () => importModel(placesIn(folder), { ...request, path }, watch)));
  t.strictSame(done.map((one) => one.model.name), Array.from({ length: 5 }, () => 'local/m'));
  t.equal(readdirSync(join(folder, 'hub', 'models--local--m', 'blobs')).length, 1);
});

t.test('a model whose name says that statistics were used is imported; what is no model is refused before it is read', async (t) => {
  const folder = t.testdir();
  const watch = { signal: new AbortController().signal, progress: () => { /* Nobody looks. */ } };
  const named = (name: string, bytes = model('m')): string => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  const import_ = async (path: string) => await importModel(placesIn(folder), { ...request, path, alias: 'mine' }, watch);
  await t.rejects(import_(named('mmproj-x.gguf')), { code: 'invalid_name', message: /a file that accompanies models\. Rename the file/ });
  await t.rejects(import_(named('imatrix.gguf')), { code: 'invalid_name' });
  await t.rejects(import_(named('x.gguf', gguf({ metadata: [['general.type', types.string, 'imatrix']] }))), { code: 'model_unusable', message: /an importance matrix.*x\.gguf/ });
  await t.rejects(import_(named('x.gguf', gguf({ metadata: [['general.architecture', types.string, 'clip']] }))), { code: 'model_unusable', message: /the projector/ });
  t.notOk(existsSync(join(folder, 'hub')));
  await importModel(placesIn(folder), { ...request, path: named('other.gguf', model('other')), repo: 'local/My-7B-v2-imatrix' }, watch);
  t.match(await import_(named('My-7B-v2-imatrix.gguf')), { model: { repo: 'local/My-7B-v2-imatrix' }, aliases: ['mine'] });
});
