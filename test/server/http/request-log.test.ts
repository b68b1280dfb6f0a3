import { createHash } from 'node:crypto';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { savedChats } from '#recua/cli/serve/saved-chats.js';
import { hello, post, startApp, until } from '../app-under-test.js';
import type { LogFields } from '#recua/server/http/gateway.js';
import { FakeEngine, hang } from '../fake-engine.js';

const path = '/v1/chat/completions';
const secret = 'xyzzy';
const keyName = `key ${createHash('sha256').update(secret).digest('hex').slice(0, 12)}`;
const body = { messages: [{ role: 'user', content: `the word is ${secret}` }] };

t.test('each request is one line at info: id, method, path, status, tokens, milliseconds, and no text', async (t) => {
  const { url, logged } = await startApp(t);
  const lines = (): string[] => logged.filter((line) => line.startsWith('info'));
  const send = async (to: string, what: unknown, id: string): Promise<void> => {
    const before = lines().length;
    await (await post(url + to, what, { 'x-request-id': id })).text();
    await until(() => lines().length > before);
  };
  await send(path, body, 'whole');
  await send(path, { ...body, stream: true }, 'stream');
  await send('/v1/embeddings', { input: secret }, 'embed');
  await send(path, { ...body, temperature: secret }, 'wrong');
  await send(path, { ...body, response_format: { type: secret } }, 'deep');
  await send(`${path}/${'x'.repeat(300)}?${secret}`, body, 'nowhere');
  t.same(lines().map((line) => line.replace(/\d+ ms/g, 'N ms')), [
    `info whole POST ${path} 200 of owner/model 1+4 tokens, 0 cached, first after N ms, N ms`,
    `info stream POST ${path} 200 of owner/model 1+4 tokens, 0 cached, first after N ms, N ms`,
    'info embed POST /v1/embeddings 200 of owner/model 5 tokens, N ms',
    `info wrong POST ${path} 400 invalid_type at temperature of owner/model N ms`,
    `info deep POST ${path} 400 invalid_value at response_format.type of owner/model N ms`,
    `info nowhere POST ${path}/${'x'.repeat(179)} 404 route_not_found N ms`,
  ]);
  t.notOk(logged.some((line) => line.includes(secret)), 'no word of a request');
});

t.test('a program that collects logs gets the same as fields', async (t) => {
  const lines: { text: string; fields: LogFields | undefined }[] = [];
  const { url, engine } = await startApp(t, { apiKey: secret }, new FakeEngine(), {
    log: (_level, text, fields) => void lines.push({ text, fields }),
  });
  const headers = { authorization: `Bearer ${secret}` };
  engine.finish = {
    usage: { promptTokens: 9, cachedTokens: 3, completionTokens: 4 },
    timings: { queueMs: 1.23456, promptMs: 2, generateMs: 4 },
  };
  await (await post(url + path, body, { ...headers, 'x-request-id': 'whole' })).text();
  await (await post(url + path, { ...body, n: 2 }, { ...headers, 'x-request-id': 'two' })).text();
  await (await post(url + path, { ...body, temperature: secret }, { ...headers, 'x-request-id': 'wrong' })).text();
  engine.early = new RecuaError('model_crashed', `It died of ${secret}.`);
  await (await post(url + path, body, { ...headers, 'x-request-id': 'crash' })).text();
  engine.early = undefined;
  engine.script = hang;
  const leaving = new AbortController();
  const gone = post(url + path, body, { ...headers, 'x-request-id': 'left' }, leaving.signal).catch(() => undefined);
  await until(() => engine.running.size === 1);
  leaving.abort();
  await gone;
  const of = (id: string): LogFields[] => lines.flatMap(({ fields }) => (fields?.['request_id'] === id ? [fields] : []));
  await until(() => ['whole', 'two', 'wrong', 'left'].every((id) => of(id).length === 1) && of('crash').length === 2);
  const told = (id: string): object => Object.fromEntries(Object.entries(of(id).at(-1)!).filter(([name, value]) => value !== undefined && !['duration_ms', 'first_ms'].includes(name)));
  const common = { method: 'POST', path, route: path, key: keyName, model: 'owner/model' };
  t.strictSame(told('whole'), { request_id: 'whole', ...common, status: 200, prompt_tokens: 9, completion_tokens: 4, cached_tokens: 3, queue_ms: 1.235, prompt_ms: 2, generate_ms: 4 });
  t.strictSame(told('two'), { request_id: 'two', ...common, status: 200, prompt_tokens: 18, completion_tokens: 8, cached_tokens: 6 });
  t.strictSame(told('wrong'), { request_id: 'wrong', ...common, status: 400, error: 'invalid_type' });
  t.strictSame(told('crash'), { request_id: 'crash', ...common, status: 500, error: 'model_crashed' });
  t.strictSame(told('left'), { request_id: 'left', ...common, cut_off: true });
  t.ok(of('whole').every(({ duration_ms: ms, first_ms: first }) => Number(ms) >= 0 && Number(first) >= 0));
  t.notMatch(JSON.stringify(lines.map(({ fields }) => fields)), new RegExp(secret), 'no word of a request, and no key');
});

