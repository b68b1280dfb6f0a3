import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { createServer, loadModel, openModels, tool, type Models, type OpenOptions } from 'recua';
import { builtinPath } from '#recua/models/store.js';
import { codeOf, endless } from './modes.js';

/** The context of `chat` has room for an answer that outlasts what happens meanwhile. */
async function open(t: Test, more: OpenOptions = {}): Promise<Models> {
  const embed = join(t.testdir(), 'embed.gguf');
  copyFileSync(builtinPath, embed);
  const models = await openModels({
    models: { chat: { model: 'builtin', aliases: ['gpt-4o'] }, embed: { model: embed, contextSize: 256 } }, contextSize: 4_096, parallel: 2, threads: 1, ...more,
  });
  t.teardown(() => models.dispose());
  return models;
}

const states = async (models: Models) => (await models.list()).map(({ id, state }) => `${id} ${state}`);

async function serve(t: Test, app: ReturnType<typeof createServer>): Promise<string> {
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('a model is leased by name, works like a loaded one, and is given back', async (t) => {
  const models = await open(t);
  t.strictSame(await states(models), ['chat unloaded', 'embed unloaded']);
  const fractions: number[] = [];
  const [chat, same, embed] = await Promise.all([
    models.lease('gpt-4o', { onProgress: (fraction) => fractions.push(fraction) }), models.lease(), models.lease('embed'),
  ]);
  t.equal(fractions.at(-1), 1);
  t.match(chat.info, { id: 'chat', path: builtinPath, contextSize: 4_096 });
  t.match(embed.info, { id: 'embed', contextSize: 256 });
  t.ok((await chat.chat('Hello!', { temperature: 0, maxTokens: 4 })).content);
  t.equal((await embed.embed('llama')).length, embed.info.embeddingSize);
  t.match(await models.list(), [{ id: 'chat', state: 'loaded', leases: 2, aliases: ['gpt-4o'], expires: undefined, info: { id: 'chat' } }, { leases: 1 }]);

  const long = same.complete('x', endless);
  await long[Symbol.asyncIterator]().next();
  const running = chat.complete('x', endless);
  await running[Symbol.asyncIterator]().next();
  await chat.dispose();
  t.equal(await codeOf(running), 'closed', 'what runs here ends with it');
  t.equal(await codeOf(chat.embed('x')), 'closed');
  await chat.dispose();
  t.match(await models.list(), [{ state: 'loaded', leases: 1 }, {}]);
  long.cancel();
  t.equal(await codeOf(long), 'cancelled', 'the other lease went on');
  // Long enough to be kept.
  const drained = same.chat('Hello! Tell me of the llamas that carry salt.', { temperature: 0, maxTokens: 24 });
  await drained[Symbol.asyncIterator]().next();
  await same.dispose({ drainMs: 600_000 });
  t.ok((await drained).content);
  const [idle] = await models.list();
  t.equal(idle?.leases, 0);
  t.ok(idle!.expires! > new Date(), 'it stays for who asks next');
  t.equal((await models.unload('chat')).state, 'sleeping', 'what was said is kept');
  t.equal((await models.load('chat')).state, 'loaded');
  await models.dispose();
  t.equal(await codeOf(embed.embed('x')), 'closed');
  for (const late of [models.lease('chat'), models.load('chat')]) t.equal(await codeOf(late), 'closed');
});

t.test('many embeddings at once warn of no leak', async (t) => {
  const warnings: Error[] = [];
  const warn = (warning: Error): void => void warnings.push(warning);
  process.on('warning', warn);
  t.teardown(() => process.off('warning', warn));
  const models = await open(t);
  const embed = await models.lease('embed');
  await Promise.all(Array.from({ length: 30 }, () => Promise.all([embed.embed('llama'), embed.embed('llama', { signal: new AbortController().signal })])));
  t.strictSame(warnings, []);
  const many = Array.from({ length: 2_000 }, () => 'llama');
  const [stop, long] = [new AbortController(), embed.embed(many)];
  const stopped = embed.embed(many, { signal: stop.signal });
  stop.abort();
  t.equal(await codeOf(stopped), 'cancelled');
  t.equal(await codeOf(embed.embed('llama', { signal: stop.signal })), 'cancelled');
  const [code] = await Promise.all([codeOf(long), embed.dispose()]);
  t.equal(code, 'closed');
  await models.dispose();
});

t.test('dispose lets an answer end that calls tools', async (t) => {
  const models = await open(t);
  const chat = await models.lease('chat');
  let disposing: Promise<void> | undefined;
  const get_weather = tool({
    description: 'Get the weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    execute() {
      disposing = models.dispose({ drainMs: 60_000 });
      return new Promise((resolve) => setTimeout(() => resolve('Sunny'), 50));
    },
  });
  const reply = chat.chat('What is the weather in Paris?', { temperature: 0, toolChoice: 'required', tools: { get_weather } });
  t.match((await reply).messages, [{ role: 'assistant' }, { role: 'tool', content: 'Sunny' }, { role: 'assistant', content: /./ }]);
  t.equal(await codeOf(models.lease('chat')), 'closed');
  t.equal(await codeOf(chat.chat('Hello!')), 'closed');
  await disposing;
});

