import t from 'tap';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, readlinkSync, statSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { PartialFile } from '#recua/models/download/partial-file.js';
import type { HubFile } from '#recua/models/hub/hub.js';
import type { Running } from '../../cli/recua.js';
import { FakeHub, hashOf, modelBytes } from '../fake-hub.js';
import type { FakeFile } from '../fake-hub.js';
import { blobs, blobsFolder, isInstalled, oneFile, pull, startPull } from '../hub-pull.js';

const chunkBytes = 64 * 1024;
const makeFile = (size = 20 * chunkBytes + 1234): FakeFile => ({ path: 'm-Q8_0.gguf', bytes: modelBytes(size) });

/**
 * Pulls, and is killed as soon as the hub has sent this many bytes. Resolves to the position in the
 * file that they reached.
 */
async function pullKilledAt(
  hub: FakeHub,
  folder: string,
  bytes: number,
  args: readonly string[],
  more: Record<string, string> = {},
): Promise<number> {
  const target = hub.bytesSent + bytes;
  let reached = 0;
  const running = startPull(hub, folder, args, more);
  hub.onSend = async ({ response }, offset, length) => {
    if (hub.bytesSent >= target) {
      running.child.kill('SIGKILL');
      await once(response, 'close');
      return;
    }
    reached = Math.max(reached, offset + length);
  };
  await running.ended;
  hub.onSend = () => undefined;
  return reached;
}

t.test('a pull killed at twenty random bytes ends with the right file and fetches at most one chunk twice each time', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  // Small chunks, so that each round is killed after several of them.
  const smallChunk = 8 * 1024;
  const env = { RECUA_TEST_CHUNK_BYTES: String(smallChunk) };
  hub.sendBytes = 251;
  const folder = t.testdir();
  const args = ['owner/model:Q8_0', '--connections', '1'];
  let kills = 0;
  let reached = 0;
  let twice = 0;
  for (let round = 0; round < 20; round++) {
    const firstRequest = hub.pieces.length;
    // Less than a twentieth of the file, so that something is left for each kill.
    const reachedNow = await pullKilledAt(hub, folder, 1 + Math.floor(Math.random() * (file.bytes.length / 20 - 1)), args, env);
    const [first] = hub.pieces.slice(firstRequest);
    if (!first) continue;
    kills++;
    const from = Number(/^bytes=(\d+)-/.exec(first.range!)![1]);
    t.ok(reached - from <= smallChunk, `kill ${kills}: goes on from byte ${from} after byte ${reached} was sent`);
    twice += Math.max(0, reached - from);
    reached = reachedNow;
  }
  t.comment(`${twice} bytes came twice`);
  t.equal(kills, 20, 'each round was killed while it downloaded');
  const last = await pull(hub, folder, args, env);
  t.equal(last.code, 0, last.stderr);
  t.ok(isInstalled(folder, file), 'the file is right and nothing else is left');
  t.ok(hub.bytesSent <= file.bytes.length + kills * smallChunk, `${hub.bytesSent} bytes were sent for ${file.bytes.length}, with ${kills} kills`);
});

t.test('a disk that fails when the file is complete leaves no open file', { skip: process.platform !== 'linux' }, async (t) => {
  const folder = t.testdir();
  const blob = join(folder, 'blob');
  const file = { path: 'm.gguf', sizeBytes: 0, etag: 'e', sha256: undefined } as unknown as HubFile;
  const partial = await PartialFile.open(blob, { revision: 'main', commit: 'c', file }, () => undefined);
  const isOpen = (): boolean => readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(blob);
    } catch {
      return false;
    }
  });
  t.ok(isOpen());
  const other = await open(join(folder, 'other'), 'w');
  const prototype = Object.getPrototypeOf(other) as { sync: () => Promise<void> };
  await other.close();
  const { sync } = prototype;
  prototype.sync = () => Promise.reject(Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' }));
  t.teardown(() => (prototype.sync = sync));
  await t.rejects(partial.install());
  t.notOk(isOpen());
  t.notOk(existsSync(blob));
});

t.test('with four connections a kill costs at most a chunk of each', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  hub.sendBytes = 4096;
  const folder = t.testdir();
  for (let kills = 0; kills < 4; kills++) await pullKilledAt(hub, folder, 150_000 + Math.floor(Math.random() * 60_000), ['owner/model:Q8_0']);
  const last = await pull(hub, folder, ['owner/model:Q8_0']);
  t.equal(last.code, 0, last.stderr);
  t.ok(isInstalled(folder, file));
  t.ok(hub.bytesSent <= file.bytes.length + 4 * 4 * chunkBytes, `${hub.bytesSent} for ${file.bytes.length}`);
});

