// What a web page of another site, and an address that is none, can do: nothing.
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { WebSocket } from 'ws';
import { savedChats } from '#recua/cli/serve/saved-chats.js';
import { hello, ownFolder, post, startApp } from './app-under-test.js';
import { FakeEngine } from './fake-engine.js';
import { FakePool } from './fake-pool.js';

t.test('a page of another site loads and unloads no model', async (t) => {
  const { url } = await startApp(t);
  const page = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' };
  for (const [path, body] of [['/models/load', { model: 'small' }], ['/models/unload', { model: 'small' }], ['/api/generate', { model: 'small', keep_alive: 0 }], ['/api/chat', { model: 'small', messages: [] }]] as const) {
    t.equal((await post(`${url}${path}`, body, page)).status, 403, path);
    t.not((await post(`${url}${path}`, body)).status, 403, `${path} from a program`);
  }
});

t.test('browsers let pages of localhost delete and write, and the server refuses other sites', async (t) => {
  const { url } = await startApp(t, {}, new FakeEngine(), { savedChats: savedChats(join(ownFolder(t), 'sessions')) });
  const upload = async (): Promise<string> => {
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob(['{}']), 'a.jsonl');
    return `/v1/files/${(await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json() as { id: string }).id}`;
  };
  await post(`${url}/sessions`, { name: 'a', session: { messages: [] } });
  const file = await upload();
  const asked = [['DELETE', file], ['DELETE', '/sessions/a'], ['PUT', '/sessions/a']] as const;
  for (const origin of ['https://evil.example', 'http://localhost:3000']) {
    for (const [method, path] of asked) {
      const preflight = await fetch(url + path, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': method } });
      t.ok(preflight.headers.get('access-control-allow-methods')?.split(', ').includes(method), `${method} ${path}`);
    }
  }
  const send = async (origin: string, method: string, path: string): Promise<number> => {
    const res = await fetch(url + path, { method, headers: { origin, 'if-match': '*', 'content-type': 'application/json' }, ...(method === 'PUT' ? { body: '{"name":"a"}' } : {}) });
    await res.text();
    return res.status;
  };
  for (const [method, path] of asked) t.equal(await send('https://evil.example', method, path), 403, `${method} ${path}`);
  for (const [method, path] of asked.toReversed()) t.equal(await send('http://localhost:3000', method, path), 200, `${method} ${path}`);
});

t.test('a page of another site does not decide how long a model stays', async (t) => {
  const pool = new FakePool('small');
  const { url } = await startApp(t, {}, new FakeEngine(), { pool });
  const page = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' };
  const rebound = { Origin: 'http://evil.example:8080', 'Sec-Fetch-Site': 'same-origin' };
  for (const headers of [page, rebound]) {
    for (const [path, body] of [['/v1/chat/completions', hello], ['/api/chat', { ...hello, stream: false }], ['/v1/responses', { input: 'x' }], ['/v1/embeddings', { input: 'x' }]] as const) {
      for (const keepAlive of [0, -1]) {
        const { warnings } = await (await post(url + path, { model: 'small', ...body, keep_alive: keepAlive }, headers)).json() as { warnings: string[] };
        t.match(warnings, [/^keep_alive changes nothing here: pages of other sites/], path);
      }
    }
    const background = await post(`${url}/v1/responses`, { model: 'small', input: 'x', background: true, stream: true, keep_alive: 0 }, headers);
    t.match(await background.text(), /response\.completed/);
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers });
    socket.on('message', (data) => {
      if (String(data as Buffer).includes('"type":"response.completed"')) socket.close();
    });
    await once(socket, 'open');
    socket.send(JSON.stringify({ type: 'response.create', model: 'small', input: 'x', keep_alive: 0 }));
    await once(socket, 'close');
  }
  t.equal(pool.keepAlives.length, 20);
  t.strictSame([...new Set(pool.keepAlives)], [undefined]);
  await post(`${url}/v1/chat/completions`, { model: 'small', ...hello, keep_alive: 0 }, { Origin: 'http://localhost:3000' });
  t.equal(pool.keepAlives.at(-1), 0, 'a page of this machine does');
});

/** A request with exactly these lines, as a program or a page that looks like one sends it. */
async function replyTo(url: string, line: string, ...headers: string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write([`${line} HTTP/1.1`, ...headers, 'Connection: close', '', ''].join('\r\n'));
  return await text(socket);
}

