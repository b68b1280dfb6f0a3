import { gzipSync } from 'node:zlib';
import { request as httpRequest } from 'node:http';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { errorHeaders } from '#recua/server/http/error-reply.js';
import { hello, post, startApp } from './app-under-test.js';

t.test('an unknown route is a 404 in the shape of OpenAI', async (t) => {
  const { url } = await startApp(t);
  const res = await fetch(`${url}/v1/nothing`);
  t.equal(res.status, 404);
  t.match(await res.json(), { error: { code: 'route_not_found', type: 'not_found_error', param: null, message: /GET \/v1\/nothing in this API\.$/ } });
  for (const [path, meant] of [['/v1/chat/completion', '/v1/chat/completions'], ['/v1/v1/chat/completions', '/v1/chat/completions'], ['/v1/embedings', '/v1/embeddings'], ['/v1/chat', '/v1/chat/completions'],
    ['/api/xyzw', undefined], ['/api/pul', '/api/pull'], ['/v1', undefined]]) {
    const res = await fetch(url + path!, { method: 'POST' });
    const { error } = await res.json() as { error: { message: string } | string };
    t.equal(typeof error === 'string' ? error : error.message, `No route POST ${path} in this API.${meant === undefined ? '' : ` Did you mean ${meant}?`}`);
  }
  for (const [path, instead] of [['/api/create', /a models file .* gives a model its name/], ['/api/blobs/sha256:1', /a models file/], ['/api/push', /uploads no models\./]] as const) {
    t.match(await (await fetch(url + path, { method: 'POST' })).json(), { error: instead }, 'what other servers have');
  }
});

t.test('a wrong method is a 405 that names the right ones', async (t) => {
  const { url } = await startApp(t);
  for (const [method, path, allow] of [
    ['GET', '/v1/chat/completions', 'POST, OPTIONS'], ['DELETE', '/v1/embeddings', 'POST, OPTIONS'],
    ['POST', '/health', 'GET, HEAD, OPTIONS'], ['PUT', '/v1/models', 'GET, HEAD, OPTIONS'], ['POST', '/v1/models/a/b', 'GET, HEAD, OPTIONS'],
  ]) {
    const res = await fetch(url + path, { method });
    t.equal(res.status, 405, `${method} ${path}`);
    t.equal(res.headers.get('allow'), allow);
    t.match(await res.json(), { error: { code: 'method_not_allowed' } });
  }
});

t.test('HEAD answers where GET does, without a body', async (t) => {
  const { url } = await startApp(t);
  for (const path of ['/health', '/v1/health', '/v1/models', '/v1/models/default']) {
    const res = await fetch(url + path, { method: 'HEAD' });
    t.equal(res.status, 200, path);
    t.equal(await res.text(), '');
  }
});

t.test('every response carries CORS headers and a request id', async (t) => {
  const { url } = await startApp(t);
  const responses = [
    await fetch(`${url}/health`), await fetch(`${url}/nothing`), await fetch(`${url}/v1/embeddings`),
    await post(`${url}/v1/chat/completions`, '{'), await post(`${url}/v1/chat/completions`, hello),
    await post(`${url}/v1/chat/completions`, { ...hello, stream: true }),
  ];
  const ids = new Set<string | null>();
  for (const res of responses) {
    t.equal(res.headers.get('access-control-allow-origin'), '*');
    t.equal(res.headers.get('access-control-allow-methods'), 'GET, POST, PUT, DELETE, OPTIONS');
    const exposed = res.headers.get('access-control-expose-headers')!.split(', ');
    for (const one of ['x-request-id', 'request-id', 'etag']) t.ok(exposed.includes(one), one);
    t.match(res.headers.get('x-request-id'), /^req_[0-9a-f]{24}$/);
    ids.add(res.headers.get('x-request-id'));
    await res.text();
  }
  t.equal(ids.size, responses.length, 'no id twice');
});

