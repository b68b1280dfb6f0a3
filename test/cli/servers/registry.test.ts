import t from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { registerServer, runningServers } from '#recua/cli/servers/registry.js';
import { findPlaces } from '#recua/models/places.js';
import { ownIdentity } from '#recua/system/process-identity.js';
import { makeHome, until } from '../home.js';
import { recua, start } from '../recua.js';

const small = ['--port', '0', '-c', '512', '--threads', '1', '--parallel', '1'];

t.test('a server is found while it is registered, and only by its owner', async (t) => {
  const places = findPlaces({ SERVICE_HOME: t.testdir() });
  const folder = join(places.state, 'servers');
  t.strictSame(await runningServers(places), [], 'no folder is no server');
  const unregister = await registerServer({ url: 'http://127.0.0.1:1', managed: false }, places);
  t.match(await runningServers(places), [{ url: 'http://127.0.0.1:1', pid: process.pid, managed: false, startedAt: /^\d{4}-\d\d-\d\dT/ }]);
  const [name] = readdirSync(folder);
  for (const path of [folder, join(folder, name!)]) t.equal(statSync(path).mode & 0o077, 0);
  unregister();
  unregister();
  t.strictSame(await runningServers(places), []);
  t.strictSame(readdirSync(folder), []);
});

t.test('the managed server comes first, then the newest', async (t) => {
  const places = findPlaces({ SERVICE_HOME: t.testdir() });
  const folder = join(places.state, 'servers');
  mkdirSync(folder, { recursive: true });
  const identity = await ownIdentity();
  const servers = [['a', false, '2026-01-01'], ['b', true, '2026-01-02'], ['c', false, '2026-01-03']] as const;
  for (const [url, managed, day] of servers) writeFileSync(join(folder, `${url}.json`), JSON.stringify({ identity, url, managed, startedAt: `${day}T00:00:00.000Z` }));
  t.strictSame((await runningServers(places)).map(({ url }) => url), ['b', 'c', 'a']);
});

t.test('leftovers of a dead server are removed, and never believed', async (t) => {
  const places = findPlaces({ SERVICE_HOME: t.testdir() });
  const folder = join(places.state, 'servers');
  mkdirSync(folder, { recursive: true });
  const identity = await ownIdentity();
  const put = (name: string, value: unknown) => writeFileSync(join(folder, name), typeof value === 'string' ? value : JSON.stringify(value));
  const record = { url: 'http://127.0.0.1:1', managed: false, startedAt: '2026-01-01T00:00:00.000Z' };
  put('stranger.json', { ...record, identity: { ...identity, started: '1' } });
  put('reboot.json', { ...record, identity: { ...identity, machine: `${identity.machine.split(' ')[0]} another-boot` } });
  put('half.json', '{"identity":');
  put('newer.json', { ...record, identity: { process: identity } });
  put('other.json', { identity, address: record.url });
  put('elsewhere.json', { ...record, identity: { ...identity, machine: 'another-host boot' } });
  t.strictSame(await runningServers(places), []);
  t.strictSame(readdirSync(folder), ['elsewhere.json', 'half.json', 'newer.json', 'other.json'], 'one of another machine may live there, and a newer Recua writes other records');
});

t.test('a pipe in place of a record is not waited for', { skip: process.platform === 'win32' && 'has no such pipes' }, async (t) => {
  const { env } = makeHome(t);
  const places = findPlaces(env);
  mkdirSync(join(places.state, 'servers'), { recursive: true });
  execFileSync('mkfifo', [join(places.state, 'servers', 'x.json'), join(places.state, 'aliases.json')]);
  t.strictSame(await runningServers(places), []);
  t.match(await recua(['list'], '', { env }), { code: 1, stderr: /aliases\.json cannot be read: .* is not a regular file/ });
});

t.test('recua api registers itself, and a killed one is forgotten', async (t) => {
  const home = makeHome(t);
  const places = findPlaces(home.env);
  const folder = join(places.state, 'servers');
  const servers = [start(['api', 'builtin', ...small], { env: home.env }), start(['api', 'builtin', ...small], { env: home.env })];
  const urls = await Promise.all(servers.map(async ({ saw }) => (await saw(/Recua listens on (http:\/\/\S+)/))[1]!));
  const found = await runningServers(places);
  t.strictSame(found.map(({ url }) => url).sort(), urls.sort());
  t.strictSame(found.map(({ pid }) => pid).sort(), servers.map(({ child }) => child.pid).sort());
  t.ok(found.every(({ managed }) => !managed));
  const [first, second] = servers;
  first!.child.kill('SIGKILL');
  await first!.ended;
  await until(async () => (await runningServers(places)).length === 1);
  t.equal(readdirSync(folder).length, 1);
  second!.child.kill('SIGTERM');
  t.match(await second!.ended, { code: 0 });
  t.strictSame(readdirSync(folder), [], 'it took its file with it');
});

t.test('serve start registers the managed server', async (t) => {
  const home = makeHome(t);
  const places = findPlaces(home.env);
  await home.serve('start', 'builtin', ...small);
  const { url, identity } = home.record();
  t.match(await runningServers(places), [{ url, pid: identity.pid, managed: true }]);
  await home.serve('stop');
  t.strictSame(await runningServers(places), []);
});

t.test('a server whose state folder cannot be written serves, and says what is missing', async (t) => {
  const home = makeHome(t);
  const state = findPlaces(home.env).state;
  mkdirSync(state, { recursive: true });
  // Not even root can write here.
  writeFileSync(join(state, 'servers'), '');
  const running = start(['api', 'builtin', ...small], { env: home.env });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  t.match(running.stderr(), /Warning: recua ps and other commands will not find this server: /);
  t.equal((await fetch(`${url}/health`)).status, 200);
  running.child.kill('SIGTERM');
  await running.ended;
  t.equal(readFileSync(join(state, 'servers'), 'utf8'), '');
});
