// OpenAI's files with the official client, and with hostile ones.
import { execFileSync } from 'node:child_process';
import { pbkdf2 as pbkdf2WithCallback } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, promises, readdirSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import OpenAI, { toFile } from 'openai';
import t, { type Test } from 'tap';
import { FileStore, newFileId } from '#recua/server/files/file-store.js';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { ownFolder, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const pbkdf2 = promisify(pbkdf2WithCallback);

async function start(t: Test, keepIn = ownFolder(t)): Promise<{ client: OpenAI; app: AppUnderTest; folder: string }> {
  const app = await startApp(t, {}, new FakeEngine(), { keepIn });
  const kept = process.getuid ? `kept-${process.getuid()}` : 'kept';
  return { app, client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 }), folder: join(keepIn, kept, 'files') };
}

const send = async (client: OpenAI, text: string, name = 'in.jsonl'): Promise<OpenAI.FileObject> => (
  await client.files.create({ file: await toFile(Buffer.from(text), name), purpose: 'batch' })
);

t.test('a file is uploaded, listed, returned and deleted, across restarts', async (t) => {
  const keepIn = ownFolder(t);
  const before = await start(t, keepIn);
  const text = '{"a":"ä"}\n'.repeat(10_000);
  const file = await send(before.client, text, '../../ä"x".jsonl');
  t.match(file, { id: /^file-/, object: 'file', bytes: Buffer.byteLength(text), filename: /^ä.*\.jsonl$/, purpose: 'batch', status: 'processed' });
  await before.app.close(0);
  const { client, folder } = await start(t, keepIn);
  t.strictSame(await client.files.retrieve(file.id), file);
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.message);
  process.on('warning', note);
  t.equal(await (await client.files.content(file.id)).text(), text);
  process.off('warning', note);
  t.strictSame(warnings, []);
  t.strictSame((await client.files.list()).data, [file]);
  if (process.platform !== 'win32') for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
  t.match(await client.files.delete(file.id), { id: file.id, deleted: true });
  await t.rejects(client.files.retrieve(file.id), { status: 404, code: 'file_not_found' });
  await t.rejects(client.files.content(file.id), { status: 404, code: 'file_not_found' });
  t.strictSame(readdirSync(folder), []);
});

t.test('a damaged record is no file, hides no other, and is reported once', async (t) => {
  const { client, folder, app } = await start(t);
  const [good, bad] = [await send(client, 'good'), await send(client, 'bad')];
  const path = join(folder, `${bad.id}.json`);
  for (const record of ['{', 'null', '5', '{}', { ...bad, bytes: -5 }, { ...bad, bytes: '5' }, { ...bad, filename: 5 }, { ...bad, created_at: null }, { ...bad, id: '../x' }, { ...bad, expires_at: 'x' }]) {
    const text = typeof record === 'string' ? record : JSON.stringify(record);
    writeFileSync(path, text);
    t.strictSame((await client.files.list()).data, [good], text);
    await t.rejects(client.files.content(bad.id), { status: 404, code: 'file_not_found' }, text);
  }
  t.equal(app.logged.filter((text) => text.startsWith(`warn A file is left out, because its record ${path} is damaged: `)).length, 1);
});