/** Waits until the journal records this many bytes. */
async function noted(running: Running, folder: string, file: FakeFile, bytes: number): Promise<void> {
  const journal = join(blobsFolder(folder), `${hashOf(file)}.recua-partial.json`);
  while (!existsSync(journal) || JSON.parse(readFileSync(journal, 'utf8')).done_bytes !== bytes) {
    if (running.child.exitCode !== null) throw new Error(`it ended: ${running.stderr()}`);
    await wait(20);
  }
}

/**
 * A hub that sends this many bytes on each connection of a pull, and then nothing until it is
 * released.
 */
function holdAfter(hub: FakeHub, bytes: number): void {
  hub.sendBytes = 1000;
  hub.onSend = ({ response, range }, offset) => (offset - range!.from >= bytes ? new Promise<void>((resolve) => { response.once('close', resolve); }) : undefined);
}

t.test('every byte that arrived is kept, wherever in a chunk the pull is stopped or killed', async (t) => {
  // Four connections, none of which gets a whole chunk.
  const file = makeFile(40 * chunkBytes);
  const hub = await FakeHub.start(t, oneFile(file));
  const env = { RECUA_TEST_CHUNK_BYTES: String(10 * chunkBytes) };
  const folder = t.testdir();
  const args = ['owner/model:Q8_0'];
  // A little more than a tenth of the file each time, over all four.
  const each = 66_000;
  for (const [round, signal] of (['SIGINT', 'SIGKILL', 'SIGTERM', 'SIGKILL'] as const).entries()) {
    holdAfter(hub, each);
    const running = startPull(hub, folder, args, env);
    await running.saw(new RegExp(` ${(round + 1) * 10} % of`));
    // Progress is recorded once a second; a pull that is asked to stop records it then.
    if (signal === 'SIGKILL') await noted(running, folder, file, (round + 1) * 4 * each);
    running.child.kill(signal);
    const { stderr } = await running.ended;
    if (signal !== 'SIGKILL') t.match(stderr, /The part that arrived is kept/);
  }
  hub.onSend = () => undefined;
  const last = await pull(hub, folder, args, env);
  t.equal(last.code, 0, last.stderr);
  t.ok(isInstalled(folder, file));
  t.equal(hub.bytesSent, file.bytes.length, 'no byte came twice');
});

t.test('a partial chunk that does not match the journal is fetched again', async (t) => {
  const file = makeFile(4 * chunkBytes);
  for (const damage of ['changed', 'cut']) {
    const hub = await FakeHub.start(t, oneFile(file));
    const folder = join(t.testdir({ changed: {}, cut: {} }), damage);
    holdAfter(hub, 9000);
    const running = startPull(hub, folder, ['owner/model:Q8_0']);
    await noted(running, folder, file, 4 * 9000);
    running.child.kill('SIGKILL');
    await running.ended;
    const partial = join(blobsFolder(folder), `${hashOf(file)}.recua-partial`);
    const bytes = readFileSync(partial);
    if (damage === 'changed') bytes[8999]! ^= 1;
    else truncateSync(partial, 3 * chunkBytes + 8999);
    if (damage === 'changed') writeFileSync(partial, bytes);
    hub.onSend = () => undefined;
    const sent = hub.bytesSent;
    const last = await pull(hub, folder, ['owner/model:Q8_0']);
    t.equal(last.code, 0, last.stderr);
    t.ok(isInstalled(folder, file), damage);
    t.equal(hub.bytesSent - sent, file.bytes.length - 3 * 9000, 'of one chunk nothing was believed');
    hub.close();
  }
});

t.test('links in place of the folders and files of a download are not followed', { skip: process.platform === 'win32' && 'links take rights there' }, async (t) => {
  const file = makeFile(3 * chunkBytes);
  const hub = await FakeHub.start(t, oneFile(file));
  const partial = `${hashOf(file)}.recua-partial`;
  const cases: Record<string, { name: string; target: string; works: boolean }> = {
    'the folder of blobs': { name: '', target: 'elsewhere', works: false },
    'the bytes': { name: partial, target: 'elsewhere/precious', works: false },
    'the journal': { name: `${partial}.json`, target: 'elsewhere/precious', works: true },
    'the journal to be': { name: `${partial}.json.new`, target: 'elsewhere/precious', works: true },
    'the blob': { name: hashOf(file), target: 'elsewhere/precious', works: true },
    'an endless journal': { name: `${partial}.json`, target: '/dev/zero', works: true },
  };
  const root = t.testdir(Object.fromEntries(Object.keys(cases).map((name) => [name, { elsewhere: { precious: 'precious' } }])));
  for (const [what, { name, target, works }] of Object.entries(cases)) {
    const folder = join(root, what);
    const place = join(blobsFolder(folder), name);
    mkdirSync(join(place, '..'), { recursive: true });
    symlinkSync(target.startsWith('/') ? target : join(folder, target), name === '' ? blobsFolder(folder) : place);
    const result = await pull(hub, folder, ['owner/model:Q8_0']);
    t.equal(result.code, works ? 0 : 1, `${what}: ${result.stderr}`);
    if (works) t.ok(isInstalled(folder, file), what);
    else t.match(result.stderr, /a link leads|cannot be written: ELOOP/, what);
    t.equal(readFileSync(join(folder, 'elsewhere', 'precious'), 'utf8'), 'precious', what);
    t.strictSame(readdirSync(join(folder, 'elsewhere')), ['precious'], what);
  }
});

