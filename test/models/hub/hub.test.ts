import t from 'tap';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { FakeHub, commit, modelBytes } from '../fake-hub.js';
import type { FakeFile, FakeRepo } from '../fake-hub.js';
import { blobs, isInstalled, oneFile, pull, snapshotOf } from '../hub-pull.js';
import { parseBounded } from '#recua/models/hub/bounded-json.js';

const file: FakeFile = { path: 'm-Q8_0.gguf', bytes: modelBytes(100_000) };
const repos = (): FakeRepo[] => [
  { name: 'owner/model', files: [file] },
  { name: 'owner/private', files: [file], privacy: 'private', members: ['member'] },
  { name: 'owner/gated', files: [file], privacy: 'gated', members: ['member'] },
];

t.test('each refusal has its own sentence and says what to do', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const cases: [args: string[], token: string, says: RegExp][] = [
    [['owner/none'], '', /There is no repository owner\/none at http:\/\/127\.0\.0\.1:\d+, or it is private: check the name, or set HUB_TOKEN/],
    [['owner/private'], '', /There is no repository owner\/private .* or it is private: .*set HUB_TOKEN/],
    [['owner/private'], 'stranger', /or it is private and the access token may not see it\. Check the name and the token/],
    [['owner/model'], 'bad', /does not accept the access token \("Invalid credentials in Authorization header"\)\. Set HUB_TOKEN to a valid one/],
    [['owner/model'], 'two words', /Expected an access token, like hf_ and letters, in HUB_TOKEN; its value contains blanks/],
    [['owner/gated:Q8_0'], '', /owner\/gated is open only to those who accepted its license\. Accept it at http:\/\/127\.0\.0\.1:\d+\/owner\/gated, then set HUB_TOKEN/],
    [['owner/gated:Q8_0'], 'stranger', /does not let this access token read owner\/gated \("Access to model owner\/gated is restricted"\)\. Accept the license at http:\/\/127\.0\.0\.1:\d+\/owner\/gated/],
    [['owner/model@dev'], '', /owner\/model has no revision dev\. Expected a branch, tag or commit/],
    [['owner/model:Q9_0'], '', /owner\/model has no file or quantization Q9_0\. Did you mean Q8_0\?/],
    [['owner/model', '-f', 'm-Q8_O.gguf'], '', /has no file or quantization m-Q8_O\.gguf\. Did you mean m-Q8_0\.gguf\?/],
  ];
  for (const [args, token, says] of cases) {
    const folder = t.testdir({});
    const result = await pull(hub, folder, args, { HUB_TOKEN: token });
    t.equal(result.code, 1, args.join(' '));
    t.match(result.stderr, says);
    t.notMatch(result.stderr, / {4}at /, 'no stack trace');
    t.equal(result.stdout, '');
    const left = existsSync(join(folder, 'hub')) ? readdirSync(join(folder, 'hub'), { recursive: true }).map(String) : [];
    t.strictSame(left.filter((name) => name.endsWith('.gguf') || name.includes('.recua-partial')), [], 'neither a model nor a download that waits to go on');
  }
});

t.test('a hub that gives no reasons is understood as far as possible', async (t) => {
  const hub = await FakeHub.start(t, repos());
  hub.onApi = (_request, response, url) => {
    if (url.pathname === '/api/models/owner/model') return false;
    response.writeHead(404).end('Not Found');
    return true;
  };
  const folder = t.testdir();
  t.match((await pull(hub, folder, ['owner/model@dev'])).stderr, /owner\/model has no revision dev/);
  t.match((await pull(hub, folder, ['owner/none'])).stderr, /There is no repository owner\/none/);
});

t.test('a private repository is read with HUB_TOKEN, HF_TOKEN or the token file, in this order', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir({ token: 'member\n' });
  for (const env of [{ HUB_TOKEN: 'member', HF_TOKEN: 'bad' }, { HF_TOKEN: 'member' }, {}] as Record<string, string>[]) {
    const result = await pull(hub, folder, ['owner/private'], env);
    t.equal(result.code, 0, result.stderr);
  }
  t.equal((await pull(hub, folder, ['owner/private'], { HUB_TOKEN: 'bad' })).code, 1, 'the variable wins over the file');
});

