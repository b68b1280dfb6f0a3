import t from 'tap';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeHub, hashOf, modelBytes, otherCommit } from '../fake-hub.js';
import type { FakeFile, FilePiece } from '../fake-hub.js';
import { blobs, isAbsent, isInstalled, oneFile, pull, snapshotOf } from '../hub-pull.js';

const chunkBytes = 64 * 1024;
const pullArgs = ['owner/model:Q8_0'];
const makeFile = (chunks = 8): FakeFile => ({ path: 'm-Q8_0.gguf', bytes: modelBytes(chunks * chunkBytes + 321) });

/** Answers a piece with correct headers, then handles the body as it likes. */
function head({ response, range, file }: FilePiece, more: Record<string, string> = {}): { from: number; to: number } {
  const { from, to } = range ?? { from: 0, to: file.bytes.length };
  response.writeHead(range ? 206 : 200, {
    ETag: '"cdn-etag"', 'Content-Length': to - from, ...(range ? { 'Content-Range': `bytes ${from}-${to - 1}/${file.bytes.length}` } : {}), ...more,
  });
  return { from, to };
}

t.test('transient failures are retried from where they stopped', async (t) => {
  const faults: Record<string, (hub: FakeHub, piece: FilePiece) => boolean | Promise<boolean>> = {
    async 'a connection that is cut'(hub, piece) {
      if (piece.count % 3 !== 2) return false;
      const { from } = head(piece);
      await hub.send(piece, from, from + 5000);
      piece.response.destroy();
      return true;
    },
    async 'a body that ends too early'(hub, piece) {
      if (piece.count % 3 !== 2) return false;
      const { from } = head(piece, { 'Content-Length': '5000' });
      await hub.send(piece, from, from + 5000);
      piece.response.end();
      return true;
    },
    async 'a connection that falls silent'(hub, piece) {
      if (piece.count !== 2) return false;
      const { from } = head(piece);
      await hub.send(piece, from, from + 5000);
      return true;
    },
    'a host that does not answer'(_hub, piece) {
      return piece.count === 2;
    },
    'a fault of the host'(_hub, piece) {
      if (piece.count % 2 !== 0) return false;
      piece.response.writeHead(503, { 'Retry-After': '0' }).end('<html>busy</html>');
      return true;
    },
    'a host that wants fewer requests'(_hub, piece) {
      if (piece.count !== 3) return false;
      piece.response.writeHead(429, { 'Retry-After': '1' }).end();
      return true;
    },
    'a range that is not the one asked for, once'(_hub, piece) {
      if (piece.count !== 3) return false;
      piece.response.writeHead(206, { 'Content-Range': `bytes 0-9/${piece.file.bytes.length}` }).end('GGUF567890');
      return true;
    },
    'a range that is not stated, once'(_hub, piece) {
      if (piece.count !== 3) return false;
      piece.response.writeHead(206).end(Buffer.alloc(chunkBytes));
      return true;
    },
    'an address that has expired'(hub, piece) {
      if (piece.count === 3) hub.signature = 'signed-2';
      return false;
    },
  };
  for (const [name, fault] of Object.entries(faults)) {
    await t.test(name, async (t) => {
      const file = makeFile();
      const hub = await FakeHub.start(t, oneFile(file));
      hub.sendBytes = 4096;
      hub.onBytes = (piece) => fault(hub, piece);
      const folder = t.testdir();
      const result = await pull(hub, folder, pullArgs, { RECUA_TEST_STALL_MS: '700' });
      t.equal(result.code, 0, result.stderr);
      t.ok(isInstalled(folder, file));
      // The stall may be noticed after the host has sent some of the rest into the void.
      t.ok(hub.bytesSent <= file.bytes.length + chunkBytes, `${hub.bytesSent} bytes were sent for ${file.bytes.length}`);
    });
  }
});

t.test('a host that keeps failing is given up, and the received bytes are kept', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  hub.onBytes = ({ count, response }) => count > 4 && Boolean(response.destroy());
  const folder = t.testdir();
  const result = await pull(hub, folder, [...pullArgs, '--connections', '1']);
  t.equal(result.code, 1);
  t.match(result.stderr, /m-Q8_0\.gguf could not be downloaded: .*localhost:\d+: the connection was cut, 10 times in a row\. What arrived is kept/);
  t.ok(isAbsent(folder, file));
  hub.onBytes = () => false;
  const sent = hub.bytesSent;
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  t.equal(hub.bytesSent - sent, file.bytes.length - 4 * chunkBytes);
  t.ok(isInstalled(folder, file));
});

