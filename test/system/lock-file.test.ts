import t from 'tap';
import { execFileSync, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs, { chmod, readdir, readFile, rename, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lockHolder, tryLock, waitForLock } from '#recua/system/lock-file.js';
import { identityOf, lifeOf, ownIdentity, readIdentity } from '#recua/system/process-identity.js';

const hasPs = spawnSync('ps', ['-o', 'lstart=', '-p', String(process.pid)]).status === 0;
const holder = fileURLToPath(new URL('./lock-holder.js', import.meta.url));

/** A process that takes the lock and keeps it. */
async function hold(path: string) {
  const child = fork(holder, [path]);
  await once(child, 'message');
  return child;
}

t.test('one process holds a lock, and the next takes it on release', async (t) => {
  const path = join(t.testdir(), 'deep', 'a.lock');
  const lock = await tryLock(path);
  t.ok(lock);
  t.equal(await tryLock(path), undefined);
  t.equal((await lockHolder(path))?.pid, process.pid);
  const waiting = waitForLock(path, undefined, 5);
  t.equal(await lock!.isHeld(), true);
  await lock!.release();
  t.equal(await lock!.isHeld(), false);
  await lock!.release();
  const second = await waiting;
  t.equal(second.path, path);
  await second.release();
  await t.rejects(stat(path), { code: 'ENOENT' });
});

t.test('a lock that cannot be read at its release is released later', { skip: process.platform === 'win32' && 'links need rights' }, async (t) => {
  const path = join(t.testdir(), 'a.lock');
  const lock = await tryLock(path);
  // A link to itself cannot be read by root either.
  await rename(path, `${path}.before`);
  await symlink(path, path);
  await lock!.release();
  await rename(`${path}.before`, path);
  const next = await waitForLock(path, AbortSignal.timeout(5_000), 20);
  await next.release();
  await t.rejects(stat(path), { code: 'ENOENT' });
});

t.test('the lock of a process killed by SIGKILL is free at once', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  const child = await hold(path);
  t.equal(await tryLock(path), undefined);
  t.equal((await lockHolder(path))?.pid, child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.equal(await lockHolder(path), undefined);
  const lock = await tryLock(path);
  t.ok(lock);
  await lock!.release();
});

t.test('a pid that now belongs to another process does not hold a lock', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  const child = await hold(path);
  const mark = JSON.parse(await readFile(path, 'utf8')) as { started: string };
  await writeFile(path, JSON.stringify({ ...mark, started: `${mark.started}0` }));
  t.equal(await lockHolder(path), undefined);
  const lock = await tryLock(path);
  t.ok(lock);
  await lock!.release();
  child.kill('SIGKILL');
});

t.test('a holder on another machine counts while it touches its lock', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  await writeFile(path, JSON.stringify({ ...await ownIdentity(), machine: 'elsewhere 1 2' }));
  t.equal(await tryLock(path), undefined);
  const old = new Date(Date.now() - 3_600_000);
  await utimes(path, old, old);
  const lock = await tryLock(path);
  t.ok(lock);
  await lock!.release();
});

t.test('a lock touched before the clock was set back does not stay until that time', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  await writeFile(path, JSON.stringify({ ...await ownIdentity(), machine: 'elsewhere 1 2' }));
  const later = new Date(Date.now() + 86_400_000);
  await utimes(path, later, later);
  const lock = await tryLock(path);
  t.ok(lock);
  await lock!.release();
});

t.test('of many processes that find a dead lock, one gets it', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  await writeFile(path, '{"pid":12,"star');
  const locks = await Promise.all(Array.from({ length: 20 }, () => tryLock(path)));
  t.equal(locks.filter((lock) => lock !== undefined).length, 1);
});

t.test('where there are no links, as on exFAT, one process holds a lock, too', async (t) => {
  const { link } = fs;
  t.teardown(() => {
    fs.link = link;
    syncBuiltinESMExports();
  });
  for (const code of ['EPERM', 'ENOTSUP', 'EISDIR']) {
    fs.link = () => Promise.reject(Object.assign(new Error('no'), { code }));
    syncBuiltinESMExports();
    const path = join(t.testdir(), 'a.lock');
    const child = await hold(path);
    t.equal(await tryLock(path), undefined);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const locks = (await Promise.all(Array.from({ length: 20 }, () => tryLock(path)))).filter((lock) => lock !== undefined);
    t.equal(locks.length, 1);
    t.equal((await lockHolder(path))?.pid, process.pid);
    await locks[0]!.release();
    t.strictSame(await readdir(dirname(path)), []);
    await writeFile(path, '');
    t.equal(await tryLock(path), undefined, 'somebody writes it now');
    const old = new Date(Date.now() - 60_000);
    await utimes(path, old, old);
    const lock = await tryLock(path);
    t.ok(lock, 'nobody writes it any more');
    await lock?.release();
  }
});

