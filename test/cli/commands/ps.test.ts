import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import type { Test } from 'tap';
import { makeHome, until } from '../home.js';
import type { Home } from '../home.js';
import { Pty } from '../pty.js';
import { recua, start } from '../recua.js';
import type { Running } from '../recua.js';

const small = ['--port', '0', '-c', '512', '--threads', '1', '--parallel', '2', '--drain-timeout', '1'];
const endless = { messages: [{ role: 'user', content: 'Hello' }], stream: true, temperature: 2, max_tokens: 100_000, grammar: 'root ::= [a-z ] root' };

async function serve(t: Test, home: Home, ...args: string[]): Promise<{ url: string; running: Running }> {
  const running = start(['api', ...small, ...args], { env: home.env });
  t.teardown(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  return { url: (await running.saw(/Recua listens on (http:\/\/\S+)/))[1]!, running };
}

const call = (home: Home, ...args: string[]) => recua(args, '', { env: home.env });

/** The rows of a table, keyed by column heads. */
function table(text: string): Record<string, string>[] {
  const [head = [], ...rows] = text.trimEnd().split('\n').map((line) => line.split(/ {2,}/));
  return rows.map((cells) => Object.fromEntries(cells.map((cell, at) => [head[at]!, cell])));
}

/** One answer after another until the signal; each ends when its context is full. */
async function keepBusy(url: string, signal: AbortSignal): Promise<void> {
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify({ model: 'builtin', ...endless });
  while (!signal.aborted) {
    await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body, signal }).then((reply) => reply.text()).catch(() => undefined);
  }
}

t.test('ps without a server says so, and exits like serve status', async (t) => {
  const home = makeHome(t);
  t.match(await call(home, 'ps'), { code: 3, stdout: '', stderr: 'No server is running. Start one: recua serve start, or recua api.\n' });
  const { code, stdout } = await call(home, 'ps', '--json');
  t.equal(code, 3);
  t.strictSame(JSON.parse(stdout), { servers: [] });
  t.match(await call(home, 'ps', '--url', 'http://ann:wo/rd@127.0.0.1:1'), { code: 2, stderr: /got "http:\/\/127\.0\.0\.1:1"/ });
  t.match(await call(home, 'ps', '--url', 'http://ann:word@127.0.0.1:1'), { code: 2, stderr: /^recua: Expected an address without a user name and a password; a server takes a key: --api-key/ });
  t.match(await call(home, 'ps', '--url', '127.0.0.1:1'), { code: 1, stdout: '', stderr: /^recua: The server http:\/\/127\.0\.0\.1:1 refuses the connection/ });
  t.match(await call(home, 'ps', 'my model'), { code: 2, stderr: /recua show 'my model'\n$/ });
  t.match(await call(home, 'ps', '--url', 'ftp://ann:word@h'), { code: 2, stderr: /^recua: Expected an address without a user name/ });
  t.match(await call(home, 'ps', '--watch'), { code: 2, stderr: /Expected a terminal on stdout for --watch/ });
  t.match(await call(home, 'load', 'builtin'), { code: 1, stderr: /No server is running/ });
});

t.test('a server that is none of Recua\'s is told so, whatever JSON it answers', async (t) => {
  const home = makeHome(t);
  for (const answer of ['null', '7', '{"data": [{}]}', '{"data": 7}', '{"model": null}']) {
    const server = createServer((_, res) => res.end(answer)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const words of [['ps'], ['load', 'a'], ['unload', 'a']]) {
      t.match(await call(home, ...words, '--url', url), { code: 1, stdout: '', stderr: /it is not a Recua server, or has another version\.\n$/ }, `${words[0]}: ${answer}`);
    }
    server.close();
  }
});