t.test('bytes that the disk lost or changed after the journal was written are fetched again, and only those', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  hub.sendBytes = 4096;
  const folder = t.testdir();
  const args = ['owner/model:Q8_0', '--connections', '1'];
  await pullKilledAt(hub, folder, 10 * chunkBytes, args);
  const partial = join(blobsFolder(folder), `${hashOf(file)}.recua-partial`);
  const journal = JSON.parse(readFileSync(`${partial}.json`, 'utf8'));
  t.match(journal, { file: 'm-Q8_0.gguf', revision: 'main', commit: 'a'.repeat(40), size_bytes: file.bytes.length });
  const done = journal.done_bytes / chunkBytes;
  t.ok(done >= 9, `${done} chunks are there`);
  // One flipped byte in the third chunk, and the end of the last one missing.
  const bytes = readFileSync(partial);
  bytes[2 * chunkBytes + 77]! ^= 1;
  writeFileSync(partial, bytes);
  truncateSync(partial, (done - 1) * chunkBytes + 5);
  const sent = hub.bytesSent;
  const last = await pull(hub, folder, args);
  t.equal(last.code, 0, last.stderr);
  t.ok(isInstalled(folder, file));
  t.equal(hub.bytesSent - sent, file.bytes.length - (done - 2) * chunkBytes);
});

t.test('an invalid journal means a new start', async (t) => {
  const file = makeFile(3 * chunkBytes);
  for (const journal of ['', '{', '[]', '{"chunks":5}', JSON.stringify({ size_bytes: file.bytes.length, chunk_bytes: 0, chunks: [] }),
    JSON.stringify({ size_bytes: file.bytes.length, chunk_bytes: chunkBytes, chunks: ['x', null, null] })]) {
    const hub = await FakeHub.start(t, oneFile(file));
    const folder = t.testdir({ hub: { 'models--owner--model': { blobs: {
      [`${hashOf(file)}.recua-partial`]: 'GGUFnonsense', [`${hashOf(file)}.recua-partial.json`]: journal,
    } } } });
    const result = await pull(hub, folder, ['owner/model:Q8_0']);
    t.equal(result.code, 0, result.stderr);
    t.ok(isInstalled(folder, file), JSON.stringify(journal));
    hub.close();
  }
});

t.test('a download begun by the Python huggingface_hub is taken over, unless it is still being written', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  for (const { age, taken } of [{ age: 3600, taken: true }, { age: 0, taken: false }]) {
    const folder = t.testdir({ [`${age}`]: {} });
    const home = join(folder, String(age));
    mkdirSync(blobsFolder(home), { recursive: true });
    const theirs = join(blobsFolder(home), `${hashOf(file)}.incomplete`);
    writeFileSync(theirs, file.bytes.subarray(0, 10 * chunkBytes + 17));
    const at = Date.now() / 1000 - age;
    utimesSync(theirs, at, at);
    const sent = hub.bytesSent;
    const result = await pull(hub, home, ['owner/model:Q8_0']);
    t.equal(result.code, 0, result.stderr);
    t.ok(statSync(join(blobsFolder(home), hashOf(file))).size === file.bytes.length);
    t.equal(hub.bytesSent - sent, file.bytes.length - (taken ? 10 * chunkBytes + 17 : 0));
    t.strictSame(blobs(home), taken ? [hashOf(file)] : [hashOf(file), `${hashOf(file)}.incomplete`]);
  }
});

t.test('a wrong beginning by another program costs one full download, not a wrong model', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  mkdirSync(blobsFolder(folder), { recursive: true });
  const theirs = join(blobsFolder(folder), `${hashOf(file)}.incomplete`);
  writeFileSync(theirs, Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(12 * chunkBytes)]));
  utimesSync(theirs, 1, 1);
  const result = await pull(hub, folder, ['owner/model:Q8_0']);
  t.equal(result.code, 0, result.stderr);
  t.match(result.stderr, /does not have the hash that the hub states; downloading it once more/);
  t.ok(isInstalled(folder, file));
});