t.test('with room for one of two models, leases take turns, and changes are reported', async (t) => {
  const models = await open(t, { maxModels: 1 });
  const heard: string[] = [];
  models.on('change', ({ id, state }) => heard.push(`${id} ${state}`));
  const chat = await models.lease('chat', { keepAliveMs: -1 });
  await chat[Symbol.asyncDispose]();
  const embed = await models.lease('embed');
  t.strictSame(await states(models), ['chat unloaded', 'embed loaded']);
  const waiting = new AbortController();
  const second = models.lease('chat', { signal: waiting.signal });
  waiting.abort();
  t.equal(await codeOf(second), 'cancelled');
  await embed.dispose();
  t.strictSame([...new Set(heard)].filter((one) => /loaded|unloaded/.test(one)).slice(0, 3), ['chat loaded', 'chat unloaded', 'embed loaded']);
});

t.test('a conversation continues after its model was unloaded, unless nothing is kept', async (t) => {
  const prompt = `Tell me about ${'llamas and alpacas, '.repeat(12)}`;
  for (const [sleepCacheBytes, kept] of [[undefined, true], [0, false]] as const) {
    const models = await open(t, { maxModels: 1, sleepCacheBytes });
    const ask = async (name: string) => {
      await using model = await models.lease(name);
      return await model.complete(prompt, { maxTokens: 2, temperature: 0 });
    };
    const first = await ask('chat');
    await ask('embed');
    t.equal((await states(models))[0], kept ? 'chat sleeping' : 'chat unloaded');
    const again = await ask('chat');
    t.equal(again.content, first.content);
    t.equal(again.usage.cachedTokens, kept ? again.usage.promptTokens - 1 : 0);
    await models.dispose();
  }
});

t.test('a conversation continues in the next program, on request', async (t) => {
  const home = process.env['SERVICE_HOME'];
  process.env['SERVICE_HOME'] = mkdtempSync(join(tmpdir(), 'recua-library-'));
  const made = process.env['SERVICE_HOME'];
  t.teardown(() => rmSync(made, { recursive: true, force: true }));
  t.teardown(() => { if (home === undefined) delete process.env['SERVICE_HOME']; else process.env['SERVICE_HOME'] = home; });
  const prompt = `Tell me about ${'llamas and alpacas, '.repeat(12)}`;
  for (const isFirst of [true, false]) {
    const models = await open(t, { cacheDiskBytes: 100 * 2 ** 20 });
    const model = await models.lease('chat');
    const { usage } = await model.complete(prompt, { maxTokens: 2, temperature: 0 });
    t.equal(usage.cachedTokens, isFirst ? 0 : usage.promptTokens - 1);
    await models.dispose();
  }
});

t.test('a leased model reports its crash, and comes back by itself', async (t) => {
  const models = await open(t);
  const chat = await models.lease('chat');
  const events: string[] = [];
  for (const name of ['crashed', 'ready'] as const) chat.on(name, () => events.push(name));
  const aborting = new AbortController();
  const running = chat.complete('x', { ...endless, signal: aborting.signal });
  const deltas = running[Symbol.asyncIterator]();
  await deltas.next();
  const [leased] = await models.list();
  process.kill(leased!.pid!, 'SIGKILL');
  while (events.length < 2) t.ok((await deltas.next()).value, 'it goes on');
  aborting.abort();
  t.equal(await codeOf(running), 'cancelled');
  t.ok((await chat.chat('Hello!', { maxTokens: 2 })).content);
  t.strictSame(events, ['crashed', 'ready']);
});

t.test('an onProgress that throws leaves no lease behind', async (t) => {
  const models = await open(t, { models: { one: { model: 'builtin' } } });
  const thrown = new Set<string>();
  process.setUncaughtExceptionCaptureCallback((error) => thrown.add(error.message));
  t.teardown(() => process.setUncaughtExceptionCaptureCallback(null));
  const leased = await models.lease('one', { onProgress: () => { throw new Error('of a callback'); } });
  await leased.dispose();
  t.match(await models.list(), [{ state: 'loaded', leases: 0 }]);
  t.strictSame([...thrown], ['of a callback']);
});

t.test('a lease ends although its engine does not answer', async (t) => {
  const models = await open(t);
  const model = await models.lease('chat');
  const pid = (await models.list())[0]!.pid!;
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => process.kill(pid, 'SIGCONT'));
  const calls = [model.tokenize('hello'), model.detokenize([1]), model.embed('hello')].map(codeOf);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await model.dispose();
  t.strictSame(await Promise.all(calls), ['closed', 'closed', 'closed']);
  process.kill(pid, 'SIGCONT');
});

