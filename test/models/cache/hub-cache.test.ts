import t from 'tap';
import { lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { blobPath, publishBlob, repoFolder, repoOfFolder } from '#recua/models/cache/hub-cache.js';
import { commitA, commitB, put, sha256 } from '../hub-layout.js';

const etag = sha256('x');

function withBlob(hub: string, repo = 'owner/repo', contents = 'x'): void {
  const path = blobPath(hub, repo, sha256(contents));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, contents);
}

/** Every name below a folder, with the contents of links and files. */
function tree(folder: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(folder.length + 1), entry.isSymbolicLink() ? `→ ${readlinkSync(path)}` : readFileSync(path, 'utf8')];
      }),
  );
}

t.test('publishBlob() leaves what Python would have left', async (t) => {
  const folder = t.testdir({ ours: {}, theirs: {} });
  const [ours, theirs] = [join(folder, 'ours'), join(folder, 'theirs')];
  for (const file of ['a.gguf', 'deep/er/b.gguf']) {
    withBlob(ours);
    const path = await publishBlob(ours, { repo: 'owner/repo', revision: 'main', commit: commitA, file, etag });
    t.equal(path, join(ours, 'models--owner--repo', 'snapshots', commitA, file));
    put(theirs, { repo: 'owner/repo', file, bytes: 'x' });
  }
  t.strictSame(tree(ours), tree(theirs));
});

t.test('publishBlob() writes revisions with slashes, and none for a commit', async (t) => {
  const hub = t.testdir();
  withBlob(hub);
  await publishBlob(hub, { repo: 'owner/repo', revision: 'refs/pr/1', commit: commitA, file: 'a.gguf', etag });
  await publishBlob(hub, { repo: 'owner/repo', revision: commitB, commit: commitB, file: 'a.gguf', etag });
  t.strictSame(Object.keys(tree(join(hub, 'models--owner--repo', 'refs'))), ['refs/pr/1']);
});

t.test('publishBlob() may be called again, and replaces another blob', async (t) => {
  const hub = t.testdir();
  withBlob(hub);
  withBlob(hub, 'owner/repo', 'y');
  const entry = { repo: 'owner/repo', revision: 'main', commit: commitA, file: 'a.gguf', etag };
  const path = await publishBlob(hub, entry);
  await Promise.all(Array.from({ length: 8 }, () => publishBlob(hub, entry)));
  t.equal(readFileSync(path, 'utf8'), 'x');
  await publishBlob(hub, { ...entry, etag: sha256('y'), revision: 'main', commit: commitA });
  t.equal(readFileSync(path, 'utf8'), 'y');
  t.strictSame(readdirSync(dirname(path)), ['a.gguf'], 'no draft is left');
});

t.test('publishBlob() without symlink rights makes a second name, and a repeat changes nothing', async (t) => {
  const hub = t.testdir();
  withBlob(hub);
  const noLinks = () => Promise.reject(Object.assign(new Error('no'), { code: 'EPERM' }));
  const entry = { repo: 'owner/repo', revision: 'main', commit: commitA, file: 'a.gguf', etag };
  for (let i = 0; i < 2; i++) {
    const path = await publishBlob(hub, entry, noLinks);
    t.ok(lstatSync(path).isFile());
    t.equal(readFileSync(path, 'utf8'), 'x');
  }
});

t.test('publishBlob() without any links moves the contents, and a repeat changes nothing', async (t) => {
  const { link } = fs;
  t.teardown(() => {
    fs.link = link;
    syncBuiltinESMExports();
  });
  // What Windows says on exFAT.
  const noLinks = () => Promise.reject(Object.assign(new Error('no'), { code: 'EISDIR' }));
  fs.link = noLinks;
  syncBuiltinESMExports();
  const hub = t.testdir();
  withBlob(hub);
  const entry = { repo: 'owner/repo', revision: 'main', commit: commitA, file: 'a.gguf', etag };
  for (let i = 0; i < 2; i++) {
    const path = await publishBlob(hub, entry, noLinks);
    t.equal(lstatSync(path).nlink, 1);
    t.equal(readFileSync(path, 'utf8'), 'x');
  }
});

t.test('publishBlob() says so when the contents are missing', async (t) => {
  const hub = t.testdir();
  await t.rejects(publishBlob(hub, { repo: 'owner/repo', revision: 'main', commit: commitA, file: 'a.gguf', etag }), { code: 'file_unreadable', message: /Expected the contents/ });
  t.throws(() => readdirSync(join(hub, 'models--owner--repo', 'refs')), 'no ref leads to nothing');
});

t.test('publishBlob() does not write through a folder that leads out of the store', async (t) => {
  const folder = t.testdir({ hub: {}, outside: {} });
  const hub = join(folder, 'hub');
  withBlob(hub);
  mkdirSync(join(hub, 'models--owner--repo', 'snapshots', commitA), { recursive: true });
  symlinkSync(join(folder, 'outside'), join(hub, 'models--owner--repo', 'snapshots', commitA, 'sub'));
  await t.rejects(publishBlob(hub, { repo: 'owner/repo', revision: 'main', commit: commitA, file: 'sub/a.gguf', etag }), { code: 'invalid_name' });
  t.strictSame(readdirSync(join(folder, 'outside')), []);
});

t.test('repoOfFolder() reverses repoFolder()', (t) => {
  for (const repo of ['owner/repo', 'gpt2', 'a.b/c_d-e', 'ñandú/日本語']) t.equal(repoOfFolder(repoFolder('/hub', repo).slice('/hub/'.length)), repo);
  for (const name of ['datasets--a--b', 'models', 'models--', 'models--a--b--c', '.locks', 'models----a']) t.equal(repoOfFolder(name), undefined, name);
  t.end();
});