t.test('the token goes to the hub and never to the host it redirects to', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/gated:Q8_0'], { HUB_TOKEN: 'member' });
  t.equal(result.code, 0, result.stderr);
  t.ok(hub.requests.filter(({ server }) => server === 'hub').every(({ token }) => token === 'Bearer member'));
  const elsewhere = hub.requests.filter(({ server }) => server === 'cdn');
  t.ok(elsewhere.length > 0);
  t.strictSame(elsewhere.filter(({ token }) => token !== undefined), []);
  t.notMatch(result.stderr, /member/);
});

t.test('redirects on the hub are followed, relative ones too, but not forever', async (t) => {
  const hub = await FakeHub.start(t, repos());
  hub.onApi = (_request, response, url) => {
    if (url.pathname.includes('/old/')) response.writeHead(307, { Location: url.pathname.replace('/old/', '/owner/') + url.search }).end();
    else if (url.pathname.includes('/loop/')) response.writeHead(302, { Location: url.pathname }).end();
    else if (url.pathname.includes('/odd/')) response.writeHead(302, { Location: 'file:///etc/passwd' }).end();
    else if (url.pathname.includes('/named/')) response.writeHead(302, { Location: `http://ann:secret@${url.host}/` }).end();
    else return false;
    return true;
  };
  const folder = t.testdir();
  const moved = await pull(hub, folder, ['old/gated:Q8_0'], { HUB_TOKEN: 'member' });
  t.equal(moved.code, 0, moved.stderr);
  t.match((await pull(hub, folder, ['loop/model'])).stderr, /cannot be reached: it redirects more than 10 times/);
  for (const repo of ['odd', 'named']) {
    const before = hub.requests.length;
    t.match((await pull(hub, folder, [`${repo}/model`])).stderr, /it redirects to an invalid web address/, repo);
    t.equal(hub.requests.length - before, 1, 'such a redirect is not tried again');
  }
});

t.test('a busy or broken hub is retried, but not forever', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  let left = 0;
  let fault: (response: Parameters<FakeHub['onApi']>[1]) => unknown = () => undefined;
  let asked = 0;
  hub.onApi = (_request, response) => {
    asked++;
    if (left-- <= 0) return false;
    fault(response);
    return true;
  };
  for (const [name, answer] of [
    ['429', (response) => response.writeHead(429, { 'Retry-After': '0' }).end()],
    ['503', (response) => response.writeHead(503).end('<html>')],
    ['a cut', (response) => response.destroy()],
  ] as [string, typeof fault][]) {
    fault = answer;
    left = 2;
    const result = await pull(hub, folder, ['owner/model']);
    t.equal(result.code, 0, `${name}: ${result.stderr}`);
    t.equal(result.stderr.match(/; trying again in \d+ s\.$/gm)?.length, 2, 'each wait is announced');
    asked = 0;
    left = Infinity;
    const given = await pull(hub, folder, ['owner/model']);
    t.equal(given.code, 1);
    t.equal(asked, 4, `${name} is tried four times`);
    t.match(given.stderr, /wants fewer requests \(429\)\. Try again in 1 seconds|failed: it answered 503 for owner\/model@main\. Try again later|cannot be reached: the connection was cut/);
  }
  asked = 0;
  fault = (response) => response.writeHead(429, { 'Retry-After': '61' }).end();
  const later = await pull(hub, folder, ['owner/model']);
  t.match(later.stderr, /wants fewer requests \(429\)\. Try again in 61 seconds/);
  t.equal(asked, 1, 'more than a minute is not waited for');
  fault = (response) => response.writeHead(429, { 'Retry-After': '9'.repeat(23) }).end();
  t.match((await pull(hub, folder, ['owner/model'])).stderr, /Try again in more than a day/);
});

