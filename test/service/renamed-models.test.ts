// The store names a model after its repository while it is the only one there. A server must not
// confuse models when others come and go, with a real server and a real store.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { recua, start } from '../cli/recua.js';
import { put } from '../models/hub-layout.js';
import { post } from './service.js';

const bytes = readFileSync(builtinPath);
/** With the signs of its last weights turned, it writes something else. */
const other = Buffer.from(bytes);
for (let at = other.length - 400_001; at < other.length; at += 2) other[at]! ^= 0x80;
const small = { repo: 'own/r', file: 'm-Q4_K_M.gguf', bytes: other };
const large = { repo: 'own/r', file: 'm-Q8_0.gguf', bytes };

const keys = [{ key: 'all', admin: true }, { key: 'upper', admin: true, models: ['Own/R'] }, { key: 'only', models: ['only'] }];

async function serve(t: Test, ...flags: string[]) {
  const hub = join(t.testdir({ hub: {}, 'keys.json': JSON.stringify(keys) }), 'hub');
  put(hub, large);
  const env = { HUB_HOME: hub, SERVICE_HOME: join(t.testdirName, 'home') };
  const running = start(['api', '--port', '0', '--threads', '1', '--ctx-size', '512', '--parallel', '1', '--keep-alive', '-1', ...flags], { bare: true, env });
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  const ask = async (model: string): Promise<string> => {
    const reply = await post(url!, '/v1/completions', { model, prompt: 'Hello', temperature: 0, max_tokens: 12 });
    return ((await reply.json()) as { choices: { text: string }[] }).choices[0]!.text;
  };
  const states = async (): Promise<Record<string, string>> => {
    const { data } = await (await fetch(`${url}/v1/models`)).json() as { data: { id: string; status: { value: string } }[] };
    t.equal(new Set(data.map(({ id }) => id)).size, data.length, 'no two have one name');
    return Object.fromEntries(data.map(({ id, status }) => [id, status.value]));
  };
  const engines = (): number => spawnSync('ps', ['-o', 'pid=', '--ppid', String(running.child.pid)], { encoding: 'utf8' }).stdout.trim().split('\n').filter(Boolean).length;
  /** Until the server has read the store again. */
  const listed = async (id: string): Promise<void> => {
    while (!(id in await states())) await new Promise((resolve) => setTimeout(resolve, 100));
  };
  return { hub, env, running, url: url!, ask, states, engines, listed };
}

t.test('a loaded model keeps its engine when another of its repository comes, under its new name', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const { hub, url, ask, states, engines, listed } = await serve(t);
  const text = await ask('own/r');
  put(hub, small);
  t.equal(await ask('own/r:Q8_0'), text);
  await listed('own/r:Q8_0');
  t.equal(await ask('own/r:Q8_0'), text);
  t.strictSame(await states(), { builtin: 'unloaded', 'own/r:Q4_K_M': 'unloaded', 'own/r:Q8_0': 'loaded' });
  t.equal(engines(), 1, 'it is not loaded twice');
  t.equal((await post(url, '/models/unload', { model: 'own/r:Q8_0' })).status, 200);
  t.equal(engines(), 0);
});

t.test('a model that took the name of a deleted one answers by itself', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const { hub, env, running, ask, states, engines } = await serve(t);
  const text = await ask('own/r');
  put(hub, small);
  t.equal((await recua(['rm', 'own/r:Q8_0'], '', { env })).code, 0);
  t.not(await ask('own/r:Q4_K_M'), text);
  t.not(await ask('own/r'), text);
  await running.saw(/own\/r: its file is gone, and another model has its name/);
  while (engines() > 1) await new Promise((resolve) => setTimeout(resolve, 20));
  t.strictSame(await states(), { builtin: 'unloaded', 'own/r': 'loaded' });
});