t.test('a host without ranges is read in one stream', async (t) => {
  for (const from of [1, 3]) {
    const file = makeFile();
    const hub = await FakeHub.start(t, oneFile(file));
    let cut = false;
    hub.onBytes = async (piece) => {
      if (piece.count < from) return false;
      piece.response.writeHead(200, { 'Content-Length': piece.file.bytes.length });
      // Cut once in the middle: the stream restarts, and the known beginning is skipped.
      const end = cut || piece.range ? piece.file.bytes.length : 3.5 * chunkBytes;
      cut ||= !piece.range;
      await hub.send(piece, 0, end);
      if (end < piece.file.bytes.length) piece.response.destroy();
      else piece.response.end();
      return true;
    };
    const folder = t.testdir({ [`${from}`]: {} });
    const home = join(folder, String(from));
    const result = await pull(hub, home, [...pullArgs, '--connections', '1']);
    t.equal(result.code, 0, result.stderr);
    t.ok(isInstalled(home, file), `200 from request ${from} on`);
    t.ok(cut, 'the stream was cut');
    hub.close();
  }
});

t.test('a wrong file is never installed, and the error says what it is', async (t) => {
  const faults: Record<string, { answer: (piece: FilePiece) => void; says: RegExp }> = {
    'a login page': {
      answer: ({ response }) => response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end('<!doctype html><title>Log in</title>'),
      says: /Expected a GGUF file for owner\/model\/m-Q8_0\.gguf, got text\/html from localhost:\d+\. Nothing of it was kept/,
    },
    'an error in JSON': {
      answer: ({ response }) => response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"error":"no"}'),
      says: /got application\/json from/,
    },
    'a page that pretends to be a range': {
      answer: (piece) => { head(piece); piece.response.end(`<html>${' '.repeat(chunkBytes)}`); },
      says: /got a web page/,
    },
    'another file': {
      answer: (piece) => { head(piece); piece.response.end(Buffer.alloc(chunkBytes, 'PK')); },
      says: /got a file that begins with "PKPK"/,
    },
    'packed bytes': {
      answer: (piece) => { head(piece, { 'Content-Encoding': 'gzip' }); piece.response.end(Buffer.alloc(chunkBytes)); },
      says: /got bytes packed as gzip/,
    },
    'wrong ranges for ever': {
      answer: ({ response, file }) => response.writeHead(206, { 'Content-Range': `bytes 5-9/${file.bytes.length}` }).end('F5678'),
      says: /sent another range than bytes 0-65535: bytes 5-9\/524609, 10 times in a row/,
    },
    'another size': {
      answer: ({ response, range }) => response.writeHead(206, { 'Content-Range': `bytes ${range!.from}-${range!.to - 1}/99` }).end(),
      says: /changed during its download, twice: localhost:\d+ says 99 bytes instead of 524609/,
    },
    'a range it does not have': {
      answer: ({ response }) => response.writeHead(416).end(),
      says: /changed during its download, twice: the host says that the file is shorter/,
    },
    'another ETag for every piece': {
      answer: (piece) => { head(piece, { ETag: `"${piece.count}"` }); piece.response.end(piece.file.bytes.subarray(piece.range!.from, piece.range!.to)); },
      says: /changed during its download, twice: localhost:\d+ changed the file between two pieces/,
    },
    'a refusal of every address': {
      answer: ({ response }) => response.writeHead(403).end('<Error/>'),
      says: /could not be downloaded: the address at localhost:\d+ is no longer valid \(403\), 10 times in a row/,
    },
  };
  for (const [name, { answer, says }] of Object.entries(faults)) {
    await t.test(name, async (t) => {
      const file = makeFile();
      const hub = await FakeHub.start(t, oneFile(file));
      hub.onBytes = (piece) => { answer(piece); return true; };
      const folder = t.testdir();
      const result = await pull(hub, folder, [...pullArgs, '--connections', '1']);
      t.equal(result.code, 1);
      t.match(result.stderr, says);
      t.equal(result.stdout, '');
      t.ok(isAbsent(folder, file));
    });
  }
});

t.test('a file whose ETag changes once is downloaded from the start', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  hub.onBytes = (piece) => {
    if (piece.count < 4) return false;
    const { from, to } = head(piece, { ETag: '"another"' });
    piece.response.end(piece.file.bytes.subarray(from, to));
    return true;
  };
  const folder = t.testdir();
  const result = await pull(hub, folder, [...pullArgs, '--connections', '1']);
  t.equal(result.code, 0, result.stderr);
  t.match(result.stderr, /changed the file between two pieces of it\); starting over/);
  t.ok(isInstalled(folder, file));
});

t.test('wrong bytes are fetched once more, then given up and removed', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  let faults = 1;
  hub.onBytes = (piece) => {
    if (piece.range?.from !== 2 * chunkBytes || faults-- <= 0) return false;
    const { from, to } = head(piece);
    const bytes = Buffer.from(piece.file.bytes.subarray(from, to));
    bytes[99]! ^= 1;
    piece.response.end(bytes);
    return true;
  };
  const folder = t.testdir({ once: {}, always: {} });
  const once = await pull(hub, join(folder, 'once'), pullArgs);
  t.equal(once.code, 0, once.stderr);
  t.ok(isInstalled(join(folder, 'once'), file));
  faults = Infinity;
  const always = await pull(hub, join(folder, 'always'), pullArgs);
  t.equal(always.code, 1);
  t.match(always.stderr, new RegExp(`Expected sha256 ${hashOf(file)} for m-Q8_0\\.gguf, as the hub states, got other bytes, twice`));
  t.strictSame(blobs(join(folder, 'always')), []);
  t.ok(isAbsent(join(folder, 'always'), file));
});