t.test('invalid answers are reported as such', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const answers: [body: unknown, says: RegExp][] = [
    ['<!doctype html><title>Log in</title>', /Expected JSON from 127\.0\.0\.1:\d+, got a web page: perhaps a login page of this network/],
    ['GGUF', /Expected JSON from .*, got something else/],
    [{ sha: 5 }, /Expected the description of a revision of owner\/model/],
    [{ sha: '../../../etc' }, /Expected the description of a revision of owner\/model/],
    [null, /Expected the description of a revision of owner\/model/],
  ];
  for (const [body, says] of answers) {
    hub.onApi = (_request, response) => Boolean(response.writeHead(200).end(typeof body === 'string' ? body : JSON.stringify(body)));
    const result = await pull(hub, folder, ['owner/model']);
    t.equal(result.code, 1);
    t.match(result.stderr, says);
    t.notMatch(result.stderr, / {4}at /, 'no stack trace');
  }
  hub.onApi = (_request, response, url) => url.pathname.includes('/tree/') && Boolean(response.writeHead(200).end('{"files":[]}'));
  t.match((await pull(hub, folder, ['owner/model'])).stderr, /Expected a list of files of owner\/model/);
  hub.onApi = (_request, response) => Boolean(response.writeHead(418).end(JSON.stringify({ error: 'I am\u001b[31m a \u202eteapot' })));
  const teapot = await pull(hub, folder, ['owner/model']);
  t.match(teapot.stderr, /answered 418 for owner\/model@main \("I am \[31m a teapot"\)/);
});

t.test('a listing of many pages is read whole, and only from the hub', async (t) => {
  const files = Array.from({ length: 23 }, (_, index) => ({ path: `m${String(index).padStart(2, '0')}-Q8_0.gguf`, bytes: modelBytes(100 + index) }));
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files }]);
  hub.pageSize = 5;
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model', '--json']);
  t.strictSame(JSON.parse(result.stdout).models.map(({ name }: any) => `${name}.gguf`), files.map(({ path }) => path));
  hub.onApi = (_request, response, url) => {
    if (url.pathname.includes('/tree/')) response.setHeader('Link', `<${hub.cdn}/api/models/owner/model/tree/x>; rel="next"`);
    return false;
  };
  hub.pageSize = 1000;
  const other = await pull(hub, folder, ['owner/model'], { HUB_TOKEN: 'member' });
  t.match(other.stderr, /continues its listing at another place, localhost:\d+; expected the same host/);
  t.strictSame(hub.requests.filter(({ server }) => server === 'cdn'), []);
});

t.test('names that would leave the store are skipped and named', async (t) => {
  const lfs = { oid: '1'.repeat(64), size: 5 };
  const names = ['../evil-Q8_0.gguf', '/etc/evil.gguf', 'a/../../evil.gguf', 'C:\\evil.gguf', 'a\\evil.gguf', '\\\\host\\evil.gguf', 'nul\0.gguf', 'con.gguf', 'a//b.gguf', './b.gguf',
    'x'.repeat(300), 'e\u001b[31mvil.gguf', 'dot./evil.gguf'];
  const listing: unknown[] = names.map((path) => ({ type: 'file', path, size: 5, lfs }));
  listing.push({ type: 'directory', path: 'sub' }, { type: 'file', path: 'fine-Q8_0.gguf', size: 5, lfs }, null, 'text', { type: 'file' },
    { type: 'file', path: 'h1.gguf', size: 5, lfs: { oid: '../../../x', size: 5 } }, { type: 'file', path: 'h2.gguf', size: 5, oid: '../x' },
    { type: 'file', path: 's1.gguf', size: -5, lfs: { oid: '1'.repeat(64) } }, { type: 'file', path: 's2.gguf', size: 1e300, oid: '1'.repeat(40) });
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [], listing }]);
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model', '--json']);
  t.equal(result.code, 0, result.stderr);
  const shown = JSON.parse(result.stdout);
  t.strictSame(shown.models.map(({ name }: any) => name), ['fine-Q8_0']);
  t.strictSame(shown.refused_names, [...names, 'an entry without a name', 'h1.gguf', 'h2.gguf', 's1.gguf', 's2.gguf']);
  const said = await pull(hub, folder, ['owner/model']);
  t.match(said.stderr, /left out files whose names cannot be stored: "\.\.\/evil-Q8_0\.gguf".* and 13 more/);
  t.notMatch(said.stderr, /\u001b/);
  for (const name of names.slice(0, 5)) t.not((await pull(hub, folder, ['owner/model', '-f', name])).code, 0, name);
  t.strictSame(readdirSync(folder), []);
});

