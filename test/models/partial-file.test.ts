import t from 'tap';
import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FakeHub, hashOf, modelBytes } from './fake-hub.js';
import type { FakeFile } from './fake-hub.js';
import { blobs, blobsFolder, isInstalled, oneFile, pull, startPull } from './hub-pull.js';

const chunkBytes = 64 * 1024;
const makeFile = (size = 20 * chunkBytes + 1234): FakeFile => ({ path: 'm-Q8_0.gguf', bytes: modelBytes(size) });

/** Pulls and is killed as soon as the hub has sent so many bytes; resolves to how far into the file those went. */
async function pullKilledAt(hub: FakeHub, folder: string, bytes: number, args: readonly string[], more: Record<string, string> = {}): Promise<number> {
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
    // Less than a twentieth of the file, so that there is something left to kill at.
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

t.test('what the disk lost or changed after the journal was written is fetched again, and only that', async (t) => {
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
  // A byte turned in the third chunk, and the end of the last one gone.
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

t.test('a journal that is no journal means a new start', async (t) => {
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

t.test('what Python\'s huggingface_hub began is taken over, unless it is still being written', async (t) => {
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
    t.equal(hub.bytesSent - sent, file.bytes.length - (taken ? 10 * chunkBytes : 0));
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
