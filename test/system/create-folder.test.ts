// Folders that can and cannot be created, in both forms.
import { mkdtempSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { createFolder, createFolderSync } from '#recua/system/create-folder.js';

const forms = {
  createFolder,
  createFolderSync: async (path: string, mode?: 0o700): Promise<void> => createFolderSync(path, mode),
};

for (const [name, create] of Object.entries(forms)) {
  t.test(name, async (t) => {
    const root = mkdtempSync(join(tmpdir(), 'recua-folder-'));
    t.teardown(async () => { await rm(root, { recursive: true }); });

    await t.test('creates missing parents, all with the mode', async (t) => {
      await create(join(root, 'a', 'b', 'c'), 0o700);
      for (const path of ['a', 'a/b', 'a/b/c']) t.equal(statSync(join(root, path)).mode & 0o777, 0o700, path);
      await create(join(root, 'a', 'b', 'c'));
      t.equal(statSync(join(root, 'a/b/c')).mode & 0o777, 0o700, 'an existing folder stays as it is');
    });

    await t.test('ten at once', async (t) => {
      await Promise.all(Array.from({ length: 10 }, async () => await create(join(root, 'd', 'e', 'f'))));
      t.ok(statSync(join(root, 'd/e/f')).isDirectory());
    });

    await t.test('a file in the way', async (t) => {
      writeFileSync(join(root, 'file'), '');
      await t.rejects(create(join(root, 'file')), { code: 'EEXIST' });
      await t.rejects(create(join(root, 'file', 'x')), { code: 'ENOTDIR' });
    });

    // Node's own `recursive` tries this for ever.
    await t.test('a system that creates nothing there', { skip: process.platform !== 'linux' && 'no /proc' }, async (t) => {
      await t.rejects(create('/proc/nonexistent/x'), { code: 'ENOENT' });
    });
  });
}