t.test('without a network a cached file is used, and a missing one is an error', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  t.equal((await pull(hub, folder, ['owner/model:Q8_0'])).code, 0);
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  await once(closed, 'close');
  const cases: [env: Record<string, string>, says: RegExp][] = [
    [{ HF_ENDPOINT: `http://127.0.0.1:${port}` }, /127\.0\.0\.1:\d+ cannot be reached: the connection was refused \(ECONNREFUSED\)\. Check the network/],
    [{ HF_ENDPOINT: 'http://hub.invalid' }, /hub\.invalid cannot be reached: the name cannot be (found|looked up)/],
    [{ HF_HUB_OFFLINE: '1' }, /HF_HUB_OFFLINE is set, so .* cannot be fetched from the hub \(http\S+\)\. Unset it/],
    [{ HUB_TOKEN: 'bad' }, /does not accept the access token/],
  ];
  for (const [env, says] of cases) {
    const before = hub.requests.length;
    const there = await pull(hub, folder, ['owner/model:Q8_0'], env);
    t.equal(there.code, 0, there.stderr);
    t.equal(there.stdout, `${snapshotOf(folder, file.path)}\n`);
    t.match(there.stderr, says);
    t.match(there.stderr, /The model is already in the cache/);
    for (const args of [['owner/model:Q4_0'], ['owner/other:Q8_0'], ['owner/model:Q8_0', '--force'], ['owner/model']]) {
      const result = await pull(hub, folder, args, env);
      t.equal(result.code, 1, args.join(' '));
      t.match(result.stderr, says);
    }
    if ('HF_HUB_OFFLINE' in env) t.equal(hub.requests.length, before, 'nothing was asked at all');
  }
  t.ok(isInstalled(folder, file));
});

t.test('HF_ENDPOINT has to be an address', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  for (const endpoint of ['huggingface.co', 'ftp://hub', 'http://']) {
    const result = await pull(hub, folder, ['owner/model'], { HF_ENDPOINT: endpoint });
    t.equal(result.code, 2);
    t.match(result.stderr, /Expected an address like https:\/\/huggingface\.co for HF_ENDPOINT/);
  }
  for (const offline of ['', '1']) {
    const named = await pull(hub, folder, ['owner/model'], { HF_ENDPOINT: hub.endpoint.replace('//', '//ann:geheim@'), HF_HUB_OFFLINE: offline });
    t.match(named, { code: 2, stdout: '', stderr: /^recua: Expected HF_ENDPOINT without a user name and a password/ });
    t.notMatch(named.stderr, 'geheim');
  }
  const slash = await pull(hub, folder, ['owner/model'], { HF_ENDPOINT: `${hub.endpoint}//` });
  t.equal(slash.code, 0, slash.stderr);
});

t.test('a download is pinned to its commit, whatever the branch does meanwhile', async (t) => {
  const hub = await FakeHub.start(t, oneFile(file));
  const folder = t.testdir();
  writeFileSync(join(folder, 'unused'), '');
  t.equal((await pull(hub, folder, ['owner/model:Q8_0'])).code, 0);
  t.ok(hub.requests.filter(({ url }) => url.includes('/resolve/')).every(({ url }) => url.startsWith(`/owner/model/resolve/${commit}/`)));
});

