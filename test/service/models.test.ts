// Three models through one port, as agents use them: a chat model, one for embeddings, a reranker.
import { spawnSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { until } from '../cli/home.js';
import { start, type Running } from '../cli/recua.js';
import { writeReranker } from '../native/random-reranker.js';
import { post } from './service.js';

interface Served {
  running: Running;
  url: string;
  client: OpenAI;
  states(): Promise<Record<string, string>>;
}

/** `chat` is the default. All three are small stand-ins for real ones, in their own files. */
async function serveThree(t: Test, ...flags: string[]): Promise<Served> {
  const folder = t.testdir();
  for (const name of ['chat', 'embed']) copyFileSync(builtinPath, join(folder, `${name}.gguf`));
  await writeReranker('bert', join(folder, 'rank.gguf'));
  writeFileSync(join(folder, 'models.json'), JSON.stringify({
    default: 'chat',
    models: {
      chat: { model: 'chat.gguf', context: 512, parallel: 2, aliases: ['gpt-4o'], temperature: 0, maxTokens: 8 },
      'text-embedding': { model: 'embed.gguf', context: 256, parallel: 1 },
      rank: { model: 'rank.gguf', context: 256, parallel: 1 },
    },
  }));
  const running = start(['api', '--models', join(folder, 'models.json'), '--port', '0', '--threads', '1', ...flags]);
  t.teardown(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  const states = async () => {
    const { data } = await (await fetch(`${url}/v1/models`)).json() as { data: { id: string; status: { value: string } }[] };
    return Object.fromEntries(data.map(({ id, status }) => [id, status.value]));
  };
  return { running, url: url!, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }), states };
}

/** The output of `ps`, by line; it exits with 1 if there is no such process. */
const ps = (...args: string[]): string[] => spawnSync('ps', args, { encoding: 'utf8' }).stdout.split('\n').map((line) => line.trim()).filter(Boolean);
const children = (pid: number): string[] => ps('-o', 'pid=', '--ppid', String(pid));
/** Resident memory of a process and its descendants, in KiB. */
const residentKib = (pid: number): number => ps('-o', 'rss=', '-p', [pid, ...children(pid)].join(',')).reduce((sum, line) => sum + Number(line), 0);

t.test('requests that waited for their model run in order of their tiers and arrival', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'a.gguf');
  copyFileSync(builtinPath, path);
  writeFileSync(join(folder, 'models.json'), JSON.stringify({ models: { a: { model: 'a.gguf', context: 512, parallel: 1 } } }));
  const running = start(['api', '--models', join(folder, 'models.json'), '--port', '0', '--threads', '1', '--log-level', 'info']);
  t.teardown(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  const requests = async (): Promise<number> => {
    const { data } = await (await fetch(`${url}/v1/models`)).json() as { data: { requests: number }[] };
    return data[0]!.requests;
  };
  for (let round = 0; round < 3; round++) {
    for (const tiers of [['default', 'default', 'default', 'default', 'default', 'default'], ['flex', 'flex', 'flex', 'default', 'priority']]) {
      await post(url!, '/models/unload', { model: 'a' });
      let engine: string | undefined;
      // By the server's log: a busy client may read two replies at once.
      const name = `${round}-${tiers.length}`;
      const ended = (): number[] => [...running.stderr().matchAll(new RegExp(` ${name}-(\\d) POST `, 'g'))].map(([, number]) => Number(number));
      const asked: Promise<Response>[] = [];
      for (const [number, tier] of tiers.entries()) {
        const body = { model: 'a', service_tier: tier, messages: [{ role: 'user', content: `Hello ${number}` }], max_tokens: 20, ignore_eos: true };
        asked.push(fetch(`${url}/v1/chat/completions`, {
          method: 'POST', headers: { 'content-type': 'application/json', 'x-request-id': `${name}-${number}` }, body: JSON.stringify(body),
        }));
        // The model loads no further until all of them wait.
        if (number === 0) {
          await until(() => ([engine] = children(running.child.pid!))[0] !== undefined);
          process.kill(Number(engine), 'SIGSTOP');
        }
        await until(async () => await requests() > number);
      }
      t.equal(ended().length, 0, 'the model is still loading');
      process.kill(Number(engine), 'SIGCONT');
      for (const { status } of await Promise.all(asked)) t.equal(status, 200);
      await until(() => ended().length === tiers.length);
      t.strictSame(ended(), tiers.includes('flex') ? [4, 3, 0, 1, 2] : [0, 1, 2, 3, 4, 5]);
    }
  }
});

