// OpenAI's files with the official client, and with hostile ones.
import { pbkdf2 as pbkdf2WithCallback } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import OpenAI, { toFile } from 'openai';
import t, { type Test } from 'tap';
import { FileStore } from '#recua/server/files/file-store.js';
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
  t.equal(await (await client.files.content(file.id)).text(), text);
  t.strictSame((await client.files.list()).data, [file]);
  if (process.platform !== 'win32') for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
  t.match(await client.files.delete(file.id), { id: file.id, deleted: true });
  await t.rejects(client.files.retrieve(file.id), { status: 404, code: 'file_not_found' });
  await t.rejects(client.files.content(file.id), { status: 404, code: 'file_not_found' });
  t.strictSame(readdirSync(folder), []);
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
  socket.write(`POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n${(purpose + part('name="file"; filename="f"', 'x'.repeat(100_000))).replaceAll('\n', '\r\n')}`);
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
    socket.write(`POST /v1/files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\nand more`);
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
  t.equal(await ask({ Host: 'models.lan' }), 200, 'a program calls it as it likes');
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
  const store = new FileStore(kept, { files: 2, bytes: 2_000, fileBytes: 500 });
  const first = await store.room(undefined);
  t.ok((await store.room(undefined)).bytes < 500, 'what arrives at the same time counts');
  first.release();
  await t.rejects(new FileStore(kept, { files: 2, bytes: 1_000, fileBytes: 500 }).room(undefined), { code: 'disk_full', status: 507 });
  await t.rejects(new FileStore(kept, { files: 1, bytes: 10_000, fileBytes: 500 }).room(undefined), { code: 'disk_full' });
});

t.test('one key takes at most half of the room', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new FileStore(kept, { files: 4, bytes: 2_000, fileBytes: 900 });
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
  await t.rejects(store.room('ann'), { code: 'disk_full', message: /The API key ann has 2 files/ });
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