t.test('the line has the name of the API key, not the key', async (t) => {
  const { url, logged } = await startApp(t, { apiKey: secret });
  await (await post(url + path, hello, { authorization: `Bearer ${secret}` })).text();
  await until(() => logged.some((line) => /^info .* 200 by "key [0-9a-f]{12}" of owner\/model \d+\+\d+ tokens, 0 cached, first after \d+ ms, \d+ ms$/.test(line)));
  await (await post(url + path, hello)).text();
  await until(() => logged.some((line) => /^info .* 401 invalid_api_key \d+ ms$/.test(line)));
  t.notOk(logged.some((line) => line.includes(secret)), 'no key');
});

t.test('strangers do not fill the list of recent requests', async (t) => {
  const { url, logged } = await startApp(t, { apiKey: secret });
  const headers = { authorization: `Bearer ${secret}` };
  await (await post(url + path, { ...hello, temperature: 'hot' }, headers)).text();
  const statuses: number[] = [];
  for (const to of [path, '/nowhere', '/health']) statuses.push((await post(url + to, hello)).status);
  statuses.push((await post(`${url}/nowhere`, hello, headers)).status);
  t.strictSame(statuses, [401, 401, 405, 404]);
  await until(() => logged.filter((line) => line.includes(' POST ')).length === 5);
  const { data } = await (await fetch(`${url}/ui/requests`, { headers })).json() as { data: object[] };
  t.match(data, [{ path, status: 400 }]);
  t.equal(data.length, 1);
});

t.test('neither the line nor the list of recent requests has the name of a saved chat', async (t) => {
  const { url, logged } = await startApp(t, {}, new FakeEngine(), { savedChats: savedChats(t.testdir()) });
  for (const asked of [`/sessions/2026-11-25-${secret}`, `/Sessions/${secret}/`, `/sessions/${secret}/more`]) await fetch(url + asked, { method: 'DELETE' });
  await until(() => logged.filter((line) => line.includes(' DELETE /sessions/:name ')).length === 3);
  const { data } = await (await fetch(`${url}/ui/requests`)).json() as { data: { method: string; path: string }[] };
  t.strictSame(data.map(({ method, path: shown }) => [method, shown]), Array.from({ length: 2 }, () => ['DELETE', '/sessions/:name']));
  t.notOk(logged.some((line) => line.includes(secret)));
});

t.test('the line reports a client that leaves, and an error within a stream', async (t) => {
  const { url, logged, engine } = await startApp(t);
  engine.script = hang;
  const leaving = new AbortController();
  const gone = post(url + path, hello, {}, leaving.signal).catch(() => undefined);
  await until(() => engine.running.size === 1);
  leaving.abort();
  await gone;
  await until(() => logged.some((line) => /^info .* cut off of owner\/model \d+ ms$/.test(line)));
  engine.script = async function* () {
    yield { content: 'x' };
    throw new RecuaError('model_crashed', 'It died.');
  };
  await (await post(url + path, { ...hello, stream: true })).text();
  await until(() => logged.some((line) => /^info .* 200 model_crashed of owner\/model first after \d+ ms, \d+ ms$/.test(line)));
});

t.test('the frequent requests of monitors and the page stay out of the log at info', async (t) => {
  const { url, logged, engine } = await startApp(t);
  await fetch(`${url}/health`);
  await fetch(`${url}/v1/health`);
  await fetch(`${url}/ui/main.js`);
  await fetch(`${url}/v1/models`, { headers: { 'sec-fetch-site': 'same-origin' } });
  await fetch(url + path, { method: 'OPTIONS' });
  const lines = (): string[] => logged.filter((line) => / (GET|OPTIONS) /.test(line));
  await until(() => lines().length === 5);
  t.ok(lines().every((line) => line.startsWith('debug')));
  await fetch(`${url}/v1/models`);
  await until(() => logged.some((line) => /^info .* GET \/v1\/models 200/.test(line)));
  await engine.close();
  await fetch(`${url}/health`);
  await until(() => logged.some((line) => /^debug .* GET \/health 503 \d+ ms$/.test(line)));
});
