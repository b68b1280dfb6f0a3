import t from 'tap';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, request as ask } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { FakeHub, modelBytes } from '../fake-hub.js';
import type { FakeFile } from '../fake-hub.js';
import { isInstalled, oneFile, pull } from '../hub-pull.js';

const file: FakeFile = { path: 'm-Q8_0.gguf', bytes: modelBytes(200_000) };

interface Proxy {
  url: string;
  /** `GET http://…` and `CONNECT host:port`, in order. */
  seen: { line: string; login: string | undefined }[];
  /** Instead of doing it. */
  answer: number | undefined;
}

/** A proxy like those of companies: absolute addresses for http, CONNECT for https. */
async function startProxy(t: { teardown(end: () => void): unknown }): Promise<Proxy> {
  const note = (request: IncomingMessage) => proxy.seen.push({ line: `${request.method} ${request.url}`, login: request.headers['proxy-authorization'] });
  const server = createServer((request, response) => {
    note(request);
    if (proxy.answer !== undefined) {
      response.writeHead(proxy.answer).end();
      return;
    }
    const onward = ask(request.url!, { method: request.method!, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  server.on('connect', (request: IncomingMessage, socket) => {
    note(request);
    socket.on('error', () => undefined);
    if (proxy.answer !== undefined) {
      socket.end(`HTTP/1.1 ${proxy.answer} No\r\n\r\n`);
      return;
    }
    const [host, port] = request.url!.split(':');
    const onward = connect(Number(port), host!, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const proxy: Proxy = { url: `http://ana:geheim@127.0.0.1:${(server.address() as AddressInfo).port}`, seen: [], answer: undefined };
  return proxy;
}

t.test('HTTP_PROXY is used, and NO_PROXY respected', async (t) => {
  const hub = await FakeHub.start(t, oneFile(file));
  const proxy = await startProxy(t);
  const folder = t.testdir({ a: {}, b: {}, c: {} });
  const through = await pull(hub, join(folder, 'a'), ['owner/model:Q8_0'], { HTTP_PROXY: proxy.url });
  t.equal(through.code, 0, through.stderr);
  t.ok(isInstalled(join(folder, 'a'), file));
  t.equal(proxy.seen.length, hub.requests.length, 'every request went through it');
  t.ok(proxy.seen.every(({ line, login }) => /^(GET|HEAD) http:\/\/(127\.0\.0\.1|localhost):/.test(line) && login === `Basic ${Buffer.from('ana:geheim').toString('base64')}`));

  proxy.seen.length = 0;
  const around = await pull(hub, join(folder, 'b'), ['owner/model:Q8_0'], { HTTP_PROXY: proxy.url, NO_PROXY: 'example.com,127.0.0.1' });
  t.equal(around.code, 0, around.stderr);
  t.ok(proxy.seen.length > 0 && proxy.seen.every(({ line }) => line.includes('http://localhost:')), 'only the other host went through it');

  proxy.answer = 407;
  const refused = await pull(hub, join(folder, 'c'), ['owner/model'], { HTTP_PROXY: proxy.url });
  t.equal(refused.code, 1);
  t.match(refused.stderr, /127\.0\.0\.1:\d+ through the proxy http:\/\/127\.0\.0\.1:\d+ cannot be reached: the proxy requires a user name and password \(407\)/);
  t.notMatch(refused.stderr, /geheim/, 'no password is shown');
});

t.test('HTTPS goes through a CONNECT proxy, with a CA of its own in NODE_EXTRA_CA_CERTS', async (t) => {
  const folder = t.testdir({ a: {}, b: {}, c: {} });
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert, '-days', '2',
      '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { stdio: 'ignore' });
  } catch {
    await t.test('a certificate', { skip: 'making one takes openssl' }, () => undefined);
    return;
  }
  const hub = await FakeHub.start(t, oneFile(file), { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') });
  const proxy = await startProxy(t);
  const env = { HTTPS_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: cert };
  const through = await pull(hub, join(folder, 'a'), ['owner/model:Q8_0'], env);
  t.equal(through.code, 0, through.stderr);
  t.ok(isInstalled(join(folder, 'a'), file));
  t.ok(proxy.seen.some(({ line }) => line.startsWith('CONNECT 127.0.0.1:')));
  t.ok(proxy.seen.some(({ line }) => line.startsWith('CONNECT localhost:')));
  t.ok(proxy.seen.every(({ line }) => line.startsWith('CONNECT ')));

  const distrusted = await pull(hub, join(folder, 'b'), ['owner/model'], { HTTPS_PROXY: proxy.url });
  t.equal(distrusted.code, 1);
  t.match(distrusted.stderr, /cannot be reached: self.signed certificate.*set NODE_EXTRA_CA_CERTS to the file with its CA certificate/);

  proxy.answer = 403;
  const refused = await pull(hub, join(folder, 'c'), ['owner/model'], env);
  t.match(refused.stderr, /cannot be reached: the proxy answers 403 No \(PROXY_REFUSED\)\. Expected a proxy that lets this through/);
});

t.test('an invalid proxy address is an error', async (t) => {
  const hub = await FakeHub.start(t, oneFile(file));
  const result = await pull(hub, t.testdir(), ['owner/model'], { HTTP_PROXY: 'socks5://127.0.0.1:1' });
  t.equal(result.code, 1);
  t.match(result.stderr, /the proxy variable of the environment holds no http:\/\/ or https:\/\/ address/);
  t.equal(hub.requests.length, 0);
});
