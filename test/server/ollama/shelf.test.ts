// Ollama's pull, delete and copy with its official client, against `recua api` and a fake hub.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Ollama } from 'ollama';
import OpenAI, { toFile } from 'openai';
import t, { type Test } from 'tap';
import type { ModelShelf } from '#recua/server/http/shelf.js';
import { root, start } from '../../cli/recua.js';
import { commit, FakeHub, sha256, type FakeFile } from '../../models/fake-hub.js';
import { isAbsent, isInstalled, snapshotOf } from '../../models/hub-pull.js';
import { hello, ownFolder, post, startApp } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const bytes = readFileSync(`${root}/builtin/builtin.gguf`);
const file: FakeFile = { path: 'model-Q8_0.gguf', bytes };
const small: FakeFile = { path: 'model-Q4_0.gguf', bytes };

interface Started {
  client: Ollama;
  hub: FakeHub;
  folder: string;
  url: string;
  port: number;
}

async function startServer(t: Test, flags: readonly string[] = []): Promise<Started> {
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [file, small] }]);
  const folder = t.testdir();
  const running = start(['api', '--port', '0', ...flags], { env: hub.environment(folder), cwd: folder });
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, port] = await running.saw(/Recua listens on http:\/\/\S+:(\d+)/);
  const url = `http://127.0.0.1:${port}`;
  return { client: new Ollama({ host: url }), hub, folder, url, port: Number(port) };
}

t.test('a model is pulled with its progress, shown, copied, used and deleted', async (t) => {
  const { client, folder, url } = await startServer(t);
  const lines = [];
  for await (const line of await client.pull({ model: 'hf.co/owner/model:Q8_0', stream: true })) lines.push(line);
  t.match(lines[0], { status: 'pulling manifest' });
  t.match(lines.find(({ digest }) => digest), { status: `pulling ${sha256(bytes).slice(0, 12)}`, digest: `sha256:${sha256(bytes)}`, total: bytes.length });
  t.ok(lines.some(({ completed, total }) => completed === total && total === bytes.length), 'it was told to be whole');
  t.strictSame(lines.slice(-3).map(({ status }) => status), ['verifying sha256 digest', 'writing manifest', 'success']);
  t.ok(isInstalled(folder, file));
  t.match(await client.pull({ model: 'owner/model:Q8_0' }), { status: 'success' }, 'again');
  const name = 'owner/model:Q8_0';
  t.strictSame((await client.list()).models.map((model) => model.name).sort(), ['builtin', 'owner/model']);
  const shown = await client.show({ model: name });
  t.match(shown, { details: { format: 'gguf', quantization_level: /./, parameter_size: /./ }, template: /./ });
  t.ok(shown.capabilities.includes('completion'), 'though it was never loaded');
  const info = shown.model_info as unknown as Record<string, unknown>;
  t.equal(info['tokenizer.ggml.tokens'], null, 'long lists are left out');
  t.equal(typeof info[`${String(info['general.architecture'])}.attention.head_count`], 'number');
  // Requests name models of the store, also where the server's folder has such a file.
  mkdirSync(join(folder, 'owner'));
  writeFileSync(join(folder, name), '');
  await client.copy({ source: name, destination: 'mine' });
  const answer = await client.chat({ model: 'mine:latest', messages: [{ role: 'user', content: 'hi' }], options: { num_predict: 2 } });
  t.match(answer, { model: 'owner/model', done: true });
  t.equal((await post(`${url}/api/copy`, { source: '/etc/passwd', destination: 'x' })).status, 404);
  t.equal((await post(`${url}/api/copy`, { source: name, destination: '../x' })).status, 400);
  t.match(await (await post(`${url}/api/copy`, { source: 'builtin', destination: 'toy' })).json(), { error: /built-in model has the name builtin and no other/ });
  await t.rejects(client.delete({ model: 'owner/mode' }), { status_code: 404, message: /model/ });
  const states = async (): Promise<unknown[]> => (await client.ps()).models.map((model) => model.name);
  t.strictSame(await states(), ['owner/model']);
  await t.rejects(client.delete({ model: 'MINE' }), { status_code: 404, message: /MINE/ });
  t.strictSame(await states(), ['owner/model'], 'what is not deleted stays loaded');
  await client.delete({ model: 'mine:latest' });
  t.strictSame(await states(), ['owner/model'], 'nor does a model that only loses a name');
  t.ok(existsSync(snapshotOf(folder, file.path, 'owner/model', commit)), 'a second name goes alone');
  for (const path of [snapshotOf(folder, file.path, 'owner/model', commit), '/etc/passwd', 'package.json', '/nowhere']) {
    await t.rejects(client.delete({ model: path }), { status_code: 404, message: /^There is no model \S+ in the store/ }, `a path tells nothing of the disk: ${path}`);
  }
  t.ok(isInstalled(folder, file));
  await client.delete({ model: name });
  t.ok(isAbsent(folder, file));
  t.strictSame((await client.list()).models.map((model) => model.name), ['builtin']);
});