t.test('chat, embeddings and reranking run at once through one port, each on its model', async (t) => {
  const { url, client, states } = await serveThree(t);
  t.strictSame(await states(), { chat: 'unloaded', 'text-embedding': 'unloaded', rank: 'unloaded' });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hello! My name is Ifeoma.' }];
  const [whole, streamed, byDefault, embedded, ranked] = await Promise.all([
    client.chat.completions.create({ model: 'gpt-4o', messages }),
    (async () => {
      let text = '';
      for await (const chunk of await client.chat.completions.create({ model: 'chat', messages, stream: true })) text += chunk.choices[0]?.delta.content ?? '';
      return text;
    })(),
    client.chat.completions.create({ model: 'default', messages }),
    client.embeddings.create({ model: 'text-embedding', input: ['llama', 'alpaca'] }),
    post(url, '/v1/rerank', { model: 'rank', query: 'llama', documents: ['a llama', 'bread'] }),
  ]);
  t.equal(whole.model, 'chat');
  t.equal(streamed, whole.choices[0].message.content);
  t.equal(byDefault.choices[0].message.content, streamed);
  t.ok((whole.usage?.completion_tokens ?? 9) <= 8, 'the file’s bound holds');
  t.equal(embedded.model, 'text-embedding');
  t.equal(embedded.data.length, 2);
  t.match(await ranked.json(), { model: 'rank', results: [{}, {}] });
  t.strictSame(await states(), { chat: 'loaded', 'text-embedding': 'loaded', rank: 'loaded' });
  t.same((await client.models.retrieve('gpt-4o')).id, 'chat');
  await t.rejects(client.chat.completions.create({ model: 'rank', messages }), { status: 400, code: 'chat_unsupported' });
  await t.rejects(client.chat.completions.create({ model: 'chatt', messages }), { status: 404, code: 'model_not_found', message: /Did you mean "chat"/ });
});

t.test('models of the config file have their settings, beside the rest of the store', async (t) => {
  const folder = t.testdir();
  copyFileSync(builtinPath, join(folder, 'chat.gguf'));
  const config = join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ port: 0, threads: 1, parallel: 1, models: { chat: { model: 'chat.gguf', context: 256 } } }));
  const serve = async (...operands: string[]) => {
    const running = start(['api', ...operands], { env: { RECUA_CONFIG: config, SERVICE_HOME: folder } });
    t.teardown(async () => {
      running.child.kill('SIGTERM');
      await running.ended;
    });
    const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
    return url!;
  };
  const url = await serve();
  const ask = async (model: object) => (await post(url, '/v1/embeddings', { ...model, input: 'x' })).json();
  t.equal((await ask({})).model, 'chat', 'the first is the default');
  t.equal((await ask({ model: 'builtin' })).model, 'builtin');
  const { data } = await (await fetch(`${url}/v1/models`)).json() as { data: { id: string; context_window?: number }[] };
  t.match(data, [{ id: 'chat', context_window: 256 }, { id: 'builtin', context_window: 4096 }]);
  const chosen = await (await fetch(`${await serve('chat')}/v1/models`)).json() as { data: object[] };
  t.match(chosen.data, [{ id: 'chat', context_window: 256 }]);
  t.equal(chosen.data.length, 1);
  const single = await (await fetch(`${await serve('builtin')}/v1/models`)).json() as { data: object[] };
  t.equal(single.data.length, 1);
  t.match(single.data[0], { pinned: true, expires_at: null }, 'one model for good, as without models in the file');
});

t.test('models are loaded and unloaded on demand, and give their memory back', async (t) => {
  const { running, url, states } = await serveThree(t);
  const pid = running.child.pid!;
  const load = async (route: string, model: string) => (await post(url, `/models/${route}`, { model })).json();
  await load('load', 'rank');
  await load('unload', 'rank');
  const before = residentKib(pid);
  t.equal(children(pid).length, 0, 'no model, no process');
  t.match(await load('load', 'gpt-4o'), { success: true, model: { id: 'chat', status: { value: 'loaded' }, context_window: 512 } });
  t.match(await load('load', 'text-embedding'), { success: true });
  t.equal(children(pid).length, 2, 'a process for each');
  const loaded = residentKib(pid);
  t.match(await load('unload', 'chat'), { success: true, model: { status: { value: 'unloaded' } } });
  t.match(await load('unload', 'text-embedding'), { success: true });
  t.strictSame(await states(), { chat: 'unloaded', 'text-embedding': 'unloaded', rank: 'unloaded' });
  t.equal(children(pid).length, 0);
  const after = residentKib(pid);
  t.ok(after - before < (loaded - before) / 4, `${before} KiB, with two models ${loaded}, after them ${after}`);
  t.match(await load('load', 'none'), { error: { code: 'model_not_found' } });
});

t.test('a model leaves when nobody has used it for its time', async (t) => {
  const { running, url, states } = await serveThree(t, '--keep-alive', '0');
  t.equal((await post(url, '/v1/embeddings', { model: 'text-embedding', input: 'x', keep_alive: -1 })).status, 200);
  t.equal((await post(url, '/v1/rerank', { model: 'rank', query: 'x', documents: ['y'] })).status, 200);
  while ((await states())['rank'] !== 'unloaded') await new Promise((resolve) => setTimeout(resolve, 20));
  t.match(await states(), { 'text-embedding': 'loaded' });
  t.equal(children(running.child.pid!).length, 1);
});

t.test('two clients that alternate between two models with room for one are all answered', async (t) => {
  const { client, running } = await serveThree(t, '--max-models', '1', '--ping-interval', '1');
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hello!' }];
  const ask = async (turn: number): Promise<string> => (turn % 2 === 0
    ? (await client.chat.completions.create({ model: 'chat', messages })).model
    : (await client.embeddings.create({ model: 'text-embedding', input: 'llama' })).model);
  const clients = await Promise.all([0, 1].map(async (first) => {
    const models: string[] = [];
    for (let turn = first; turn < first + 4; turn++) models.push(await ask(turn));
    return models;
  }));
  t.strictSame(clients, [['chat', 'text-embedding', 'chat', 'text-embedding'], ['text-embedding', 'chat', 'text-embedding', 'chat']]);
  t.equal(children(running.child.pid!).length, 1);
});
