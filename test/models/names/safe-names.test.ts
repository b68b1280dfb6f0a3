import t from 'tap';
import { join, relative, isAbsolute, sep } from 'node:path';
import { existsSync, readdirSync } from 'node:fs';
import { blobPath, publishBlob, snapshotPath } from '#recua/models/cache/hub-cache.js';
import { RecuaError } from '#recua/errors.js';
import { checkEtag, checkRepo, checkRepoFile, checkRevision } from '#recua/models/names/safe-names.js';
import { commitA } from '../hub-layout.js';

const long = 'x'.repeat(241);
const hostileFiles = [
  '', '.', '..', '../a.gguf', 'a/../b.gguf', 'a/..', './a', '/etc/passwd', '//host/share', 'a//b', 'a/', 'C:/x', 'C:\\x', 'c:x', '\\\\host\\share', 'a\\..\\b', '..\\a',
  'a\0.gguf', 'a\nb', 'a\x1b[2J', 'a\x7f', 'a\u202eb', 'a\ud800', 'con', 'CON.gguf', 'a/NUL', 'aux.tar.gz', 'com1', 'LPT9.txt', 'conin$', 'a.', 'a ', ' a', 'sub ./a',
  'a:stream', 'a*', 'a?', 'a"', 'a<b', 'a|b', long, `${'d/'.repeat(500)}a`,
];

t.test('file names that lead elsewhere, or are invalid on some system, are refused', (t) => {
  for (const file of hostileFiles) {
    t.throws(() => checkRepoFile(file), { code: 'invalid_name' }, JSON.stringify(file.slice(0, 40)));
    t.throws(() => checkRevision(file), { code: 'invalid_name' }, JSON.stringify(file.slice(0, 40)));
  }
  for (const file of ['a.gguf', 'Q4_K_M/big-00001-of-00002.gguf', 'ñandú (1) [x] + 日本語.gguf', '.gitattributes', 'a..b', 'console', 'común', 'com10']) t.doesNotThrow(() => checkRepoFile(file), file);
  t.end();
});

t.test('repository names that lead elsewhere are refused', (t) => {
  for (const repo of ['', '/', 'a/', '/a', 'a/b/c', '..', '../a', 'a/..', 'a/.b', 'a/b.', 'a/-b', 'a--b', 'a/b--c', 'a/b..c', 'a b/c', 'a\\b', 'C:/a', 'a/b\0', 'a/b\n', 'a:b/c', `a/${'x'.repeat(97)}`]) {
    t.throws(() => checkRepo(repo), { code: 'invalid_name' }, JSON.stringify(repo));
  }
  for (const repo of ['gpt2', 'owner/repo', 'Qwen/Qwen2.5-0.5B-Instruct-GGUF', 'a/b_c']) t.doesNotThrow(() => checkRepo(repo), repo);
  t.end();
});

t.test('etags that lead elsewhere, or look like a partial download, are refused', (t) => {
  for (const etag of ['', '..', '../x', 'a/b', 'a\\b', '.x', 'a.recua-partial', 'a.incomplete', 'a b', 'a\0', 'x'.repeat(129)]) t.throws(() => checkEtag(etag), { code: 'invalid_name' }, etag);
  t.doesNotThrow(() => checkEtag('0'.repeat(64)));
  t.end();
});

t.test('no name leaves the store', async (t) => {
  const folder = t.testdir({ hub: {} });
  const hub = join(folder, 'hub');
  let state = 7;
  const next = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
  const pieces = ['..', '.', '/', '\\', 'a', 'models--', '--', ':', 'C:', '\0', '~', '$HOME', '%2e%2e', '．．', '‥', ' ', '\n', 'con', '\ud800', '😀', 'x.gguf', '-', '_', '..%2f', 'refs', '...'];
  const random = () => Array.from({ length: 1 + next(6) }, () => pieces[next(pieces.length)]).join('');
  const inside = (path: string) => {
    const way = relative(hub, path);
    return way !== '' && !isAbsolute(way) && !way.split(sep).includes('..');
  };
  let taken = 0;
  for (let i = 0; i < 20_000; i++) {
    const name = random();
    for (const place of [() => blobPath(hub, name, 'e'), () => blobPath(hub, 'o/r', name), () => snapshotPath(hub, 'o/r', commitA, name)]) {
      try {
        const path = place();
        taken++;
        if (!inside(path)) t.fail(`${JSON.stringify(path)} is outside`);
      } catch (error) {
        if (!(error instanceof RecuaError) || error.code !== 'invalid_name') throw error;
      }
    }
  }
  for (let i = 0; i < 300; i++) {
    await publishBlob(hub, { repo: random(), revision: random(), commit: commitA, file: random(), etag: random() }).catch(
      (error: unknown) => {
        if (!(error instanceof RecuaError)) throw error;
      },
    );
  }
  t.ok(taken > 1000, `${taken} were sound`);
  t.strictSame(readdirSync(folder), ['hub']);
  t.ok(readdirSync(hub).every((name) => name.startsWith('models--')));
  t.notOk(existsSync(join(folder, 'x.gguf')));
});
