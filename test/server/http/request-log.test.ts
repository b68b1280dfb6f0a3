import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { hello, post, startApp, until } from '../app-under-test.js';
import { hang } from '../fake-engine.js';

const path = '/v1/chat/completions';
const secret = 'xyzzy';
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

t.test('the name of the API key is told, not the key', async (t) => {
  const { url, logged } = await startApp(t, { apiKey: secret });
  await (await post(url + path, hello, { authorization: `Bearer ${secret}` })).text();
  await until(() => logged.some((line) => /^info .* 200 by "key 1" of owner\/model \d+\+\d+ tokens, 0 cached, first after \d+ ms, \d+ ms$/.test(line)));
  await (await post(url + path, hello)).text();
  await until(() => logged.some((line) => /^info .* 401 invalid_api_key \d+ ms$/.test(line)));
  t.notOk(logged.some((line) => line.includes(secret)), 'no key');
});

t.test('a client that leaves, and an error within a stream, are told in the line', async (t) => {
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

t.test('what monitors ask every few seconds stays out of the log at info', async (t) => {
  const { url, logged, engine } = await startApp(t);
  await fetch(`${url}/health`);
  await fetch(`${url}/v1/health`);
  await fetch(url + path, { method: 'OPTIONS' });
  const lines = (): string[] => logged.filter((line) => / (GET|OPTIONS) /.test(line));
  await until(() => lines().length === 3);
  t.ok(lines().every((line) => line.startsWith('debug')));
  await engine.close();
  await fetch(`${url}/health`);
  await until(() => logged.some((line) => /^debug .* GET \/health 503 \d+ ms$/.test(line)));
});