t.test('a page that looks like a program reads no files under a name that its site points here', async (t) => {
  const { url } = await startApp(t);
  for (const path of ['/v1/files', '/v1/batches', '/ui/requests', 'http://evil.example/v1/files']) {
    for (const host of ['evil.example', 'evil.example:8080', 'container', 'a.lan', '127.0.0.1.evil.example', 'localhost.evil.example.', 'a b']) {
      t.match(await replyTo(url, `GET ${path}`, `Host: ${host}`), /^HTTP\/1.1 403 [^]*does not answer to the host [^]*--allowed-hosts/, `${path} at ${host}`);
    }
    t.match(await replyTo(url, `GET ${path}`, 'Host: localhost.', 'Origin: http://localhost.', 'User-Agent: Mozilla/5.0'), /^HTTP\/1.1 200/, 'a name with a dot at its end');
    for (const host of ['localhost', 'localhost.', '127.0.0.1:1', '[::1]', '10.1.2.3']) t.match(await replyTo(url, `GET ${path}`, `Host: ${host}`), /^HTTP\/1.1 200/, `${path} at ${host}`);
  }
  t.match(await replyTo(url, 'GET /v1/models', 'Host: evil.example'), /^HTTP\/1.1 200/, 'models are for all');
});

t.test('a page of another server at the same address reads no files', async (t) => {
  const { url } = await startApp(t, { host: '0.0.0.0' });
  const reply = async (host: string, origin: string, ...more: string[]) => await replyTo(url, 'GET /v1/files', `Host: ${host}`, `Origin: ${origin}`, 'User-Agent: Mozilla/5.0', ...more);
  const own = [['10.1.2.3:8080', 'http://10.1.2.3:8080'], ['10.1.2.3', 'http://10.1.2.3'], ['10.1.2.3:443', 'https://10.1.2.3'], ['[fd00::1]:81', 'http://[fd00::1]:81']] as const;
  for (const [host, origin] of own) t.match(await reply(host, origin), /^HTTP\/1.1 200/, `${origin} at ${host}`);
  const others = [['10.1.2.3:8080', 'http://10.1.2.3:9'], ['10.1.2.3:8080', 'http://10.1.2.3'], ['10.1.2.3:8080', 'https://10.1.2.3'], ['[fd00::1]:81', 'http://[fd00::1]']] as const;
  for (const [host, origin] of others) t.match(await reply(host, origin), /^HTTP\/1.1 403 [^]*Only programs, and pages of this server/, `${origin} at ${host}`);
  t.match(await reply('10.1.2.3', 'https://10.1.2.3:8443', 'Sec-Fetch-Site: same-origin'), /^HTTP\/1.1 200/, 'behind a proxy that leaves out the port');
  t.match(await reply('10.1.2.3', 'https://10.1.2.3:8443', 'Sec-Fetch-Site: same-site'), /^HTTP\/1.1 403/);
  t.match(await reply('10.1.2.3:8080', 'http://localhost:9', 'Sec-Fetch-Site: cross-site'), /^HTTP\/1.1 200/, 'a page of the visitor\'s own machine');
});

t.test('listed names are the server\'s own, also for its page', async (t) => {
  const { url } = await startApp(t, { allowedHosts: 'models.example.com,.example.org' });
  t.match(await replyTo(url, 'GET /v1/files', 'Host: models.example.com'), /^HTTP\/1.1 200/);
  t.match(await replyTo(url, 'GET /v1/files', 'Host: a.example.org', 'Origin: http://a.example.org', 'Sec-Fetch-Site: same-origin'), /^HTTP\/1.1 200/);
  t.match(await replyTo(url, 'GET /v1/files', 'Host: a.example.org', 'Origin: http://b.example.org'), /^HTTP\/1.1 403/);
});

t.test('on a network programs may use names that no site can have', async (t) => {
  const { url } = await startApp(t, { host: '0.0.0.0' });
  for (const host of ['container:8080', 'box.local', 'box.lan', 'a.b.internal', 'box.home.arpa']) {
    t.match(await replyTo(url, 'GET /v1/files', `Host: ${host}`), /^HTTP\/1.1 200/, host);
    t.match(await replyTo(url, 'GET /v1/files', `Host: ${host}`, 'User-Agent: Mozilla/5.0'), /^HTTP\/1.1 403/, `a page at ${host}`);
  }
  t.match(await replyTo(url, 'GET /v1/files', 'Host: evil.example'), /^HTTP\/1.1 403/);
});

t.test('with API keys the key decides, under any name', async (t) => {
  const { url } = await startApp(t, { apiKey: 'secret' });
  t.match(await replyTo(url, 'GET /v1/files', 'Host: models.example.com'), /^HTTP\/1.1 401/);
  t.match(await replyTo(url, 'GET /v1/files', 'Host: models.example.com', 'Authorization: Bearer secret'), /^HTTP\/1.1 200/);
});

t.test('an address that is no URL is an ordinary one', async (t) => {
  const { url } = await startApp(t);
  const { hostname, port } = new URL(url);
  for (const path of ['http://x:99999/props', '//x:99999/props']) {
    const socket = connect(Number(port), hostname);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    t.notMatch(await text(socket), /^HTTP\/1.1 5/, path);
  }
});
