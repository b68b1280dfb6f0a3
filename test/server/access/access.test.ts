// Over HTTP: which key gets in, in the format of each dialect.
import t from 'tap';
import { hello, post, startApp } from '../app-under-test.js';

const keys = { apiKey: 'owner', apiKeyFile: JSON.stringify([{ name: 'ann', key: 'guest' }]) };
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

t.test('health is open, and everything else needs a key', async (t) => {
  const { url, logged } = await startApp(t, keys);
  t.equal((await fetch(`${url}/health`)).status, 200);
  for (const [path, body] of [
    ['/v1/chat/completions', hello], ['/v1/responses', { input: 'hi' }], ['/v1/messages', { ...hello, max_tokens: 5 }], ['/api/chat', hello],
    ['/completion', { prompt: 'x' }], ['/v1/batches', {}], ['/v1/files', {}],
  ] as const) {
    const refused = await post(`${url}${path}`, body);
    t.equal(refused.status, 401, path);
    t.equal(refused.headers.get('www-authenticate'), 'Bearer realm="recua"');
    t.match(await refused.text(), /This server needs an API key/);
  }
  for (const path of ['/v1/models', '/props', '/slots', '/api/tags', '/api/version', '/no/such/route']) t.equal((await fetch(`${url}${path}`)).status, 401, path);
  const wrong = await post(`${url}/v1/chat/completions`, hello, bearer('guess'));
  t.match(await wrong.json(), { error: { code: 'invalid_api_key', type: 'invalid_request_error', message: /does not know this API key/ } });
  t.match(await (await post(`${url}/v1/messages`, hello)).json(), { type: 'error', error: { type: 'authentication_error' } });
  t.match(await (await post(`${url}/api/chat`, hello)).json(), { error: /needs an API key/ });
  t.notOk(logged.some((line) => /guess|owner|guest/.test(line)), 'the log has no key');
});

t.test('a key may come as clients of OpenAI, Anthropic and Azure send it', async (t) => {
  const { url } = await startApp(t, keys);
  for (const headers of [bearer('owner'), bearer('guest'), { authorization: 'bearer  guest' }, { 'x-api-key': 'guest' }, { 'api-key': 'guest' }]) {
    t.equal((await post(`${url}/v1/chat/completions`, hello, headers)).status, 200, JSON.stringify(headers));
  }
  const preflight = await fetch(`${url}/v1/chat/completions`, { method: 'OPTIONS', headers: { 'access-control-request-headers': 'authorization' } });
  t.equal(preflight.status, 204, 'a browser asks without a key whether it may send one');
});

t.test('a guest changes nothing for others, and a page with a key is no stranger', async (t) => {
  const { url } = await startApp(t, keys);
  const foreign = { origin: 'https://example.com', 'user-agent': 'Mozilla/5.0' };
  for (const path of ['/models/load', '/models/unload', '/api/pull', '/api/copy']) {
    const refused = await post(`${url}${path}`, { model: 'small' }, bearer('guest'));
    t.equal(refused.status, 403, path);
    t.match(await refused.text(), /The API key ann may only use models/);
    t.not((await post(`${url}${path}`, { model: 'small' }, bearer('owner'))).status, 403);
  }
  t.equal((await fetch(`${url}/v1/files`, { headers: foreign })).status, 401);
  t.equal((await fetch(`${url}/v1/files`, { headers: { ...foreign, ...bearer('guest') } })).status, 200);
});

t.test('requests of the server to itself need no key', async (t) => {
  const { url } = await startApp(t, keys);
  const begun = await (await post(`${url}/v1/responses`, { input: 'hi there', background: true }, bearer('guest'))).json() as { id: string };
  let status = '';
  while (!['completed', 'failed'].includes(status)) {
    const asked = await fetch(`${url}/v1/responses/${begun.id}`, { headers: bearer('guest') });
    ({ status } = await asked.json() as { status: string });
  }
  t.equal(status, 'completed');
});