t.test('a sane request id of the client is kept, another replaced', async (t) => {
  const { url } = await startApp(t);
  t.equal((await fetch(`${url}/health`, { headers: { 'x-request-id': 'trace-1.a:b' } })).headers.get('x-request-id'), 'trace-1.a:b');
  for (const bad of ['with space', 'x'.repeat(200), '"quoted"']) {
    t.match((await fetch(`${url}/health`, { headers: { 'x-request-id': bad } })).headers.get('x-request-id'), /^req_/);
  }
});

t.test('a preflight is a 204 that reflects the asked headers', async (t) => {
  const { url, engine } = await startApp(t);
  const asked = 'authorization,content-type,x-stainless-helper-method,baggage';
  const res = await fetch(`${url}/v1/chat/completions`, {
    method: 'OPTIONS',
    headers: { origin: 'https://example.org', 'access-control-request-method': 'POST', 'access-control-request-headers': asked },
  });
  t.equal(res.status, 204);
  t.equal(res.headers.get('access-control-allow-origin'), '*');
  t.equal(res.headers.get('access-control-allow-headers'), asked);
  t.match(res.headers.get('vary'), /Access-Control-Request-Headers/i);
  t.ok(Number(res.headers.get('access-control-max-age')) > 0);
  t.equal(engine.requests.length, 0);
});

t.test('bodies that are not JSON objects are 400s', async (t) => {
  const { url, engine } = await startApp(t);
  const cases: [string | Uint8Array<ArrayBuffer>, string][] = [
    ['', 'invalid_json'], ['{', 'invalid_json'], ['{"a":1}x', 'invalid_json'], ["{'a':1}", 'invalid_json'], ['NaN', 'invalid_json'],
    ['[]', 'invalid_type'], ['"text"', 'invalid_type'], ['1', 'invalid_type'], ['null', 'invalid_type'], ['{}', 'invalid_type'],
    [new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), 'invalid_json'],
    ['['.repeat(5_000_000), 'invalid_json'], ['{"a":'.repeat(200_000), 'invalid_json'],
    [`{"messages":${'['.repeat(101)}${']'.repeat(101)}}`, 'invalid_json'], [`[${'[],'.repeat(300_000)}[]]`, 'invalid_json'],
  ];
  for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
    for (const [body, code] of cases) {
      const res = await fetch(url + path, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      t.equal(res.status, 400, `${path} ${typeof body === 'string' ? body.slice(0, 20) : 'bytes'}`);
      t.equal((await res.json()).error.code, code);
    }
  }
  t.equal(engine.requests.length, 0);
});

t.test('brackets inside strings do not count as nesting', async (t) => {
  const { url } = await startApp(t);
  const content = `${'['.repeat(500)} \\ " {{{`;
  const res = await post(`${url}/v1/chat/completions`, { messages: [{ role: 'user', content }] });
  t.equal((await res.json()).choices[0].message.content, content);
});

t.test('a body over the limit is a 413, also if it is compressed or of unknown length', async (t) => {
  const { url } = await startApp(t, { bodyLimitBytes: 10_000 });
  const big = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(20_000) }] });
  const plain = await post(`${url}/v1/chat/completions`, big);
  t.equal(plain.status, 413);
  t.match(await plain.json(), { error: { code: 'body_too_large', message: /10000 bytes/ } });
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  t.equal((await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: new Uint8Array(gzipSync(big)), headers })).status, 413);
  const status = await new Promise((resolve, reject) => {
    const req = httpRequest(`${url}/v1/embeddings`, { method: 'POST', headers: { 'content-type': 'application/json' } }, (res) => {
      res.resume();
      resolve(res.statusCode);
    });
    req.on('error', reject);
    req.write(big);
    req.end(big);
  });
  t.equal(status, 413);
});

t.test('compressed JSON is read; a broken or unknown compression is refused', async (t) => {
  const { url } = await startApp(t);
  const send = (body: Buffer, encoding: string): Promise<Response> => fetch(`${url}/v1/chat/completions`, {
    method: 'POST', body: new Uint8Array(body), headers: { 'content-type': 'application/json', 'content-encoding': encoding },
  });
  t.equal((await send(gzipSync(JSON.stringify(hello)), 'gzip')).status, 200);
  const broken = await send(Buffer.from('not gzip'), 'gzip');
  t.equal(broken.status, 400);
  t.match(await broken.json(), { error: { code: 'invalid_json' } });
  const unknown = await send(Buffer.from('{}'), 'zstandard');
  t.equal(unknown.status, 415);
  t.match(await unknown.json(), { error: { code: 'unsupported_media_type' } });
});