t.test('a time that is no date is left out', async (t) => {
  const home = makeHome(t);
  const server = createServer((_, res) => res.end('{"data":[{"id":"one","expires_at":-1e300},{"id":"two","expires_at":1e300},{"id":"three","expires_at":0}]}')).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const found = await models(home, '--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.match(found, [{ name: 'one', expires_at: null }, { name: 'two', expires_at: '+275760-09-13T00:00:00.000Z' }, { name: 'three', expires_at: '1970-01-01T00:00:00.000Z' }]);
});

t.test('ps shows what the models of a server are doing', async (t) => {
  const home = makeHome(t);
  const { url } = await serve(t, home, '--keep-alive', '3600', '--ctx-size', '4096');
  t.match(await call(home, 'ps'), { code: 0, stdout: new RegExp(`^NAME [^\n]*\nNo model is loaded at ${url}\\. To list the models that can be: recua ps --all\n$`) });
  t.match(table((await call(home, 'ps', '--all')).stdout), [{ NAME: 'builtin', STATE: 'unloaded' }]);

  const gone = new AbortController();
  const busy = keepBusy(url, gone.signal);
  await until(async () => (await models(home))[0]?.tokens_per_second > 0);
  // Between two answers the model is idle for a moment.
  let found: any[] = [];
  await until(async () => {
    found = await models(home);
    return found[0].running === 1 && found[0].waiting === 0 && found[0].expires_at === null;
  });
  t.match(found, [{ name: 'builtin', state: 'loaded', waiting: 0, context: 4096, devices: [], pinned: false, reason: null, progress: null }]);
  await until(async () => /^builtin +loaded +\S+ MiB +CPU +4096 +1 +0 +\d+\.\d +in use$/m.test((await call(home, 'ps')).stdout));
  gone.abort();
  await busy;
  await until(async () => (await models(home))[0].expires_at !== null);
  t.match((await models(home))[0].expires_at, /^\d{4}-/);
  t.match(table((await call(home, 'ps')).stdout), [{ UNTIL: /^in (1 hour|60 minutes)$/ }]);
});

async function models(home: Home, ...args: string[]): Promise<any[]> {
  return JSON.parse((await call(home, 'ps', '--json', ...args)).stdout).servers.flatMap((server: any) => server.models);
}

t.test('load and unload name the model if another server tells nothing about it', async (t) => {
  const home = makeHome(t);
  const other = createServer((req, res) => {
    res.setHeader('Content-Type', 'application/json');
    res.end(JSON.stringify(req.method === 'POST' ? { success: true } : { object: 'list', data: [{ id: 'one', object: 'model' }] }));
  }).listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  t.match(await call(home, 'load', 'one', '--url', url), { code: 0, stderr: new RegExp(`one is loaded at ${url}\n$`) });
  t.match(await call(home, 'unload', 'one', '--url', url), { code: 0, stderr: `one is no longer loaded at ${url}\n` });
});

t.test('models are loaded and unloaded by name, in the server that has them', async (t) => {
  const home = makeHome(t);
  const { url } = await serve(t, home);
  t.match(await call(home, 'load', 'builtin', '--keep-alive', '-1'), { code: 0, stdout: '', stderr: new RegExp(`^Loading builtin …\nbuiltin is loaded at ${url} \\(512 tokens of context, .* MiB\\)\n$`) });
  t.match(table((await call(home, 'ps')).stdout), [{ STATE: 'loaded', UNTIL: 'forever' }]);
  t.match(await call(home, 'load', 'bultin'), { code: 1, stderr: new RegExp(`recua: The server at ${url} says: The model "bultin" does not exist here\\. Did you mean "builtin"\\?`) });
  t.match(await call(home, 'load', 'nothing-like-it', 'builtin'), { code: 1, stderr: /does not exist[^]*builtin is loaded/ }, 'the others are loaded all the same');
  t.match(await call(home, 'unload', 'builtin'), { code: 0, stderr: `builtin is no longer loaded at ${url}\n` });
  t.strictSame(await models(home), []);
  t.match(await call(home, 'stop', 'builtin', '--url', url), { code: 0, stderr: `builtin was not loaded at ${url}\n` }, 'no error');
  t.match(await call(home, 'stop'), { code: 2, stderr: /recua unload <model>….*To stop the server itself: recua serve stop/ });
});

t.test('load and unload do not wait for a server that is stuck', async (t) => {
  const home = makeHome(t);
  const { url, running } = await serve(t, home);
  running.child.kill('SIGSTOP');
  t.teardown(() => running.child.kill('SIGCONT'));
  const [loaded, unloaded] = await Promise.all(['load', 'unload'].map((verb) => call(home, verb, 'builtin')));
  for (const one of [loaded, unloaded]) t.match(one, { code: 1, stderr: `recua: The server ${url} did not answer within 10 seconds.` });
});

t.test('of several servers, the one that has the model is asked', async (t) => {
  const home = makeHome(t);
  const [one, other] = [await serve(t, home, 'builtin', '--alias', 'small'), await serve(t, home)];
  t.match(await call(home, 'load', 'small', '--keep-alive', '60'), { code: 0, stderr: /Note: keep_alive changes nothing here: this server has a single model[^\n]*\nsmall is loaded/ });
  t.match(await call(home, 'load', 'small'), { code: 0, stderr: new RegExp(`small is loaded at ${one.url} `) }, 'its only model is loaded already');
  t.match(await call(home, 'load', 'nothing-like-it', '--url', one.url), { code: 1, stderr: /does not exist here\. This server has only [^\n]* It was started with one model, and loads no other\. To serve every model/ });
  t.match(await call(home, 'unload', 'small'), { code: 1, stderr: new RegExp(`recua: The server at ${one.url} says: This server was started with one model, which is loaded as long as it runs`) });
  const rows = table((await call(home, 'ps', '--all')).stdout);
  t.strictSame(rows.map(({ NAME, SERVER, STATE, UNTIL }) => [NAME, SERVER, STATE, UNTIL]).sort(), [['builtin', other.url, 'unloaded', undefined], ['small', one.url, 'loaded', 'forever']]);
  // Now both have it, and one of them can load and unload it.
  const fixed = await serve(t, home, 'builtin');
  t.match(await call(home, 'load', 'builtin'), { code: 0, stderr: new RegExp(`builtin is loaded at ${other.url} `) });
  t.match(await call(home, 'unload', 'builtin'), { code: 0, stderr: `builtin is no longer loaded at ${other.url}\n` });
  fixed.running.child.kill('SIGKILL');
  await fixed.running.ended;
  t.match(await call(home, 'load', 'gpt-4'), { code: 2, stderr: /2 servers run, and none has gpt-4: http.*, http.*\. Name one with --url\./ });
  other.running.child.kill('SIGKILL');
  await other.running.ended;
  t.strictSame((await models(home)).map(({ name }) => name), ['small'], 'a killed server is not asked');
});

t.test('ps --watch updates on a terminal, and Ctrl-C ends it with 0', async (t) => {
  const home = makeHome(t);
  const { url } = await serve(t, home);
  const pty = new Pty(['ps', '--watch'], { env: home.env, columns: 120 });
  await pty.until(/No model is loaded at/);
  t.match(await call(home, 'load', 'builtin', '--url', url), { code: 0 });
  await pty.until(/builtin +loaded +\S+ MiB +CPU/);
  pty.type('\x03');
  t.match(await pty.ended, { exitCode: 0 });
  t.ok(pty.raw.endsWith('\x1b[?25h\x1b[?1049l'), 'the terminal is as it was');
  for (const [code, end] of [[143, (other: Pty) => other.kill('SIGTERM')], [129, (other: Pty) => other.hangUp()]] as const) {
    const other = new Pty(['ps', '--watch'], { env: home.env, columns: 120 });
    await other.until(/builtin +loaded/);
    end(other);
    t.equal((await other.ended).exitCode, code);
  }
});

t.test('Ctrl-C ends ps --watch although a server does not answer', async (t) => {
  const home = makeHome(t);
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  t.teardown(() => server.close().closeAllConnections());
  await once(server, 'listening');
  // Only Ctrl-C ends the waiting.
  const env = { ...home.env, NODE_OPTIONS: '--import=data:text/javascript,AbortSignal.timeout=()=>new(AbortController)().signal' };
  const pty = new Pty(['ps', '--watch', '--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}`], { env });
  t.teardown(() => pty.kill('SIGKILL'));
  await once(server, 'request');
  pty.type('\x03');
  const never = setTimeout(30_000, undefined, { ref: false });
  t.match(await Promise.race([pty.ended, never]), { exitCode: 0 });
});