t.test('small files are checked with the hash of git, and an empty one works', async (t) => {
  const small: FakeFile = { path: 'sub/config.json', small: true, bytes: Buffer.from('{"a":1}') };
  const empty: FakeFile = { path: 'empty.txt', small: true, bytes: Buffer.alloc(0) };
  const wrong: FakeFile = { path: 'wrong.json', small: true, bytes: Buffer.from('{}'), hash: 'c'.repeat(40) };
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [small, empty, wrong] }]);
  const folder = t.testdir();
  for (const file of [small, empty]) {
    const result = await pull(hub, folder, ['owner/model', '-f', file.path]);
    t.equal(result.code, 0, result.stderr);
    t.ok(readFileSync(snapshotOf(folder, file.path)).equals(file.bytes), file.path);
  }
  const result = await pull(hub, folder, ['owner/model', '-f', 'wrong.json']);
  t.equal(result.code, 1);
  t.match(result.stderr, /Expected git-sha1 c{40} for wrong\.json/);
});

t.test('many connections work', async (t) => {
  const file = makeFile(40);
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  const result = await pull(hub, folder, [...pullArgs, '--connections', '32']);
  t.equal(result.code, 0, result.stderr);
  t.notMatch(result.stderr, /warning/i);
  t.ok(isInstalled(folder, file));
});

t.test('a file that another commit also has is not downloaded again', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  t.equal((await pull(hub, folder, pullArgs)).code, 0);
  hub.repos[0]!.revisions = { main: otherCommit };
  const result = await pull(hub, folder, pullArgs);
  t.equal(result.stdout, `${snapshotOf(folder, file.path, 'owner/model', otherCommit)}\n`);
  t.ok(existsSync(result.stdout.trim()));
  t.equal(hub.bytesSent, file.bytes.length);
});

t.test('a disk that is too small is known before the first byte, and one that fills up keeps what it has', async (t) => {
  // Not the test's own folder: tap would remove it before its file system is unmounted.
  const folder = mkdtempSync(join(tmpdir(), 'recua-small-disk-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    await t.test('a small disk', { skip: 'mounting one takes root and its rights' }, () => undefined);
    return;
  }
  t.teardown(() => execFileSync('umount', [folder]));
  const mib = 1024 * 1024;
  const big: FakeFile = { path: 'big-F16.gguf', bytes: modelBytes(20 * mib) };
  const file: FakeFile = { path: 'm-Q8_0.gguf', bytes: modelBytes(8 * mib) };
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [big, file] }]);
  const tooBig = await pull(hub, folder, ['owner/model:F16']);
  t.equal(tooBig.code, 1);
  t.match(tooBig.stderr, /Expected 36\.0 MiB of free space at .*\/hub \(20\.0 MiB to download and a margin\), but 3\d\.\d MiB are free\. Free some space/);
  const planned = await pull(hub, folder, ['owner/model:F16', '--dry-run', '--json']);
  t.equal(planned.code, 1, 'a plan that cannot work out says so');
  t.match(JSON.parse(planned.stdout), { need_bytes: 20 * mib, have_bytes: 0, free_bytes: Number });
  t.equal(hub.pieces.length, 0, 'no byte was asked for');

  const filler = join(folder, 'filler');
  const env = { RECUA_TEST_CHUNK_BYTES: String(mib) };
  hub.onSend = (piece) => {
    if (piece.count === 4 && !existsSync(filler)) execFileSync('sh', ['-c', 'dd if=/dev/zero of="$0" bs=64k 2>/dev/null || true', filler]);
  };
  const full = await pull(hub, folder, [...pullArgs, '--connections', '1'], env);
  t.equal(full.code, 1);
  t.match(full.stderr, /There is no room left for .*Free some space/);
  t.ok(isAbsent(folder, file));
  rmSync(filler);
  hub.onSend = () => undefined;
  const sent = hub.bytesSent;
  const again = await pull(hub, folder, pullArgs, env);
  t.equal(again.code, 0, again.stderr);
  t.ok(isInstalled(folder, file));
  t.ok(hub.bytesSent - sent <= 6 * mib, 'what had arrived was kept');
});

t.test('a cache that cannot be written is an error of its own', async (t) => {
  const file = makeFile();
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir({ hub: 'a file where the folder should be' });
  const result = await pull(hub, folder, pullArgs);
  t.equal(result.code, 1);
  t.match(result.stderr, /cannot be written: .*Expected a model store that you may write; SERVICE_HOME names another/);
});