t.test('an abort ends the wait', async (t) => {
  const path = join(t.testdir(), 'a.lock');
  const lock = await tryLock(path);
  const controller = new AbortController();
  const waiting = waitForLock(path, controller.signal, 5);
  controller.abort(new Error('enough'));
  await t.rejects(waiting, { message: 'enough' });
  await lock!.release();
});

t.test('identities tell processes apart and survive serialization', async (t) => {
  const own = await ownIdentity();
  t.strictSame(readIdentity(JSON.parse(JSON.stringify(own))), own);
  t.equal(await lifeOf(own), 'alive');
  t.equal(await lifeOf({ ...own, pid: 2 ** 22 + 1 }), 'dead');
  t.equal(await lifeOf({ ...own, machine: 'elsewhere' }), 'unknown');
  if (process.platform === 'linux') {
    t.equal(await lifeOf({ ...own, machine: own.machine.replace(/^\S+/, 'renamed') }), 'alive', 'the machine had another name then');
    t.equal(await lifeOf({ ...own, machine: own.machine.replace(/^\S+ \S+/, 'renamed 0') }), 'unknown');
    t.equal(await lifeOf({ ...own, machine: own.machine.replace(/ \S+ /, ' 0 ') }), 'dead', 'it was restarted since');
    t.equal(await lifeOf({ ...own, machine: own.machine.replace(/\S+$/, 'pid:[1]') }), 'unknown', 'another container may have its name');
  }
  t.equal(await identityOf(2 ** 22 + 1), undefined);
  for (const junk of [null, 3, 'x', {}, { pid: -1, started: '', machine: '' }, { pid: 1 }]) t.equal(readIdentity(junk), undefined);
});

t.test('a process that nobody can look at now does not count as dead', { skip: process.platform === 'win32' && 'has no such limit' }, async (t) => {
  const busy = fileURLToPath(new URL('./busy-process.js', import.meta.url));
  // The way of macOS, with ps, is tried on Linux, too.
  for (const platform of new Set([process.platform, ...(hasPs ? ['darwin'] : [])])) {
    for (const given of platform === process.platform ? [[], [JSON.stringify(await ownIdentity())]] : [[]]) {
      t.equal(execFileSync('/bin/sh', ['-c', 'ulimit -n 100; exec "$@"', 'sh', process.execPath, busy, platform, ...given], { encoding: 'utf8' }), 'unknown', platform);
    }
  }
});

t.test('a Mac knows its processes in every language, time zone and network', { skip: !hasPs && 'has no ps' }, async (t) => {
  const folder = t.testdir({ first: { sysctl: '#!/bin/sh\necho 1AC5-33' }, second: { sysctl: '#!/bin/sh\necho 77F0-12' } });
  for (const boot of ['first', 'second']) await chmod(join(folder, boot, 'sysctl'), 0o755);
  const mac = fileURLToPath(new URL('./mac-process.js', import.meta.url));
  const say = (boot: string, env: NodeJS.ProcessEnv, ...args: string[]): string => (
    execFileSync(process.execPath, [mac, ...args], { encoding: 'utf8', env: { ...process.env, PATH: `${join(folder, boot)}:${process.env['PATH']}`, ...env } })
  );
  const identity = say('first', { TZ: 'UTC', LC_ALL: 'C' }, 'ann.local');
  t.equal(say('first', { TZ: 'JST-9', LC_ALL: 'de_DE.UTF-8' }, 'ann.local', identity), 'alive');
  t.equal(say('first', { TZ: 'UTC' }, 'ann.example.net', identity), 'alive');
  t.equal(say('second', { TZ: 'UTC' }, 'ann.local', identity), 'dead', 'it was restarted since');
});

t.test('a file that is no lock stays', async (t) => {
  const path = join(t.testdir({ 'Pipfile.lock': '{"_meta":{}}', 'zeros.lock': '\0\0\0' }), 'Pipfile.lock');
  await t.rejects(tryLock(path), { code: 'store_unwritable', message: /Pipfile\.lock is in the way: / });
  t.equal(await readFile(path, 'utf8'), '{"_meta":{}}');
  const zeros = join(dirname(path), 'zeros.lock');
  await utimes(zeros, 1, 1);
  t.ok(await tryLock(zeros).then((lock) => lock?.release().then(() => true)), 'as a power loss leaves it');
});

t.test('an unreadable lock is an error at once, not an endless wait', async (t) => {
  // A folder in place of the lock cannot be read as a file, not even by root.
  const path = join(t.testdir({ 'a.lock': {} }), 'a.lock');
  await t.rejects(tryLock(path), { code: 'store_unwritable', message: /cannot be read/ });
  t.equal(await lockHolder(path), undefined);
});
