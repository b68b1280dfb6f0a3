import t from 'tap';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lastingFolder } from '#recua/engine/sleep/sleep-cache.js';
import { model, put } from '../../models/hub-layout.js';
import { recua } from '../recua.js';

t.test('recua cache clear takes any name of a model, and says what else is kept', async (t) => {
  const home = t.testdir({ 'model.gguf': model('m') });
  const run = (...args: string[]) => recua(args, '', { env: { SERVICE_HOME: home, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' } });
  put(join(home, 'hub'), { repo: 'own/m', file: 'm-Q8_0.gguf', bytes: model('m') });
  t.match(await run('alias', 'short', 'own/m'), { code: 0 });
  const root = lastingFolder(join(home, 'recua'));
  const keep = (name: string, folder: string): void => {
    mkdirSync(join(root, folder), { recursive: true });
    writeFileSync(join(root, folder, 'model'), name);
    writeFileSync(join(root, folder, '1.kv'), 'x');
  };
  t.match(await run('cache'), { code: 0, stdout: /^No conversations are kept\. recua api --cache-disk 4096 keeps some\.$/m });
  for (const [kept, given] of [['own/m', 'short'], ['short', 'own/m'], ['m-Q8_0', 'short'], ['gone', 'gone']] as const) {
    keep(kept, 'a');
    keep('other', 'b');
    t.match(await run('cache', 'clear', given), { code: 0, stderr: /^Removed 1 conversation, 1 bytes\.$/m }, `${kept} as ${given}`);
    t.strictSame([readdirSync(join(root, 'a')), readdirSync(join(root, 'b')).sort()], [['model'], ['1.kv', 'model']]);
  }
  t.match(await run('cache', 'clear', 'short'), { code: 0, stderr: /^No conversations of short are kept\. There are some of other\.$/m });
});