t.test('a served file is shown, and not a model of the store with the same name deleted or copied', async (t) => {
  const path = join(ownFolder(t), file.path);
  const at = bytes.indexOf('general.license') + 'general.license'.length + 12;
  writeFileSync(path, Buffer.concat([bytes.subarray(0, at), Buffer.from('own'), bytes.subarray(at + 3)]));
  const models = join(ownFolder(t), 'models.json');
  writeFileSync(models, JSON.stringify({ models: { mine: { model: path }, taken: { model: path, aliases: ['also'] }, 'owner/model': { model: path } } }));
  for (const [flags, names] of [[[path], ['model-Q8_0']], [['--models', models], ['mine', 'Taken', 'also', 'owner/model']]] as const) {
    const { client, folder, url } = await startServer(t, flags);
    await client.pull({ model: 'owner/model:Q8_0' });
    await client.copy({ source: 'owner/model:Q8_0', destination: 'stored' });
    for (const model of names) {
      t.equal((await client.show({ model })).license, 'own');
      const refusal = { status_code: 400, message: /is a name that this server was started with/ };
      await t.rejects(client.delete({ model }), refusal, model);
      await t.rejects(client.copy({ source: model, destination: 'other' }), refusal, model);
    }
    const { own } = await (await fetch(`${url}/ui/aliases`)).json() as { own: string[] };
    t.ok(names.every((name) => own.some((one) => one.toLowerCase() === name.toLowerCase())), own.join(' '));
    t.notOk(own.includes('stored') || own.includes('builtin'));
    t.ok(isInstalled(folder, file));
    await client.delete({ model: 'stored' });
    await client.delete({ model: 'owner/model:Q8_0' });
    t.ok(isAbsent(folder, file), 'its other names are names of the store');
  }
});

t.test('a model that the hub does not have is an error, before the first line', async (t) => {
  const { client, hub, url } = await startServer(t);
  await t.rejects(client.pull({ model: 'owner/model:Q2_K' }), { status_code: 404, message: /Q2_K/ });
  await t.rejects(client.pull({ model: 'llama3.2' }), { message: /llama3\.2/ });
  t.equal((await post(`${url}/api/pull`, {})).status, 400);
  hub.onBytes = ({ response }) => {
    response.writeHead(404).end();
    return true;
  };
  const text = await (await post(`${url}/api/pull`, { model: 'owner/model:Q8_0' })).text();
  t.match(text.trim().split('\n').map((line) => JSON.parse(line) as object).at(-1), { error: /./, code: /./ });
});

t.test('a stream of a pull says why it waits for the hub', async (t) => {
  const { client, hub } = await startServer(t);
  let refusals = 0;
  hub.onBytes = ({ response }) => {
    if (refusals++ > 0) return false;
    response.writeHead(429, { 'Retry-After': '0' }).end();
    return true;
  };
  const said: string[] = [];
  for await (const { status } of await client.pull({ model: 'owner/model:Q8_0', stream: true })) said.push(status);
  t.ok(said.some((status) => /wants fewer requests \(429\); trying again in \d+ s$/.test(status)), said.join('\n'));
  t.equal(said.at(-1), 'success');
});