t.test('a reply that would take far more memory than its bytes is refused unread', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const replies: Record<string, Buffer> = {
    'brackets': Buffer.alloc(12_000_000, '['),
    'braces': Buffer.alloc(12_000_000, '{"a":'),
    'empty lists': Buffer.from(`[${'[],'.repeat(4_000_000)}[]]`),
    'commas': Buffer.alloc(12_000_000, '[,'),
    'too long': Buffer.alloc(60_000_000, '['),
  };
  for (const [what, reply] of Object.entries(replies)) {
    for (const place of ['/revision/', '/tree/']) {
      hub.onApi = (_request, response, url) => url.pathname.includes(place) && Boolean(response.writeHead(200, { 'Content-Type': 'application/json' }).end(reply));
      // With so little memory, the parsed values would end the process.
      const result = await pull(hub, t.testdir(), ['owner/model'], { NODE_OPTIONS: '--max-old-space-size=96' });
      t.equal(result.code, 1, `${what} in ${place}: ${result.stderr}`);
      t.match(result.stderr, /Expected JSON from 127\.0\.0\.1:\d+, got something else/);
    }
  }
});

t.test('bounded JSON is JSON', (t) => {
  for (const value of [null, 1, 'a', ['"[{', '\\"[[', { a: [{ b: '\\' }] }], Array.from({ length: 1000 }, (_, i) => ({ path: `p${i}"`, lfs: { size: i } }))]) {
    t.strictSame(parseBounded(JSON.stringify(value)), value);
  }
  for (const text of ['', '"', '"\\', ']', '[1', '['.repeat(17) + ']'.repeat(17)]) t.throws(() => parseBounded(text), SyntaxError, text);
  t.strictSame(parseBounded(`"${'['.repeat(50)}"`), '['.repeat(50));
  t.end();
});

t.test('invalid entries of a listing are skipped, whatever they are', async (t) => {
  const sound = { type: 'file', path: 'm-Q8_0.gguf', size: 5000, oid: '0'.repeat(40), lfs: { oid: 'a'.repeat(64), size: 5000 } };
  const odd = [
    null, 5, 'file', [], {}, { type: 'file' }, { ...sound, path: { toString: 1 } }, { ...sound, path: null }, { ...sound, path: 7 }, { ...sound, path: ['m.gguf'] },
    { ...sound, path: 'a.gguf', lfs: { oid: { toString: 1 }, size: 5 } }, { ...sound, path: 'b.gguf', lfs: { ...sound.lfs, size: { valueOf: 1 } } },
    { ...sound, path: 'c.gguf', lfs: { ...sound.lfs, size: 1e300 } }, { ...sound, path: 'd.gguf', lfs: 'x' }, { ...sound, path: 'e.gguf', lfs: { ...sound.lfs, size: -1 } },
    { ...sound, path: `${'x'.repeat(10_000)}.gguf` }, { ...sound, path: 'f.gguf', oid: { toString: null }, lfs: null },
  ];
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [], listing: [...odd, sound] }]);
  const result = await pull(hub, t.testdir(), ['owner/model', '--json']);
  t.equal(result.code, 0, result.stderr);
  const { models, refused_names: refused } = JSON.parse(result.stdout) as { models: { name: string }[]; refused_names: string[] };
  t.strictSame(models.map(({ name }) => name), ['m-Q8_0']);
  t.ok(refused.every((name) => name.length <= 800));
  t.ok(refused.includes('an entry without a name'));
});

t.test('a listing of tens of thousands of files is shown, and a larger one is refused', async (t) => {
  const entry = (path: string) => ({ type: 'file', path, size: 5000, oid: '0'.repeat(40), lfs: { oid: 'a'.repeat(64), size: 5000 } });
  const listing = [entry('m-Q8_0.gguf'), ...Array.from({ length: 30_000 }, (_, i) => entry(`logs/run-${i}.json`)),
    ...Array.from({ length: 10_000 }, (_, i) => entry(`big-F16-${String(i + 1).padStart(5, '0')}-of-10000.gguf`))];
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [], listing }]);
  hub.pageSize = 10_000;
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model']);
  t.equal(result.code, 0, result.stderr);
  t.match(result.stdout, /m-Q8_0\.gguf/);
  t.match((await pull(hub, folder, ['owner/model', '-f', 'nothing.gguf'])).stderr, /has no file or quantization nothing\.gguf/);
  hub.pageSize = 300_000;
  hub.repos[0]!.listing = new Array(200_001).fill({});
  t.match((await pull(hub, folder, ['owner/model'])).stderr, /Expected at most 200000 files of owner\/model/);
});