t.test('a file with other bytes than were stored is refused, at once, and can be deleted', async (t) => {
  const { client, folder } = await start(t);
  const spoil: ((path: string) => void)[] = [
    (path) => truncateSync(path, 10), (path) => writeFileSync(path, 'x'.repeat(200)),
    (path) => { rmSync(path); mkdirSync(path); }, ...process.platform === 'win32' ? [] : [(path: string) => { rmSync(path); execFileSync('mkfifo', [path]); }],
  ];
  for (const [i, how] of spoil.entries()) {
    const { id } = await send(client, 'x'.repeat(100));
    how(join(folder, id));
    const refused = { status: 404, code: 'file_not_found', message: /damaged/ };
    await t.rejects(client.files.content(id), refused, `${i}`);
    await t.rejects(client.batches.create({ input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' }), { ...refused, param: 'input_file_id' });
    if (i !== 2) t.match(await client.files.delete(id), { deleted: true });
  }
});

t.test('an error of the disk during a download is logged', async (t) => {
  const { client, app, folder } = await start(t);
  const { open } = promises;
  t.teardown(() => {
    promises.open = open;
    syncBuiltinESMExports();
  });
  for (const [length, readable] of [[10, 0], [2 ** 20, 3]] as const) {
    const { id } = await send(client, 'x'.repeat(length));
    promises.open = async (...args) => {
      const file = await open(...args);
      const read = file.read.bind(file) as (...given: unknown[]) => ReturnType<typeof file.read>;
      let left = readable;
      const failing = async (...given: unknown[]) => {
        if (left-- > 0) return await read(...given);
        throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', errno: -5, syscall: 'read' });
      };
      return args[0] === join(folder, id) ? Object.assign(file, { read: failing }) : file;
    };
    syncBuiltinESMExports();
    const before = app.logged.length;
    await t.rejects(fetch(`${app.url}/v1/files/${id}/content`).then((res) => res.text()));
    await until(() => app.logged.slice(before).some((text) => /^warn req_\w+ store_unwritable: .*EIO: i\/o error, read/.test(text)));
  }
});

t.test('HEAD of a file has its size and no bytes', async (t) => {
  const { client, app } = await start(t);
  const { id } = await send(client, 'abc');
  const { status, headers } = await fetch(`${app.url}/v1/files/${id}/content`, { method: 'HEAD' });
  t.match([status, headers.get('content-length')], [200, '3']);
});

t.test('files are listed in pages, of one purpose on request', async (t) => {
  const { client } = await start(t);
  for (let index = 0; index < 5; index++) await send(client, 'x', `${index}.jsonl`);
  await client.files.create({ file: await toFile(Buffer.from('x'), 'other'), purpose: 'user_data', expires_after: { anchor: 'created_at', seconds: 3_600 } });
  const names = new Set<string>();
  for await (const file of client.files.list({ limit: 2, purpose: 'batch' })) names.add(file.filename);
  t.equal(names.size, 5);
  const [other] = (await client.files.list({ purpose: 'user_data' })).data;
  t.equal(other!.expires_at, other!.created_at + 3_600);
});

/** A form as text; `\n` stands for HTTP line ends. */
function form(text: string): { method: string; headers: Record<string, string>; body: string } {
  return { method: 'POST', headers: { 'content-type': 'multipart/form-data; boundary=b' }, body: text.replaceAll('\n', '\r\n') };
}

const part = (head: string, body: string): string => `--b\nContent-Disposition: form-data; ${head}\n\n${body}\n`;
const purpose = part('name="purpose"', 'batch');
const file = part('name="file"; filename="f"', 'x');

const broken: [what: string, request: object, status: number, param: string | null][] = [
  ['no file', form(`${purpose}--b--\n`), 400, 'file'],
  ['no purpose', form(`${file}--b--\n`), 400, 'purpose'],
  ['a purpose of its own', form(`${part('name="purpose"', 'mine')}${file}--b--\n`), 400, 'purpose'],
  ['two files', form(`${purpose}${file}${file}--b--\n`), 400, 'file'],
  ['fields without end', form(`${purpose}${part('name="x"', 'y').repeat(100)}${file}--b--\n`), 400, 'file'],
  ['a long field', form(`${part('name="purpose"', 'b'.repeat(10_000))}${file}--b--\n`), 400, 'purpose'],
  ['no end', form(`${purpose}${file}`), 400, null],
  ['a file of another name that does not end', form(`${purpose}${part('name="other"; filename="f"', 'x')}`), 400, null],
  ['a second file that does not end', form(`${purpose}${file}${part('name="file"; filename="g"', 'x')}`), 400, 'file'],
  ['an end, and a file behind it that has none', form(`${purpose}--b--\n${part('name="file"; filename="f"', 'x')}`.trimEnd()), 400, 'file'],
  ['noise', form('noise'), 400, null],
  ['no boundary', { ...form('x'), headers: { 'content-type': 'multipart/form-data' } }, 400, null],
  ['JSON', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }, 415, null],
  ['a compressed form', { ...form('x'), headers: { 'content-type': 'multipart/form-data; boundary=b', 'content-encoding': 'gzip' } }, 415, null],
  ['a long wait', form(`${purpose}${part('name="expires_after[anchor]"', 'created_at')}${part('name="expires_after[seconds]"', '1e99')}${file}--b--\n`), 400, 'expires_after[seconds]'],
];

t.test('an invalid upload is refused and leaves nothing', async (t) => {
  const { app, folder } = await start(t);
  for (const [what, request, status, param] of broken) {
    const response = await fetch(`${app.url}/v1/files`, request);
    t.equal(response.status, status, what);
    t.match(await response.json(), { error: { param } }, what);
  }
  t.strictSame(readdirSync(folder), []);
});

t.test('a client that goes away during an upload leaves nothing', async (t) => {
  const { app, folder } = await start(t);
  const socket = connect(app.port, '127.0.0.1').on('error', () => undefined);
  socket.write(`POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n${(purpose + part('name="file"; filename="f"', 'x'.repeat(100_000))).replaceAll('\n', '\r\n')}`);
  await until(() => files(folder).length === 1);
  socket.destroy();
  await until(() => files(folder).length === 0);
  t.pass('gone');
});

t.test('an upload whose connection ends because of the bytes after it takes no room', async (t) => {
  const { app, client, folder } = await start(t);
  const { body } = form(`${purpose}${file}--b--\n`);
  for (let count = 0; count < 40; count++) {
    const socket = connect(app.port, '127.0.0.1').on('error', () => undefined).resume();
    socket.write(`POST /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\nand more`);
    await once(socket, 'close');
  }
  await until(() => !files(folder).some((name) => name.endsWith('.part')));
  t.equal((await send(client, 'x')).status, 'processed', 'the half gigabyte that each may have is free');
});

function files(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

t.test('an upload that fails while the disk is slow leaves no file', async (t) => {
  const { app, folder } = await start(t);
  const { hostname, port } = new URL(app.url);
  // The second file is one too many. The first may not exist yet when the form is refused.
  const text = `${purpose}${file}${part('name="other"; filename="g"', 'y')}--b--\n`.replaceAll('\n', '\r\n');
  for (let round = 0; round < 20; round++) {
    // These keep libuv's pool busy, so file operations wait.
    const busy = Array.from({ length: 8 }, async () => await pbkdf2('a', 'b', 20_000, 32, 'sha256'));
    await Promise.all(Array.from({ length: 5 }, async () => {
      const socket = connect(Number(port), hostname);
      socket.resume().on('error', () => undefined);
      socket.write(`POST /v1/files HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
      await once(socket, 'close');
    }));
    await Promise.all(busy);
  }
  t.strictSame(readdirSync(folder), []);
});

t.test('ids cannot lead elsewhere', async (t) => {
  const { app } = await start(t);
  for (const id of ['..%2f..%2fpackage.json', 'file-..', `file-${'a'.repeat(48)}`, 'x'.repeat(5_000), 'a%00b']) {
    for (const [method, rest] of [['GET', ''], ['DELETE', ''], ['GET', '/content']]) t.equal((await fetch(`${app.url}/v1/files/${id}${rest}`, { method: method! })).status, 404);
  }
});

t.test('foreign pages are refused; programs and own pages are not', async (t) => {
  const { app } = await start(t);
  const ask = async (headers: Record<string, string>): Promise<number> => await new Promise((resolve, reject) => {
    const socket = connect(app.port, '127.0.0.1').on('error', reject);
    socket.once('data', (data) => {
      resolve(Number(/^HTTP\/1.1 (\d+)/.exec(data.toString())?.[1]));
      socket.destroy();
    });
    socket.write(`GET /v1/files HTTP/1.1\r\n${Object.entries({ Host: `127.0.0.1:${app.port}`, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
  });
  const browser = { 'User-Agent': 'Mozilla/5.0' };
  t.equal(await ask({}), 200);
  t.equal(await ask({ Host: 'models.lan' }), 403, 'a name that another could point here');
  t.equal(await ask({ ...browser, Origin: 'http://localhost:3000' }), 200);
  t.equal(await ask({ ...browser, Origin: 'app://obsidian.md', Host: 'localhost' }), 200);
  const strangers: Record<string, string>[] = [
    { Origin: 'https://example.com' }, { Origin: 'null' }, { Origin: 'https://localhost.example.com' }, { 'Sec-Fetch-Site': 'cross-site' },
    { ...browser, Host: 'rebound.example.com' }, { ...browser, Host: 'rebound.example.com', Origin: 'http://rebound.example.com' },
  ];
  for (const headers of strangers) t.equal(await ask(headers), 403, JSON.stringify(headers));
});

t.test('each file, all files together and their number are limited', async (t) => {
  const keepIn = ownFolder(t);
  const { client } = await start(t, keepIn);
  await send(client, 'x'.repeat(1_000));
  const kept = new KeptFolder(keepIn);
  t.equal((await new FileStore(kept, { files: 2, bytes: 10_000, fileBytes: 500 }).room(undefined)).bytes, 500);
  const store = new FileStore(kept, { files: 3, bytes: 2_000, fileBytes: 500 });
  const first = await store.room(undefined);
  t.ok((await store.room(undefined)).bytes < 500, 'what arrives at the same time counts');
  first.release();
  await t.rejects(new FileStore(kept, { files: 2, bytes: 1_000, fileBytes: 500 }).room(undefined), { code: 'disk_full', status: 507 });
  await t.rejects(new FileStore(kept, { files: 1, bytes: 10_000, fileBytes: 500 }).room(undefined), { code: 'disk_full' });
});

t.test('a file that arrives is no left-over, even if the clock was set ahead', async (t) => {
  const store = new FileStore(new KeptFolder(ownFolder(t)));
  const [draft, other] = [await store.draft(), await store.draft()];
  for (const { path } of [draft, other]) {
    writeFileSync(path, 'x');
    utimesSync(path, 0, 0);
  }
  (await store.room(undefined)).release();
  t.match(await store.publish(draft, { filename: 'a', purpose: 'batch', expires_at: undefined, by: undefined }), { bytes: 1 });
  await store.discard(other);
  t.notOk(existsSync(other.path));
});

t.test('one key takes at most half of the room', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new FileStore(kept, { files: 6, bytes: 2_000, fileBytes: 900 });
  const add = async (by: string, bytes: number): Promise<void> => {
    const draft = await store.draft();
    writeFileSync(draft.path, 'x'.repeat(bytes));
    await store.publish(draft, { filename: 'a', purpose: 'batch', expires_at: undefined, by });
  };
  await add('ann', 300);
  const room = await store.room('ann');
  t.equal(room.bytes, 700);
  await t.rejects(store.room('ann'), { code: 'disk_full', message: /The files of the API key ann have 1000 bytes/ }, 'what is on its way counts');
  t.ok((await store.room('bob', 100)).bytes > 100);
  room.release();
  t.equal((await store.room('ann', 0)).bytes, 700);
  await add('ann', 1);
  await t.rejects(store.room('ann'), { code: 'disk_full', message: /The API key ann has 3 files/ });
});

t.test('uploads at the same time do not exceed the number of files', async (t) => {
  const store = new FileStore(new KeptFolder(ownFolder(t)), { files: 10, bytes: 2_000, fileBytes: 10 });
  const send = async (index: number): Promise<number> => {
    const by = index % 2 === 0 ? 'ann' : undefined;
    const room = await store.room(by, 1);
    const draft = await store.draft();
    writeFileSync(draft.path, 'x');
    await store.publish(draft, { filename: 'a', purpose: 'batch', expires_at: undefined, by });
    room.release();
    return index;
  };
  const sent = await Promise.allSettled(Array.from({ length: 40 }, (_, index) => send(index)));
  const done = sent.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  t.equal(done.length, 10);
  const ofKey = done.filter((index) => index % 2 === 0).length;
  t.ok(ofKey > 0 && ofKey <= 5, `${ofKey} of 10 are of the key, which may have half`);
});

t.test('the requests of a batch whose file was deleted take room', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new FileStore(kept, { files: 4, bytes: 2_000, fileBytes: 2_000 });
  writeFileSync(join(await kept.of('batches'), 'batch_a.input'), 'x'.repeat(1_500));
  const { bytes, release } = await store.room(undefined);
  t.equal(bytes, 500);
  release();
  writeFileSync(join(await kept.of('batches'), 'batch_a.json'), '{"by":"ann","batch":{}}');
  await t.rejects(store.room('ann'), { code: 'disk_full', message: /The files of the API key ann have 1500 bytes/ });
  t.equal((await store.room('bob')).bytes, 500);
});

t.test('an upload whose record cannot be written leaves no bytes', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new FileStore(kept);
  const draft = await store.draft();
  writeFileSync(draft.path, 'x');
  mkdirSync(join(await kept.of('files'), `${draft.id}.json`));
  await t.rejects(store.publish(draft, { filename: 'a', purpose: 'batch', expires_at: undefined, by: undefined }), { code: 'store_unwritable' });
  t.strictSame(readdirSync(await kept.of('files')), [`${draft.id}.json`]);
});

/** Writes the record of a batch whose answers go to the file `outputId`. */
async function addBatch(kept: KeptFolder, by: string, outputId: string): Promise<void> {
  writeFileSync(join(await kept.of('batches'), `batch_${'a'.repeat(48)}.json`), JSON.stringify({ by, batch: {}, outputId, errorId: newFileId() }));
}

t.test('old bytes without a record are removed, unless a batch still writes them', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const folder = await kept.of('files');
  const store = new FileStore(kept);
  const draft = await store.draft();
  writeFileSync(draft.path, 'x');
  const { id } = await store.publish(draft, { filename: 'a', purpose: 'batch', expires_at: undefined, by: undefined });
  const [orphan, fresh, results] = [newFileId(), newFileId(), newFileId()];
  for (const name of [orphan, fresh, results, `${orphan}.json.123`]) writeFileSync(join(folder, name), 'x');
  for (const name of readdirSync(folder)) if (name !== fresh) utimesSync(join(folder, name), 1, 1);
  await addBatch(kept, 'ann', results);
  writeFileSync(join(await kept.of('batches'), `batch_${'b'.repeat(48)}.json`), '{');
  (await store.room(undefined)).release();
  t.ok(readdirSync(folder).includes(orphan), 'a batch with a damaged record may own it');
  rmSync(join(await kept.of('batches'), `batch_${'b'.repeat(48)}.json`));
  (await store.room(undefined)).release();
  t.strictSame(readdirSync(folder).sort(), [id, `${id}.json`, fresh, results].sort());
});

t.test('results that a batch still writes count to its key', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new FileStore(kept, { files: 4, bytes: 2_000, fileBytes: 2_000 });
  const id = newFileId();
  writeFileSync(join(await kept.of('files'), id), 'x'.repeat(900));
  await addBatch(kept, 'ann', id);
  t.equal((await store.room('ann', 0)).bytes, 100);
  t.equal((await store.room('bob', 0)).bytes, 1_000);
});

t.test('unknown fields of the form are named', async (t) => {
  const { app: { url } } = await start(t);
  const ask = async (fields: Record<string, string>): Promise<Response> => {
    const form = new FormData();
    form.set('purpose', 'batch');
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    form.set('file', new Blob(['{}']), 'in.jsonl');
    return await fetch(`${url}/v1/files`, { method: 'POST', body: form });
  };
  const misspelled = await ask({ 'expires_after[anchr]': 'created_at' });
  t.equal(misspelled.status, 400);
  t.match(await misspelled.json(), { error: { code: 'unknown_parameter', message: /did you mean expires_after\[anchor\]/ } });
  const other = await ask({ colour: 'red' });
  t.match(await other.json(), { object: 'file', warnings: [/Not fields of this request, and ignored: "colour"/] });
});

interface Transfer<Result> {
  socket: Socket;
  /** When the connection has closed. */
  all: Promise<Result>;
}

/** A slow download that has begun; resolves to its length. */
async function beginDownload(t: Test, { port }: AppUnderTest, id: string): Promise<Transfer<number>> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.write(`GET /v1/files/${id}/content HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  let length = 0;
  socket.on('data', (data) => {
    length += data.length;
    socket.pause();
    setTimeout(() => socket.resume(), 2);
  });
  const all = once(socket, 'close').then(() => length);
  await once(socket, 'data');
  return { socket, all };
}

const { body: whole, headers: formHeaders } = form(`${purpose}${part('name="file"; filename="f"', 'x'.repeat(30_000))}--b--\n`);
const lastPart = whole.slice(-10);

/** An upload that lacks `lastPart`; resolves to its reply. */
async function beginUpload(t: Test, { port }: AppUnderTest, folder: string): Promise<Transfer<string>> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.write(`POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${formHeaders['content-type']}\r\nContent-Length: ${whole.length}\r\n\r\n${whole.slice(0, -lastPart.length)}`);
  let reply = '';
  socket.on('data', (data) => (reply += data.toString()));
  await until(() => readdirSync(folder).some((name) => name.endsWith('.part')));
  return { socket, all: once(socket, 'close').then(() => reply) };
}

t.test('a stop lets downloads and uploads complete', async (t) => {
  const { client, app, folder } = await start(t);
  const { id } = await send(client, 'x'.repeat(32 * 1024 * 1024));
  const download = await beginDownload(t, app, id);
  const upload = await beginUpload(t, app, folder);
  const closing = app.close(60 * 60_000);
  await t.rejects(client.files.content(id), { status: 503, code: 'shutting_down' }, 'no new ones');
  t.ok(await Promise.race([download.all, closing.then(() => 0)]) > 32 * 1024 * 1024);
  upload.socket.write(lastPart);
  await closing;
  t.match(await upload.all, /^HTTP\/1.1 200 .*"object":"file"/s);
});

t.test('a stop ends downloads and uploads when its time is over', async (t) => {
  const { client, app, folder } = await start(t);
  const { id } = await send(client, 'x'.repeat(32 * 1024 * 1024));
  const download = await beginDownload(t, app, id);
  const upload = await beginUpload(t, app, folder);
  await app.close(0);
  t.match(await upload.all, /^HTTP\/1.1 503 .*"code":"shutting_down"/s);
  t.ok(await download.all < 32 * 1024 * 1024);
  t.strictSame(readdirSync(folder).filter((name) => name.endsWith('.part')), []);
});