t.test('a key for some models names and deletes no others', async (t) => {
  const keys = join(ownFolder(t), 'keys.json');
  writeFileSync(keys, JSON.stringify([{ key: 'all', admin: true }, { key: 'some', admin: true, models: ['builtin'] }]));
  const { url, folder } = await startServer(t, ['--api-key-file', keys]);
  const ask = async (method: string, path: string, body: object, key: string): Promise<number> => (
    (await fetch(url + path, { method, headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` }, body: JSON.stringify(body) })).status
  );
  t.equal(await ask('POST', '/api/pull', { model: 'owner/model:Q8_0', stream: false }, 'all'), 200);
  const { data } = await (await fetch(`${url}/v1/models`, { headers: { authorization: 'Bearer all' } })).json() as { data: { id: string; file_bytes?: number }[] };
  t.equal(data.find(({ id }) => id.startsWith('owner/model'))?.file_bytes, bytes.length);
  t.equal(await ask('POST', '/api/copy', { source: 'owner/model', destination: 'mine' }, 'some'), 403);
  t.equal(await ask('DELETE', '/api/delete', { model: 'owner/model' }, 'some'), 403);
  t.ok(isInstalled(folder, file));
  t.equal(await ask('POST', '/api/copy', { source: 'owner/model', destination: 'mine' }, 'all'), 200);
  const names = async (key: string): Promise<unknown> => await (await fetch(`${url}/ui/aliases`, { headers: { authorization: `Bearer ${key}` } })).json();
  t.match(await names('all'), { data: [{ name: 'mine' }] });
  t.same(await names('some'), { data: [], own: [] });
  t.equal(await ask('DELETE', '/api/delete', { model: 'owner/model' }, 'all'), 200);
});

t.test('only clients on this machine, and no foreign pages, change the store', async (t) => {
  const { url, hub, port } = await startServer(t, ['--host', '0.0.0.0']);
  const asked = hub.requests.length;
  const ask = async (headers: Record<string, string>): Promise<number> => (await post(`${url}/api/pull`, { model: 'owner/model:Q8_0' }, headers)).status;
  t.equal(await ask({ origin: 'https://example.com' }), 403);
  t.equal(await ask({ 'x-forwarded-for': '10.0.0.1' }), 403);
  t.equal((await fetch(`${url}/api/delete`, { method: 'DELETE', headers: { 'content-type': 'application/json', origin: 'https://example.com' }, body: '{"model":"x"}' })).status, 403);
  const other = Object.values(networkInterfaces()).flat().find((one) => one?.family === 'IPv4' && !one.internal)?.address;
  if (other !== undefined) {
    const status = await new Promise((resolve, reject) => {
      const socket = connect({ port, host: other, localAddress: other }).on('error', reject);
      socket.once('data', (data) => {
        resolve(data.toString().split(' ')[1]);
        socket.destroy();
      });
      socket.write('POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n{"model":"owner/model:Q8_0"}       ');
    });
    t.equal(status, '403', 'from another address');
  }
  t.equal(hub.requests.length, asked, 'nothing was asked of the hub');
});

t.test('a program’s own models are not changed', async (t) => {
  const { url } = await startApp(t);
  const response = await post(`${url}/api/pull`, { model: 'owner/model' });
  t.equal(response.status, 400);
  t.match(await response.json(), { code: 'model_fixed' });
});

t.test('batches run while a model is pulled, which may take hours', async (t) => {
  const open: ModelShelf['open'] = async (_name, signal) => ({
    files: [],
    run: () => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })),
  });
  const { url } = await startApp(t, {}, new FakeEngine(), { keepIn: ownFolder(t), shelf: { open } as ModelShelf });
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const pull = await post(`${url}/api/pull`, { model: 'owner/model' });
  const line = JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'small', ...hello } });
  const { id: input } = await client.files.create({ file: await toFile(Buffer.from(line), 'in.jsonl'), purpose: 'batch' });
  const { id } = await client.batches.create({ input_file_id: input, endpoint: '/v1/chat/completions', completion_window: '24h' });
  const status = async (): Promise<string> => (await client.batches.retrieve(id)).status;
  for (let tries = 0; tries < 1_000 && await status() !== 'completed'; tries++) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(await status(), 'completed');
  await pull.body!.cancel();
});