t.test('a hub that trickles is given up', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const trickle = (response: ServerResponse) => {
    const timer = setInterval(() => response.write(' '), 20);
    response.once('close', () => clearInterval(timer));
  };
  hub.onApi = (_request, response, url) => {
    if (!url.pathname.includes('/tree/')) return false;
    response.writeHead(200, { 'Content-Type': 'application/json' });
    trickle(response);
    return true;
  };
  const env = { RECUA_TEST_STALL_MS: '200' };
  t.match((await pull(hub, t.testdir(), ['owner/model'], env)).stderr, /cannot be reached: it sent nothing, or next to nothing, for 0\.2 seconds/);
  // Fast enough to avoid the silence timeout, but endless.
  hub.onApi = (_request, response, url) => {
    if (!url.pathname.includes('/tree/')) return false;
    response.writeHead(200, { 'Content-Type': 'application/json' });
    const timer = setInterval(() => response.write(' '.repeat(2000)), 20);
    response.once('close', () => clearInterval(timer));
    return true;
  };
  t.match((await pull(hub, t.testdir(), ['owner/model'], env)).stderr, /cannot be reached: it sends its answer so slowly that it may never end/);
  hub.onApi = () => false;
  hub.onBytes = ({ response, range, file: { bytes } }) => {
    response.writeHead(206, { ETag: '"cdn-etag"', 'Content-Range': `bytes ${range!.from}-${range!.to - 1}/${bytes.length}`, 'Content-Length': range!.to - range!.from });
    let at = range!.from;
    const timer = setInterval(() => response.write(bytes.subarray(at, ++at)), 20);
    response.once('close', () => clearInterval(timer));
    return true;
  };
  const result = await pull(hub, t.testdir(), ['owner/model:Q8_0', '--connections', '1'], { RECUA_TEST_STALL_MS: '100' });
  t.equal(result.code, 1);
  t.match(result.stderr, /could not be downloaded: .*it sent nothing, or next to nothing, for 0\.1 seconds, 10 times in a row/);
});

t.test('a host that cuts off after each byte is given up', async (t) => {
  const hub = await FakeHub.start(t, repos());
  hub.onBytes = async (piece) => {
    const { response, range, file: { bytes } } = piece;
    response.writeHead(206, { ETag: '"cdn-etag"', 'Content-Range': `bytes ${range!.from}-${range!.to - 1}/${bytes.length}`, 'Content-Length': range!.to - range!.from });
    await hub.send(piece, range!.from, range!.from + 1);
    response.destroy();
    return true;
  };
  const result = await pull(hub, t.testdir(), ['owner/model:Q8_0', '--connections', '1']);
  t.equal(result.code, 1);
  t.match(result.stderr, /could not be downloaded: .*10 times in a row/);
  t.ok(hub.pieces.length <= 40, `${hub.pieces.length} requests`);
});

t.test('a GGUF file shorter than its header is refused before it is requested', async (t) => {
  const empty: FakeFile = { path: 'm-Q8_0.gguf', bytes: Buffer.alloc(0) };
  const short: FakeFile = { path: 's-Q4_0.gguf', bytes: Buffer.from('GGUF\x03') };
  const part: FakeFile = { path: 'p-F16-00002-of-00002.gguf', bytes: Buffer.alloc(0) };
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [empty, short, part, { path: 'p-F16-00001-of-00002.gguf', bytes: modelBytes(5000) }] }]);
  for (const word of ['Q8_0', 'Q4_0', 'F16']) {
    const folder = t.testdir();
    const result = await pull(hub, folder, [`owner/model:${word}`]);
    t.equal(result.code, 1, word);
    t.match(result.stderr, /Expected a GGUF file for owner\/model\/\S+, but it has \d bytes at the hub\. Nothing was downloaded/);
    t.strictSame(blobs(folder), []);
  }
  t.equal(hub.pieces.length, 0);
});
