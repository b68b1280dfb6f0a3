// Pages that may use the server, and host names it accepts.
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { WebSocket } from 'ws';
import { Visitors } from '#recua/server/access/visitors.js';
import { hello, post, startApp, until } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const path = '/v1/chat/completions';

/** The status, and the headers. */
async function get(url: string, headers: Record<string, string>, method = 'GET'): Promise<{ status: number; granted: string | undefined; vary: string | undefined }> {
  return await new Promise((resolve, reject) => {
    request(url, { method, headers }, (res) => {
      res.resume();
      resolve({ status: res.statusCode!, granted: res.headers['access-control-allow-origin'], vary: res.headers.vary });
    }).on('error', reject).end();
  });
}

t.test('any page and any host name is let in by default', async (t) => {
  const { url } = await startApp(t);
  t.match(await get(`${url}/health`, { origin: 'https://anywhere.example', host: 'whatever.example' }), { status: 200, granted: '*', vary: undefined });
});

t.test('only listed pages, its own page and programs use the server', async (t) => {
  const { url } = await startApp(t, { corsOrigins: 'https://chat.example.com, http://localhost:3000' });
  for (const origin of ['https://chat.example.com', 'http://localhost:3000', url]) {
    t.match(await get(`${url}/v1/models`, { origin }), { status: 200, granted: origin, vary: /Origin/ }, origin);
    t.match(await get(`${url}${path}`, { origin, 'access-control-request-method': 'POST' }, 'OPTIONS'), { status: 204, granted: origin });
  }
  const asked = await fetch(`${url}/v1/files/x`, { method: 'OPTIONS', headers: { origin: 'http://localhost:3000', 'access-control-request-method': 'DELETE' } });
  t.match(asked.headers.get('access-control-allow-methods'), /DELETE/);
  for (const origin of ['https://evil.example', 'http://chat.example.com', 'https://chat.example.com.evil.example', 'http://localhost:3001', 'null', '']) {
    for (const method of ['GET', 'OPTIONS', 'POST']) t.match(await get(`${url}${path}`, { origin }, method), { status: 403, granted: undefined }, `${method} ${origin}`);
  }
  const refused = await post(url + path, hello, { origin: 'https://evil.example' });
  t.match(await refused.json(), { error: { code: 'client_refused', message: /"https:\/\/evil\.example" may not use this server; --cors-origins/ } });
  t.equal((await post(url + path, hello)).status, 200, 'programs say no origin');
});

t.test('an unknown host name is refused', async (t) => {
  const { url } = await startApp(t, { allowedHosts: 'models.example.com,.lan' });
  const { port } = new URL(url);
  for (const host of ['models.example.com', `models.example.com:${port}`, 'a.lan', 'localhost', `127.0.0.1:${port}`, '[::1]', '10.1.2.3', 'MODELS.example.com', 'models.example.com.']) {
    t.match(await get(`${url}/v1/models`, { host }), { status: 200 }, host);
  }
  for (const host of ['evil.example', 'models.example.com.evil.example', 'example.com', 'lan', 'alan', 'a b']) {
    t.match((await get(`${url}/v1/models`, { host })).status, 403, host);
  }
  const raw = async (head: string): Promise<string> => {
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(`${head}\r\n\r\n`);
    return await text(socket);
  };
  t.match(await raw('GET /health/ready HTTP/1.0'), /^HTTP\/1.1 200/, 'a health check without one');
  const two = 'GET /v1/models HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nhost: localhost';
  t.match(await raw(two), /^HTTP\/1.1 400 [^]*Expected one Host header, got 2/);
});

t.test('a health check that is refused is logged', async (t) => {
  const logged: string[] = [];
  const { url } = await startApp(t, { allowedHosts: 'models.example.com' }, new FakeEngine(), { log: (level, line) => logged.push(`${level} ${line}`) });
  await get(`${url}/health/ready`, { host: 'evil.example' });
  await until(() => logged.some((line) => /^info .*GET \/health\/ready 403/.test(line)));
});

t.test('a WebSocket of a page that is not listed is refused', async (t) => {
  const { url } = await startApp(t, { corsOrigins: 'https://chat.example.com' });
  const open = async (origin: string): Promise<string> => await new Promise((resolve) => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { origin });
    socket.once('open', () => resolve('open'));
    socket.once('unexpected-response', (_req, res) => resolve(String(res.statusCode)));
    socket.once('error', () => undefined);
    t.teardown(() => socket.terminate());
  });
  t.equal(await open('https://chat.example.com'), 'open');
  t.equal(await open('https://evil.example'), '403');
});

t.test('invalid lists are refused at the start', (t) => {
  const make = (corsOrigins: string, allowedHosts = '*') => () => new Visitors({ corsOrigins, allowedHosts, host: '127.0.0.1' });
  for (const wrong of ['chat.example.com', 'https://chat.example.com/path', 'https://a b', 'ftp']) t.throws(make(wrong), { code: 'invalid_usage', message: /--cors-origins/ }, wrong);
  for (const wrong of ['https://a.example', 'a.example:80', 'a b', '*.*.example']) t.throws(make('*', wrong), { code: 'invalid_usage', message: /--allowed-hosts/ }, wrong);
  for (const right of ['https://chat.example.com/', 'HTTP://Localhost:3000', 'vscode-webview://x', '*']) t.doesNotThrow(make(right), right);
  t.doesNotThrow(make('*', '*.example.com, a'));
  t.end();
});

t.test('a refusal has the shape of the API that was asked', async (t) => {
  const { url } = await startApp(t, { corsOrigins: 'https://chat.example.com' });
  const refused = async (path: string): Promise<unknown> => await (await post(url + path, hello, { origin: 'https://evil.example' })).json();
  t.match(await refused('/v1/messages'), { type: 'error', error: { type: 'permission_error', message: /may not use this server/ } });
  t.match(await refused('/api/chat'), { error: /may not use this server/ });
  t.match(await refused('/api/unheard-of'), { error: /may not use this server/ });
  t.match(await refused('/v1/completions'), { error: { code: 'client_refused' } });
});