t.test('createServer serves several models, and leaves them to the program', async (t) => {
  const models = await open(t);
  const url = await serve(t, createServer({ models, maxTokens: 3 }));
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const [said, embedded, leased] = await Promise.all([
    client.chat.completions.create({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello!' }] }),
    client.embeddings.create({ model: 'embed', input: 'llama' }),
    models.lease('chat'),
  ]);
  t.match(said, { model: 'chat', usage: { completion_tokens: 3 } });
  t.equal(embedded.data.length, 1);
  t.same((await client.models.list()).data.map(({ id }) => id), ['chat', 'embed']);
  await t.rejects(client.embeddings.create({ model: 'nobody', input: 'x' }), { status: 404, code: 'model_not_found' });
  t.ok((await leased.chat('Hello!', { maxTokens: 2 })).content);
  t.throws(() => createServer(leased), { code: 'invalid_type', param: 'model', message: /createServer\(\{ models \}\)/ }, 'it would outlive the lease');
  await models.dispose();
  t.equal((await fetch(`${url}/v1/embeddings`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":"embed","input":"x"}' })).status, 503);
});

t.test('a model that is to stay for longer than any date can say is listed as any other', async (t) => {
  const url = await serve(t, createServer({ models: await open(t) }));
  const load = await fetch(`${url}/models/load`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'chat', keep_alive: 1e300 }) });
  t.equal(load.status, 200);
  t.match(await (await fetch(`${url}/api/ps`)).json(), { models: [{ name: 'chat', expires_at: '2318-01-01T00:00:00.000Z' }] });
  t.match((await (await fetch(`${url}/v1/models/chat`)).json()), { expires_at: null });
});

t.test('/models/sse of a server for one model reports its events', async (t) => {
  const model = await loadModel('builtin', { contextSize: 256, threads: 1 });
  t.teardown(() => model.dispose());
  const url = await serve(t, createServer(model, { pingIntervalMs: 60_000 }));
  const response = await fetch(`${url}/models/sse`);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  await model.dispose();
  let text = '';
  while (!/unloaded/.test(text)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
  }
  t.match(text, /"model":"builtin","event":"status_change","data":\{"status":"unloaded"\}/);
  await reader.cancel();
});

t.test('wrong options are reported with their place, and nothing is opened', async (t) => {
  const refused = async (options: object, expected: { code: string; param?: string; message?: RegExp }) =>
    t.rejects(openModels(options as OpenOptions), expected);
  await refused({ models: { a: {} } }, { code: 'invalid_type', param: 'models.a.model' });
  await refused({ models: { a: 'builtin' } }, { code: 'invalid_type', param: 'models.a' });
  await refused({ models: { a: { model: 'builtin', context: 1 } } }, { code: 'invalid_value', param: 'models.a.context' });
  await refused({ models: { a: { model: 'builtin', contextSize: -1 } } }, { code: 'invalid_value', param: 'models.a.contextSize' });
  await refused({ models: { a: { model: 'builtin' }, b: { model: 'builtin', aliases: ['A'] } } }, { code: 'invalid_value', message: /each name once, got "A" for a and for b/ });
  await refused({ models: { default: { model: 'builtin' } } }, { code: 'invalid_value' });
  const pinned = { model: 'builtin', pinned: true, group: 'one' };
  await refused({ models: { a: pinned, b: pinned } }, { code: 'invalid_value', message: /one pinned model at most in the group one, got a and b/ });
  await refused({ models: { a: { model: '/none.gguf' } } }, { code: 'model_not_found' });
  await refused({ maxModels: -1 }, { code: 'invalid_value', param: 'maxModels' });
  await refused({ models: {} }, { code: 'invalid_value', param: 'models', message: /at least one model in models, got none/ });
  await refused({ model: 'builtin' }, { code: 'invalid_value', param: 'model' });
  t.throws(() => createServer({ models: {} as Models }), { code: 'invalid_type', param: 'models' });
  const models = await open(t);
  t.throws(() => createServer({ models, alias: 'x' } as object as { models: Models }), { code: 'invalid_value', param: 'alias' });
  await t.rejects(models.lease('nobody'), { code: 'model_not_found', message: /list\(\) lists those that do/ });
  await t.rejects(models.lease(''), { code: 'invalid_value', param: 'name' });
  t.equal(await codeOf(models.lease('chat', { keepAlive: 1 } as object)), 'invalid_value');
});

t.test('pinned models load at once, and without models the store is served', async (t) => {
  const pinned = await openModels({ models: { chat: { model: 'builtin', pinned: true, contextSize: 256, parallel: 1 } }, threads: 1 });
  t.match(await pinned.list(), [{ state: 'loaded', pinned: true, expires: undefined }]);
  await pinned.dispose();
  const store = await openModels();
  t.ok((await states(store)).includes('builtin unloaded'));
  await store.dispose();
});
