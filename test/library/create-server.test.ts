import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import express from 'express';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { createServer, loadModel, RecuaError, type Model } from 'recua';
import { getSecurely, makeCertificates } from '../server/access/certificates.js';
import { until } from '../cli/home.js';
import { inBothModes } from './modes.js';

async function urlOf(t: Test, server: Server): Promise<string> {
  if (!server.listening) await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

inBothModes('the app can be mounted in an Express app of the program', async (t, load) => {
  const model = await load(t);
  const app = express();
  app.get('/own', (_, res) => res.send('own'));
  app.use('/llm', createServer(model, { alias: 'llama' }));
  const url = await urlOf(t, app.listen(0, '127.0.0.1'));
  t.equal(await (await fetch(`${url}/own`)).text(), 'own');
  const client = new OpenAI({ baseURL: `${url}/llm/v1`, apiKey: 'none', maxRetries: 0 });
  const stream = await client.chat.completions.create({ model: 'llama', messages: [{ role: 'user', content: 'Hello!' }], temperature: 0, stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
  t.equal(text, (await model.chat('Hello!', { temperature: 0 })).content);
  t.same((await client.models.list()).data.map(({ id }) => id), ['llama']);
  t.equal((await client.chat.completions.create({ model: 'builtin', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 2 })).model, 'llama');
  await model.dispose();
  t.equal((await fetch(`${url}/llm/health`)).status, 503);
});

inBothModes('an app that is closed refuses new work, completes what runs, and leaves the memory', async (t, load) => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const model = await load(t);
  const apps = await Promise.all(Array.from({ length: 3 }, async () => {
    const app = createServer(model);
    const server = createHttpServer(app).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const ask = async (): Promise<Response> => await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/completions`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ prompt: 'x', max_tokens: 64, ignore_eos: true, stream: true }),
    });
    const running = await ask();
    app.close();
    t.match(await (await ask()).json(), { error: { code: 'shutting_down' } });
    t.match(await running.text(), /data: \[DONE\]/);
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
    return new WeakRef(app);
  }));
  await until(() => {
    gc();
    return apps.every((app) => app.deref() === undefined);
  });
  t.equal((await model.complete('x', { maxTokens: 2 })).usage.completionTokens, 2, 'the model stays');
});

t.test('what an app stored is removed when it is closed and its last answer has ended', async (t) => {
  const model = await loadModel('builtin', { isolated: false });
  t.teardown(() => model.dispose());
  const temporary = t.testdir();
  const usual = process.env['TMPDIR'];
  process.env['TMPDIR'] = temporary;
  t.teardown(() => {
    if (usual === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = usual;
  });
  const app = createServer(model);
  const url = await urlOf(t, app.listen(0, '127.0.0.1'));
  const ask = async (more: object) => await fetch(`${url}/v1/responses`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ input: 'Hello', max_output_tokens: 4, ...more }),
  });
  const { id } = await (await ask({})).json() as { id: string };
  const left = (): string[] => readdirSync(temporary).filter((name) => name.startsWith('recua-kept-'));
  t.equal(left().length, 1);
  const running = await ask({ stream: true, previous_response_id: id, max_output_tokens: 64 });
  app.close();
  t.match(await running.text(), /response\.(completed|incomplete)/);
  await until(() => left().length === 0);
  const gone = await fetch(`${url}/v1/responses/${id}`);
  t.match(await gone.json(), { error: { code: 'shutting_down' } });
  t.strictSame(left(), []);
});

inBothModes('a body that the program has read before is an error', async (t, load) => {
  const app = express();
  app.use(express.json(), createServer(await load(t)));
  const url = await urlOf(t, app.listen(0, '127.0.0.1'));
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"messages": []}', signal: AbortSignal.timeout(10_000),
  });
  t.match(await reply.json(), { error: { code: 'invalid_json', message: /before express\.json\(\)/ } });
});

inBothModes("values in the program's res.locals change nothing, and open no door", async (t, load) => {
  const app = express();
  const theirs = Object.fromEntries(['apiKey', 'isStranger', 'body', 'facts', 'errorShape', 'pageRefusal', 'leaveRunning'].map((name) => [name, 'theirs']));
  app.use((_, res, next) => {
    Object.assign(res.locals, theirs);
    res.once('close', () => t.match(res.locals, theirs, 'nor are they changed'));
    next();
  });
  app.use(createServer(await load(t), { apiKey: 'secret' }));
  const url = await urlOf(t, app.listen(0, '127.0.0.1'));
  const ask = async (headers: Record<string, string>) => await fetch(`${url}/v1/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{"prompt": "Hello", "max_tokens": 2}',
  });
  const refused = await ask({});
  t.equal(refused.status, 401);
  t.match(await refused.json(), { error: { code: 'invalid_api_key' } });
  t.match(await (await ask({ authorization: 'Bearer secret' })).json(), { usage: { completion_tokens: 2 } });
});

inBothModes('the app is a handler for node:http, and can listen by itself', async (t, load) => {
  const model = await load(t);
  const options = { maxTokens: 3, temperature: 0 };
  const post = async (url: string) => await (await fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello!' }] }),
  })).json() as { usage: { completion_tokens: number }; choices: { message: { content: string } }[] };
  const first = await post(await urlOf(t, createHttpServer(createServer(model, options)).listen(0, '127.0.0.1')));
  t.equal(first.usage.completion_tokens, 3);
  const second = await post(await urlOf(t, createServer(model, options).listen(0, '127.0.0.1')));
  t.equal(second.choices[0].message.content, first.choices[0].message.content);
  const before = model.listenerCount('ready');
  createServer(model);
  t.equal(model.listenerCount('ready'), before, 'Node warns of no leak, however many apps there are');
});

inBothModes('only a loaded model and known options are accepted', async (t, load) => {
  const model = await load(t);
  t.throws(() => createServer({} as Model), { code: 'invalid_type', param: 'model' });
  t.throws(() => createServer(model, { port: 8080 } as object), { code: 'invalid_value', param: 'port' });
  t.throws(() => createServer(model, { temperature: 101 }), { code: 'invalid_value', param: 'temperature' });
  t.throws(() => createServer(model, { apiKey: '' }), { code: 'invalid_value', param: 'apiKey' }, 'not a server that is open to everyone');
  t.throws(() => createServer(model, { alias: 'a\nb' }), { code: 'invalid_value', param: 'alias' });
});

inBothModes('the app is a handler for node:https', async (t, load) => {
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  const app = createServer(await load(t));
  const url = await urlOf(t, createHttpsServer({ cert: readFileSync(tlsCert), key: readFileSync(tlsKey) }, app).listen(0, '127.0.0.1'));
  t.match(await getSecurely(`${url.replace('http', 'https')}/v1/models`, ca), { status: 200, text: /builtin/ });
});

t.test('RecuaError works with instanceof', async (t) => {
  t.ok(new RecuaError('closed', 'x') instanceof Error);
});
