import t from 'tap';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { makeCheckout, scripts } from './checkout.js';

t.test('setup gives one sentence for each missing tool, and exits 1', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([]);
  writeFileSync(join(checkout.folder, 'package-lock.json'), '{"packages":{}}');
  const { status, output } = checkout.run('setup.mjs', { PATH: '', CXX: '', npm_execpath: '' });
  t.equal(status, 1);
  for (const [tool, advice] of [['git', 'sudo apt install git'], ['cmake', 'brew install cmake'], ['C\\+\\+17 compiler', 'sudo dnf install gcc-c\\+\\+'], ['make', 'Ninja-build']]) {
    t.equal(output.split('\n').filter((line) => new RegExp(`^(A )?${tool}\\b.* is missing.*${advice}`).test(line)).length, 1, tool);
  }
  t.end();
});

t.test('setup names a cmake that is too old', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([]);
  writeFileSync(join(checkout.folder, 'package-lock.json'), '{"packages":{}}');
  const bin = join(checkout.folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'cmake'), '#!/bin/sh\necho cmake version 3.10.2\n', { mode: 0o755 });
  t.match(checkout.run('setup.mjs', { PATH: `${bin}:/bin` }), { status: 1, output: /needs cmake 3\.14 or newer, this is 3\.10:/ });
  t.end();
});

t.test('setup works when it is called through a symbolic link', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([]);
  writeFileSync(join(checkout.folder, 'package-lock.json'), '{"packages":{}}');
  const link = join(checkout.folder, '..', 'link');
  symlinkSync(checkout.folder, link);
  const result = spawnSync(process.execPath, [join(link, 'scripts', 'setup.mjs')], { encoding: 'utf8', env: { ...process.env, PATH: '' } });
  t.match(result.stderr, /\[1\/7\] Checking tools/);
  t.end();
});

t.test('packages are installed if node_modules differs from the lock file', async (t) => {
  const checkout = makeCheckout(t.testdir());
  const { packagesPending } = await import(new URL('scripts/packages.mjs', `file://${encodeURI(checkout.folder)}/`).href);
  const lock = (packages: object) => JSON.stringify({ packages: { '': {}, ...packages } });
  const write = (name: string, text: string) => { writeFileSync(join(checkout.folder, name), text); };
  write('package-lock.json', lock({ 'node_modules/a': { version: '1', integrity: 'x' }, 'node_modules/b': { version: '1', optional: true } }));
  t.equal(packagesPending(), true, 'no node_modules');
  mkdirSync(join(checkout.folder, 'node_modules', 'a'), { recursive: true });
  t.equal(packagesPending(), true, 'half made');
  write('node_modules/a/package.json', '{}');
  write('node_modules/.package-lock.json', lock({ 'node_modules/a': { version: '1', integrity: 'x' } }));
  t.equal(packagesPending(), false, 'as it should be; the optional one is for another platform');
  write('node_modules/.package-lock.json', lock({ 'node_modules/a': { version: '2', integrity: 'x' } }));
  t.equal(packagesPending(), true, 'another version');
});

t.test('a truncated stamp counts as none', async (t) => {
  const { readJson, writeJson } = await import(`${scripts}stamp.mjs`);
  const path = join(t.testdir(), 'deep', 'stamp.json');
  t.equal(readJson(path), undefined);
  writeJson(path, { a: 1 });
  t.strictSame(readJson(path), { a: 1 });
  writeFileSync(path, '{"a":');
  t.equal(readJson(path), undefined);
});
