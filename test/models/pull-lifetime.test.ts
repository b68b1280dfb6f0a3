import t from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FakeHub, hashOf, modelBytes } from './fake-hub.js';
import type { FakeFile } from './fake-hub.js';
import { blobs, blobsFolder, isAbsent, isInstalled, oneFile, pull, snapshotOf, startPull } from './hub-pull.js';
import { deferred } from '../deferred.js';

const chunkBytes = 64 * 1024;
const pullArgs = ['owner/model:Q8_0'];
const makeFile = (chunks = 8): FakeFile => ({ path: 'm-Q8_0.gguf', bytes: modelBytes(chunks * chunkBytes + 321) });

t.test('two pulls of one file are one transfer', async (t) => {
  const file = makeFile(12);
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  const { promise: held, resolve: release } = deferred();
  hub.onSend = (piece) => (piece.count > 2 ? held : undefined);
  const first = startPull(hub, folder, pullArgs);
  await first.saw(/ \d+ % of/);
  const second = startPull(hub, folder, pullArgs);
  await second.saw(new RegExp(`Another recua \\(process ${first.child.pid}\\) downloads m-Q8_0\\.gguf; waiting for it`));
  const third = startPull(hub, folder, pullArgs);
  await third.saw(/waiting for it/);
  third.child.kill('SIGINT');
  t.equal((await third.ended).code, 130, 'one that waits can be stopped');
  release();
  for (const result of await Promise.all([first.ended, second.ended])) {
    t.equal(result.code, 0, result.stderr);
    t.equal(result.stdout, `${snapshotOf(folder, file.path)}\n`);
  }
  t.match(second.stderr(), /100 % of .*by another recua|100 % of/);
  t.equal(hub.bytesSent, file.bytes.length);
  t.ok(isInstalled(folder, file));
});

t.test('a waiting pull takes over when the other is killed', async (t) => {
  const file = makeFile(12);
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  hub.onSend = (piece) => (piece.count > 4 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const first = startPull(hub, folder, [...pullArgs, '--connections', '1']);
  await first.saw(/ 3\d % of/);
  const second = startPull(hub, folder, pullArgs);
  await second.saw(/waiting for it/);
  hub.onSend = () => undefined;
  first.child.kill('SIGKILL');
  const result = await second.ended;
  t.equal(result.code, 0, result.stderr);
  t.ok(isInstalled(folder, file));
  t.ok(hub.bytesSent <= file.bytes.length + chunkBytes);
});

t.test('Ctrl-C keeps the received bytes and says how to continue', async (t) => {
  const file = makeFile(12);
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  hub.onSend = (piece) => (piece.count > 4 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const running = startPull(hub, folder, [...pullArgs, '--connections', '1']);
  await running.saw(/ 3\d % of/);
  running.child.kill('SIGINT');
  const result = await running.ended;
  t.equal(result.code, 130);
  t.match(result.stderr, /Stopped\. The part that arrived is kept; to resume: recua pull owner\/model --file m-Q8_0\.gguf\n$/);
  t.equal(result.stdout, '');
  t.strictSame(blobs(folder), [`${hashOf(file)}.recua-partial`, `${hashOf(file)}.recua-partial.json`]);
  hub.onSend = () => undefined;
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  t.equal(hub.bytesSent, file.bytes.length, 'nothing came twice');
  t.ok(isInstalled(folder, file));
});

t.test('recua rm ends a pull, and those that wait for it, through its cancel file', async (t) => {
  const file = makeFile(12);
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  const cancel = join(blobsFolder(folder), `${hashOf(file)}.recua-cancel`);
  // An old cancel file stops nothing.
  mkdirSync(blobsFolder(folder), { recursive: true });
  writeFileSync(cancel, '');
  execFileSync('touch', ['-d', '2020-01-01', cancel]);
  hub.onSend = (piece) => (piece.count > 4 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const running = startPull(hub, folder, [...pullArgs, '--connections', '1']);
  await running.saw(/ 3\d % of/);
  const waiting = startPull(hub, folder, pullArgs);
  await waiting.saw(/waiting for it/);
  writeFileSync(cancel, '');
  for (const result of await Promise.all([running.ended, waiting.ended])) {
    t.equal(result.code, 1);
    t.match(result.stderr, /The download of m-Q8_0\.gguf of owner\/model was ended and removed, as by recua rm|gave it up or was told to by recua rm/);
  }
  t.strictSame(blobs(folder), [`${hashOf(file)}.recua-cancel`], 'nothing is left but what rm takes away itself');
  t.ok(isAbsent(folder, file));
});

t.test('--force fetches a file again and keeps the old one until then', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  const blob = join(blobsFolder(folder), hashOf(file));
  const before = statSync(blob).ino;
  hub.onSend = (piece) => (piece.count > 12 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const stopped = startPull(hub, folder, [...pullArgs, '--force', '--connections', '1']);
  await stopped.saw(/ 3\d % of/);
  stopped.child.kill('SIGINT');
  t.equal((await stopped.ended).code, 130);
  t.equal(statSync(blob).ino, before);
  hub.onSend = () => undefined;
  const result = await pull(hub, folder, [...pullArgs, '-F']);
  t.equal(result.code, 0, result.stderr);
  t.equal(hub.bytesSent, 2 * file.bytes.length);
  t.not(statSync(blob).ino, before);
  t.ok(isInstalled(folder, file));
});

t.test('a --force that waited for another one does its work if that stops', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  const blob = join(blobsFolder(folder), hashOf(file));
  const damaged = Buffer.from(file.bytes);
  damaged[5_000]! ^= 1;
  writeFileSync(blob, damaged);
  hub.onSend = (piece) => (piece.count > 12 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const stopped = startPull(hub, folder, [...pullArgs, '--force', '--connections', '1']);
  await stopped.saw(/ 3\d % of/);
  const waiting = startPull(hub, folder, [...pullArgs, '--force']);
  await waiting.saw(/waiting for it/);
  hub.onSend = () => undefined;
  stopped.child.kill('SIGINT');
  t.match((await stopped.ended).stderr, /to resume: recua pull --force owner\/model --file/);
  t.equal((await waiting.ended).code, 0);
  t.ok(isInstalled(folder, file));
});

t.test('an interrupted --force leaves nothing once the file is pulled without it', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  hub.onSend = (piece) => (piece.count > 12 ? new Promise<void>((resolve) => { piece.response.once('close', resolve); }) : undefined);
  const stopped = startPull(hub, folder, [...pullArgs, '--force', '--connections', '1']);
  await stopped.saw(/ 3\d % of/);
  stopped.child.kill('SIGINT');
  await stopped.ended;
  t.equal(blobs(folder).length, 3);
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  t.ok(isInstalled(folder, file));
});