t.test('a conversation that sleeps on disk is found under the new name of its model', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const { hub, url, ask, listed } = await serve(t, '--max-models', '1');
  const turn = async (model: string): Promise<number> => {
    const messages = [{ role: 'user', content: 'One two three four five. '.repeat(12) }];
    const reply = await post(url, '/v1/chat/completions', { model, messages, max_tokens: 1, temperature: 0 });
    const { usage } = await reply.json() as { usage: { prompt_tokens_details: { cached_tokens: number } } };
    return usage.prompt_tokens_details.cached_tokens;
  };
  t.equal(await turn('own/r'), 0);
  await ask('builtin');
  put(hub, small);
  await listed('own/r:Q8_0');
  t.ok(await turn('own/r:Q8_0') > 50);
});

t.test('a revision that is the current one is the same model', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const { ask, states, engines } = await serve(t);
  t.equal(await ask('own/r@main'), await ask('own/r'));
  t.equal(engines(), 1);
  t.strictSame(await states(), { builtin: 'unloaded', 'own/r': 'loaded' });
});

t.test('a request deletes no more than one model, and a server forgets it at once', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const { hub, url, ask, states, engines, listed } = await serve(t);
  await ask('own/r');
  put(hub, small);
  await listed('own/r:Q4_K_M');
  const remove = async (model: string): Promise<Response> => await fetch(`${url}/api/delete`, { method: 'DELETE', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model }) });
  for (const name of ['own/r', 'own/r@main']) {
    const refused = await remove(name);
    t.equal(refused.status, 400);
    t.match(await refused.text(), /means 2 models of the store; give one of them: own\/r\S*:Q4_K_M, own\/r\S*:Q8_0/);
  }
  t.equal((await remove('own/r:Q8_0')).status, 200);
  t.equal(engines(), 0);
  t.strictSame(await states(), { builtin: 'unloaded', 'own/r': 'unloaded' });
});

t.test('a key for one model deletes none of a repository whose name differs only in case', { skip: process.platform !== 'linux' && 'other systems may not tell them apart' }, async (t) => {
  const { hub, url } = await serve(t, '--api-key-file', join(t.testdirName, 'keys.json'));
  put(hub, { ...small, repo: 'Own/R' });
  const path = put(hub, small);
  const paths = [path, path.replace(small.file, large.file)];
  const ask = async (method: string, path: string, body?: object): Promise<number> => (
    await fetch(url + path, { method, headers: { authorization: 'Bearer upper', 'content-type': 'application/json' }, ...(body ? { body: JSON.stringify(body) } : {}) })
  ).status;
  // Until the server knows all three.
  while (await ask('POST', '/tokenize', { model: 'own/r:Q4_K_M', content: 'x' }) !== 403) await new Promise((resolve) => setTimeout(resolve, 100));
  for (const model of ['own/r', 'own/r:Q8_0']) t.ok(await ask('DELETE', '/api/delete', { model }) >= 400, model);
  for (const path of paths) t.ok(existsSync(path));
});

t.test('a key has the models that its names mean, and no others with such a file', async (t) => {
  const { hub, env, url } = await serve(t, '--api-key-file', join(t.testdirName, 'keys.json'));
  const file = 'only.gguf';
  for (const repo of ['own/a', 'own/b']) put(hub, { repo, file, bytes });
  const models = async (key: string): Promise<string[]> => {
    const { data } = await (await fetch(`${url}/v1/models`, { headers: { 'x-api-key': key } })).json() as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };
  const answers = async (model: string): Promise<number> => (await fetch(`${url}/v1/completions`, {
    method: 'POST', headers: { 'x-api-key': 'only', 'content-type': 'application/json' }, body: JSON.stringify({ model, prompt: 'a', max_tokens: 1 }),
  })).status;
  // A reading of the store may have found one of them.
  for (let listed: string[] = []; !['own/a', 'own/b'].every((id) => listed.includes(id)); listed = await models('all')) await new Promise((resolve) => setTimeout(resolve, 100));
  t.strictSame(await models('only'), [], 'two files are called so');
  t.strictSame([await answers('own/a'), await answers('own/b'), await answers('only')], [403, 403, 400]);
  t.equal((await recua(['alias', 'only', 'own/b'], '', { env })).code, 0);
  while (!(await models('only')).includes('own/b')) await new Promise((resolve) => setTimeout(resolve, 100));
  t.strictSame([await answers('own/a'), await answers('own/b'), await answers('only')], [403, 200, 200]);
});
