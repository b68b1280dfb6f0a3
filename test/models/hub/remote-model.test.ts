import t from 'tap';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openRemoteModel } from '#recua/models/hub/remote-model.js';
import { root } from '../../cli/recua.js';
import { FakeHub, modelBytes } from '../fake-hub.js';

const mib = 1024 * 1024;
const builtin = readFileSync(join(root, 'builtin/builtin.gguf'));

t.test('a remote file is read at any place, with few requests', async (t) => {
  const bytes = modelBytes(40 * mib);
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [{ path: 'm-Q8_0.gguf', bytes }, { path: 'm-Q4_0.gguf', bytes: builtin }] }]);
  const model = await openRemoteModel('owner/model:Q8_0', hub.environment(t.testdir()));
  t.equal(model.file, 'm-Q8_0.gguf');
  const source = await model.open(model.file);
  t.equal(source.name, 'owner/model/m-Q8_0.gguf');
  t.equal(source.sizeBytes, bytes.length);
  const target = Buffer.alloc(256 * 1024);
  for (let at = 0; at < 12 * mib; at += target.length) {
    t.equal(await source.read(target, at), target.length);
    if (!target.equals(bytes.subarray(at, at + target.length))) t.fail(`other bytes at ${at}`);
  }
  t.ok(hub.pieces.length <= 5, `${hub.pieces.length} requests for 12 MiB`);
  const before = hub.pieces.length;
  t.equal(await source.read(target, 100), target.length);
  t.equal(hub.pieces.length, before, 'what was read once is kept');
  const odd = Buffer.alloc(2 * mib);
  t.equal(await source.read(odd, 30 * mib - 77), odd.length);
  t.ok(odd.equals(bytes.subarray(30 * mib - 77, 32 * mib - 77)));
  t.equal(await source.read(target, bytes.length - 10), 10, 'the end');
  t.equal(await source.read(target, bytes.length), 0);
  t.equal(await source.read(target, bytes.length + 5), 0);
  t.ok(hub.bytesSent < bytes.length);
  await source.close();
});

t.test('a header costs few bytes of a large file, even if the host supports no ranges', async (t) => {
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [{ path: 'm.gguf', bytes: modelBytes(40 * mib) }] }]);
  hub.onBytes = async (piece) => {
    piece.response.writeHead(200, { 'Content-Length': piece.file.bytes.length });
    await hub.send(piece, 0, piece.file.bytes.length);
    piece.response.end();
    return true;
  };
  const model = await openRemoteModel('owner/model', hub.environment(t.testdir()));
  const source = await model.open(model.file);
  const target = Buffer.alloc(1000);
  t.equal(await source.read(target, 5), 1000);
  t.ok(target.equals(hub.repos[0]!.files[0]!.bytes.subarray(5, 1005)));
  await source.close();
});

t.test('who waits for a host of bytes that fails is told why', async (t) => {
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [{ path: 'm.gguf', bytes: builtin }] }]);
  let busy = 2;
  hub.onBytes = ({ response }) => busy-- > 0 && Boolean(response.writeHead(503).end());
  const setbacks: string[] = [];
  const model = await openRemoteModel('owner/model', { ...hub.environment(t.testdir()), RECUA_TEST_DELAY_MS: '1' }, (what) => setbacks.push(what));
  const source = await model.open(model.file);
  const target = Buffer.alloc(1000);
  t.equal(await source.read(target, 5), 1000);
  t.ok(target.equals(builtin.subarray(5, 1005)));
  t.match(setbacks, [/503/, /503/]);
  t.equal(setbacks.length, 2);
  await source.close();
});

t.test('a name that does not match one model is refused with the choices', async (t) => {
  const hub = await FakeHub.start(t, [
    { name: 'owner/model', files: [{ path: 'm-Q8_0.gguf', bytes: builtin }, { path: 'm-Q4_0.gguf', bytes: builtin }] },
    { name: 'owner/none', files: [{ path: 'README.md', small: true, bytes: Buffer.from('#') }] },
  ]);
  const env = hub.environment(t.testdir());
  await t.rejects(openRemoteModel('owner/model', env), { code: 'ambiguous_model', message: /it has 2\. Name one, like owner\/model:Q/ });
  await t.rejects(openRemoteModel('owner/none', env), { code: 'repository_file_not_found', message: /no GGUF files/ });
  await t.rejects(openRemoteModel('owner/model:Q5_0', env), { code: 'repository_file_not_found' });
  await t.rejects(openRemoteModel('nobody/none', env), { code: 'repository_not_found' });
  await t.rejects(openRemoteModel('../x', env), { code: 'invalid_name' });
  const model = await openRemoteModel('owner/model/m-Q4_0.gguf', env);
  await t.rejects(model.open('other.gguf'), { code: 'repository_file_not_found' });
  const source = await model.open(model.file);
  hub.onBytes = ({ response }) => Boolean(response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>'));
  await t.rejects(source.read(Buffer.alloc(10), 0), { code: 'download_wrong_content' });
});