t.test('a media type that is not JSON is a 415 that names the header to send', async (t) => {
  const { url, engine } = await startApp(t);
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/json; charset=utf-16']) {
    const res = await post(`${url}/v1/chat/completions`, hello, { 'content-type': type });
    t.equal(res.status, 415, type);
    t.match((await res.json()).error.message, /Content-Type: application\/json|charset "utf-16"/);
  }
  t.equal(engine.requests.length, 0);
  for (const type of ['application/json', 'application/json; charset=UTF-8', 'application/vnd.api+json', 'APPLICATION/JSON']) {
    t.equal((await post(`${url}/v1/chat/completions`, hello, { 'content-type': type })).status, 200, type);
  }
});

t.test('no request that a browser sends without a preflight starts work', async (t) => {
  const { url, engine } = await startApp(t);
  // What fetch(), forms and beacons of a page can send to any address: no content type, or one of
  // three.
  const bytes = new TextEncoder().encode(JSON.stringify(hello));
  for (const path of ['/v1/chat/completions', '/v1/embeddings', '/v1/rerank']) {
    for (const origin of [[], [['origin', 'https://example.org'] as [string, string]]]) {
      const none = await fetch(url + path, { method: 'POST', body: bytes, headers: origin });
      t.equal(none.status, 415, 'bytes without a type');
      t.match(await none.json(), { error: { code: 'unsupported_media_type', message: /without Content-Type.*"Content-Type: application\/json"/ } });
    }
  }
  const curl = await post(`${url}/v1/chat/completions`, hello, { 'content-type': 'application/x-www-form-urlencoded' });
  t.match((await curl.json()).error.message, /curl -d.*"Content-Type: application\/json"/);
  const empty = await fetch(`${url}/v1/chat/completions`, { method: 'POST' });
  t.match(await empty.json(), { error: { code: 'invalid_json' } }, 'nothing has no type');
  t.equal(engine.requests.length, 0);
});

t.test('a byte order mark before the JSON does no harm', async (t) => {
  const { url } = await startApp(t);
  t.equal((await post(`${url}/v1/chat/completions`, `\uFEFF${JSON.stringify(hello)}`)).status, 200);
});

t.test('keys like __proto__ and constructor stay plain data', async (t) => {
  const { url, engine } = await startApp(t);
  const body = '{"__proto__":{"stream":true,"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":1,'
    + '"chat_template_kwargs":{"__proto__":{"polluted":1}},"messages":[{"role":"user","content":"hi","__proto__":{"polluted":1}}]}';
  const res = await post(`${url}/v1/chat/completions`, body);
  t.equal(res.status, 200);
  t.match(res.headers.get('content-type'), /application\/json/, 'an inherited field is no field');
  t.equal(({} as { polluted?: number }).polluted, undefined);
  t.equal(engine.requests.length, 1);
});

t.test('what would only happen again asks for no retry', (t) => {
  for (const code of ['sandbox_unavailable', 'gpu_unavailable', 'model_too_large'] as const) t.match(errorHeaders(new RecuaError(code, 'x')), { 'x-should-retry': 'false' }, code);
  t.strictSame(errorHeaders(new RecuaError('model_crashed', 'x')), {});
  t.end();
});

t.test('a defect is a 500 whose text stays in the log', async (t) => {
  const app = await startApp(t);
  app.engine.chat = () => { throw new Error('secret /home/path'); };
  const res = await post(`${app.url}/v1/chat/completions`, hello);
  t.equal(res.status, 500);
  t.equal(res.headers.get('x-should-retry'), 'false');
  const text = await res.text();
  t.match(JSON.parse(text), { error: { code: 'internal_error', type: 'server_error' } });
  t.notMatch(text, /secret/);
  t.ok(app.logged.some((line) => line.startsWith('error') && line.includes('secret') && line.includes(String(res.headers.get('x-request-id')))));
});
