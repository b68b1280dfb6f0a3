// Restarts of the managed server: two at the same time, and without native code.
import t from 'tap';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { makeHome, until } from '../home.js';
import { recua } from '../recua.js';

t.test('a restart that waited for another one keeps what that one set, and the port', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1', '--parallel', '2'), { code: 0 });
  const { port } = home.record();
  const first = home.serve('restart', '--max-tokens', '77');
  await until(() => existsSync(home.places.startLock));
  t.match(await home.serve('restart', '--parallel', '1'), { code: 0, stderr: /Stopped the server/ });
  t.match(await first, { code: 0 });
  t.match(home.record(), { port, settings: { 'max-tokens': 77, parallel: 1 } });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('the server goes on if a restart finds no native code that loads, and secrets are not shown', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1', '--api-key', 'sk-hidden'), { code: 0 });
  const { identity: { pid } } = home.record();
  const env = { ...home.env, RECUA_ADDON: join(home.folder, 'missing.node') };
  t.match(await recua(['serve', 'restart'], '', { env }), { code: 1, stderr: /missing\.node/ });
  const status = await home.serve('status', '--json');
  t.match(JSON.parse(status.stdout), { state: 'running', pid, flags: { threads: 1 } });
  t.notMatch(status.stdout, 'sk-hidden');
  t.match(await home.serve('status'), { stdout: /^Flags +.*--threads=1/m });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('the server goes on if the port is taken at the new address', { skip: process.platform !== 'linux' && 'not every system has all of 127.0.0.0/8' }, async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1'), { code: 0 });
  const { port, identity: { pid } } = home.record();
  const other = createServer().listen(port, '127.0.0.2');
  t.teardown(() => other.close());
  await once(other, 'listening');
  t.match(await home.serve('restart', '--host', '127.0.0.2'), { code: 1, stderr: new RegExp(`${port}`) });
  t.match(home.record(), { identity: { pid } });
  t.match(await home.serve('status'), { code: 0 });
  other.close();
  t.match(await home.serve('restart', '--host', '127.0.0.2'), { code: 0 });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('the server goes on if the new log file cannot be written', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1', '--log-file', home.folder), { code: 1, stderr: /The log file .* cannot be written: it is a folder\./ });
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1'), { code: 0 });
  const { identity: { pid } } = home.record();
  t.match(await home.serve('restart', '--log-file', home.folder), { code: 1, stderr: /cannot be written: it is a folder\./ });
  t.match(home.record(), { identity: { pid } });
  t.match(await home.serve('stop'), { code: 0 });
});
