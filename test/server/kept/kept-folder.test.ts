import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { KeptFolder, namesIn } from '#recua/server/kept/kept-folder.js';
import { root } from '../../cli/recua.js';
import { until } from '../app-under-test.js';

const own = process.getuid ? `kept-${process.getuid()}` : 'kept';
const posix = { skip: process.platform === 'win32' };

t.test('a folder is private to the user, and made again if it was removed', posix, async (t) => {
  const parent = join(t.testdir(), 'a', 'b');
  const kept = new KeptFolder(parent);
  t.equal(kept.has('things'), false);
  const folder = await kept.of('things');
  t.equal(folder, join(parent, own, 'things'));
  t.equal(new KeptFolder(parent).has('things'), true);
  for (const one of [folder, join(parent, own)]) t.equal(statSync(one).mode & 0o777, 0o700);
  rmSync(parent, { recursive: true });
  t.equal(await kept.of('things'), folder);
  t.equal(statSync(join(parent, own)).mode & 0o777, 0o700);
});

t.test('a folder that others may read is made private; one that is not the user’s is not used', posix, async (t) => {
  const parent = t.testdir();
  mkdirSync(join(parent, own));
  chmodSync(join(parent, own), 0o755);
  await new KeptFolder(parent).of('things');
  t.equal(statSync(join(parent, own)).mode & 0o777, 0o700);
  rmSync(join(parent, own), { recursive: true });
  mkdirSync(join(parent, 'elsewhere'));
  symlinkSync(join(parent, 'elsewhere'), join(parent, own));
  const kept = new KeptFolder(parent);
  await t.rejects(kept.of('things'), { code: 'store_unwritable' }, 'a link');
  t.strictSame(readdirSync(join(parent, 'elsewhere')), []);
  rmSync(join(parent, own));
  writeFileSync(join(parent, own), '');
  await t.rejects(kept.of('things'), { code: 'store_unwritable' }, 'a file');
  rmSync(join(parent, own));
  t.ok(await kept.of('things'), 'it is tried again');
});

t.test('without a place nothing exists before it is needed, nor after the process has ended', (t) => {
  const module = new URL('../../../dist/server/kept/kept-folder.js', import.meta.url).href;
  const program = `const { KeptFolder } = await import(${JSON.stringify(module)}); const kept = new KeptFolder();
    process.stdout.write(JSON.stringify([kept.has('things'), await kept.of('things')]));`;
  const [isThere, folder] = JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8' })) as [boolean, string];
  t.equal(isThere, false);
  t.ok(folder.startsWith(join(tmpdir(), 'recua-kept-')), folder);
  t.notOk(existsSync(join(folder, '..')));
  t.end();
});

t.test('a temporary folder goes when it is closed, and is not made again', async (t) => {
  const listeners = process.listenerCount('exit');
  const all = Array.from({ length: 20 }, () => new KeptFolder());
  const folders = await Promise.all(all.map((one) => one.of('things')));
  t.ok(process.listenerCount('exit') <= listeners + 1, 'Node warns of no leak');
  for (const folder of folders) writeFileSync(join(folder, 'one'), 'what somebody wrote');
  const opening = new KeptFolder();
  const opened = opening.of('things');
  await Promise.all([...all, opening].map((one) => one.close()));
  for (const folder of [...folders, await opened]) t.notOk(existsSync(join(folder, '..')));
  await t.rejects(all[0]!.of('things'), { code: 'shutting_down' });
  t.equal(process.listenerCount('exit'), listeners);
  await all[0]!.close();
  const lasting = new KeptFolder(t.testdir());
  const folder = await lasting.of('things');
  await lasting.close();
  t.ok(existsSync(folder), 'that of a server stays');
});

t.test('the temporary folder of a program that a signal ended goes when the next one is made', posix, async (t) => {
  const module = new URL('../../../dist/server/kept/kept-folder.js', import.meta.url).href;
  const program = `const { KeptFolder } = await import(${JSON.stringify(module)});
    process.stdout.write(await new KeptFolder().of('things')); setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [folder] = (await once(child.stdout, 'data') as [Buffer]).map(String) as [string];
  child.kill('SIGTERM');
  await once(child, 'exit');
  t.ok(existsSync(folder), 'it had no time to remove it');
  const next = new KeptFolder();
  t.teardown(() => next.close());
  await next.of('things');
  await until(() => !existsSync(join(folder, '..')));
});

t.test('a temporary folder that a part of could not be made in keeps what it has', posix, async (t) => {
  const kept = new KeptFolder();
  const things = await kept.of('things');
  writeFileSync(join(things, 'one'), '');
  writeFileSync(join(things, '..', 'others'), 'in the way');
  await t.rejects(kept.of('others'), { code: 'store_unwritable' });
  t.equal(await kept.of('things'), things);
  rmSync(join(things, '..', 'others'));
  t.equal(await kept.of('others'), join(things, '..', 'others'));
});

t.test('the names in a folder that cannot be listed are asked for in vain', posix, async (t) => {
  const folder = join(t.testdir({ things: { one: '' } }), 'things');
  t.strictSame(await namesIn(folder), ['one']);
  chmodSync(folder, 0o311);
  // Root may list every folder.
  if (process.getuid!() === 0) process.seteuid!(65_534);
  const failure = await namesIn(folder).catch((thrown: unknown) => thrown);
  process.seteuid!(process.getuid!());
  chmodSync(folder, 0o700);
  t.match(failure, { code: 'store_unwritable', message: 'The server cannot read or write what it stores (EACCES); its log says which file.' });
});
