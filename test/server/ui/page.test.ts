import t from 'tap';
import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { WebFile } from '#recua/server/ui/web-files.js';
import { startApp } from '../app-under-test.js';

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

/** The raw bytes: fetch would decompress them, and set its own Accept header. */
function get(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<{ status: number; headers: Record<string, any>; body: Buffer }> {
  return new Promise((resolve, reject) => {
    request(url, { method, headers }, (res) => {
      const parts: Buffer[] = [];
      res.on('data', (part: Buffer) => parts.push(part));
      res.on('end', () => resolve({ status: res.statusCode!, headers: res.headers, body: Buffer.concat(parts) }));
    }).on('error', reject).end();
  });
}

t.test('browsers get the page at /, and programs get the old reply', async (t) => {
  const { url } = await startApp(t);
  const page = await get(`${url}/`, html);
  t.equal(page.status, 200);
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  t.match(page.body.toString(), /^<!doctype html>/);
  t.match(page.headers['vary'], /Accept/);
  const program = await get(`${url}/`, { accept: '*/*' });
  t.match(program.body.toString(), /^Recua is running\./);
  t.equal((await get(`${url}/`)).headers['content-security-policy'], undefined);
});

t.test('every file of web/ is served under /ui/ as it is', async (t) => {
  const { url } = await startApp(t);
  const folder = new URL('../../../web/', import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/')).filter((name) => /\.(js|css|svg|png|webmanifest)$/.test(name));
  t.ok(files.length > 30, 'they are there');
  for (const name of files) {
    const { status, headers } = await get(`${url}/ui/${name}`);
    t.equal(status, 200, name);
    t.equal(headers['x-content-type-options'], 'nosniff');
  }
  t.match((await get(`${url}/ui/main.js`)).headers, { 'content-type': /^text\/javascript/ });
});

t.test('no path leads out of the folder', async (t) => {
  const { url } = await startApp(t);
  for (const path of ['/ui/../package.json', '/ui/..%2fpackage.json', '/ui/%2e%2e/package.json', '/ui/', '/ui', '/ui//etc/passwd', '/ui/tsconfig.json', '/ui/index.html', '/ui/__proto__']) {
    const { status, body } = await get(url + path, html);
    t.equal(status, 404, path);
    t.equal(JSON.parse(body.toString()).error.code, 'route_not_found');
  }
});

t.test('the page may run its own files and ask its own server, nothing else', async (t) => {
  const { url } = await startApp(t);
  const { headers } = await get(`${url}/`, html);
  const policy = new Map(String(headers['content-security-policy']).split('; ').map((one) => [one.split(' ', 1)[0], one.slice(one.indexOf(' ') + 1)]));
  t.equal(policy.get('default-src'), "'none'");
  for (const name of ['script-src', 'style-src', 'connect-src', 'img-src']) t.equal(policy.get(name), "'self'", name);
  t.equal(policy.get('frame-ancestors'), "'none'");
  t.equal(policy.get('require-trusted-types-for'), "'script'");
  t.equal(policy.get('trusted-types'), 'recua-pdf');
  t.notMatch(String(headers['content-security-policy']), /unsafe|\*|https?:/);
});

t.test('a page of another site that opened this one has no hold on it', async (t) => {
  const { url } = await startApp(t);
  for (const [site, policy] of [[undefined, 'same-origin'], ['cross-site', 'same-origin'], ['same-site', 'same-origin'], ['same-origin', undefined], ['none', undefined]]) {
    const { headers } = await get(`${url}/`, { ...html, ...(site === undefined ? {} : { 'sec-fetch-site': site }) });
    t.equal(headers['cross-origin-opener-policy'], policy, `Sec-Fetch-Site: ${site}`);
    t.match(headers['vary'], /Sec-Fetch-Site/, 'caches keep them apart');
  }
});

t.test('files are compressed, and not sent again while unchanged', async (t) => {
  const { url } = await startApp(t);
  const plain = await get(`${url}/ui/main.js`);
  t.equal(plain.headers['content-encoding'], undefined);
  const packed = await get(`${url}/ui/main.js`, { 'accept-encoding': 'gzip, deflate, br' });
  t.equal(packed.headers['content-encoding'], 'br');
  t.strictSame(brotliDecompressSync(packed.body), plain.body);
  const gzipped = await get(`${url}/ui/main.js`, { 'accept-encoding': 'gzip' });
  t.strictSame(gunzipSync(gzipped.body), plain.body);
  t.not(gzipped.headers['etag'], packed.headers['etag'], 'other bytes have another name');
  const again = await get(`${url}/ui/main.js`, { 'accept-encoding': 'gzip', 'if-none-match': String(gzipped.headers['etag']) });
  t.equal(again.status, 304);
  t.equal(again.body.length, 0);
  const head = await get(`${url}/ui/main.js`, {}, 'HEAD');
  t.equal(head.headers['content-length'], String(plain.body.length));
  t.equal(head.body.length, 0);
});

t.test('a file that could not be compressed is compressed when it is asked for again', async (t) => {
  const file = new WebFile('text/plain', Buffer.from('a file of this test'));
  const { brotliCompress } = zlib;
  zlib.brotliCompress = ((_bytes: unknown, _options: unknown, done: (cause: Error) => void) => done(new Error('no memory'))) as unknown as typeof brotliCompress;
  syncBuiltinESMExports();
  const failed = file.packed('br');
  zlib.brotliCompress = brotliCompress;
  syncBuiltinESMExports();
  await t.rejects(failed, { message: 'no memory' });
  t.strictSame(brotliDecompressSync(await file.packed('br')), file.bytes);
});

t.test('everything the page can load is under 200 kB compressed, except the PDF reader', async (t) => {
  const { url } = await startApp(t);
  const folder = new URL('../../../web/', import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(js|css)$/.test(name));
  let sum = 0;
  let pdf = 0;
  for (const name of files) {
    const { length } = (await get(`${url}/ui/${name.replaceAll('\\', '/')}`, { 'accept-encoding': 'br' })).body;
    if (name.includes('pdf')) pdf += length;
    else sum += length;
  }
  t.ok(sum < 200_000, `${sum} bytes`);
  t.ok(pdf > 0 && pdf < 550_000, `${pdf} bytes`);
});

t.test('--no-ui leaves the API alone', async (t) => {
  const { url } = await startApp(t, { ui: false });
  t.match((await get(`${url}/`, html)).body.toString(), /^Recua is running\./);
  t.equal((await get(`${url}/ui/main.js`)).status, 404);
});

t.test('the page accepts the same numbers in its settings as the server', async (t) => {
  const { url } = await startApp(t);
  interface NumberSetting { name: string; step: string; min: number; max: number }
  const { numbers } = await import(new URL('../../../web/chat/asking.js', import.meta.url).href) as { numbers: NumberSetting[] };
  t.ok(numbers.length > 5, 'they are there');
  const statusOf = async (name: string, value: number): Promise<number> => {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1, [name]: value });
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    await response.text();
    return response.status;
  };
  for (const { name, step, min, max } of numbers) {
    for (const value of [min, max]) t.equal(await statusOf(name, value), 200, `${name} ${value}`);
    // The server takes seeds of 64 bits, the page those that JavaScript holds exactly.
    if (name !== 'seed') for (const value of [min - Number(step), max + Number(step)]) t.equal(await statusOf(name, value), 400, `${name} ${value}`);
    if (step === '1') t.equal(await statusOf(name, 2.5), 400, `${name} is a whole number`);
  }
});
