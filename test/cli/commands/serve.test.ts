import t from 'tap';
import { spawn as spawnPty } from '@lydell/node-pty';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, readdirSync, statSync, writeFileSync, mkdirSync, existsSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { identityOf, lifeOf } from '#recua/system/process-identity.js';
import { freePort } from '../../free-port.js';
import { gguf, sound } from '../../models/gguf-bytes.js';
import { makeHome, until } from '../home.js';
import type { Home } from '../home.js';
import { mainPath, recua, root, start } from '../recua.js';

const small = ['--port', '0', '--threads', '1', '--parallel', '2'];
const endless = { messages: [{ role: 'user', content: 'Hello' }], stream: true, temperature: 2, max_tokens: 100_000, grammar: 'root ::= [a-z ] root' };

async function status(home: Home): Promise<{ code: number | null; is: any }> {
  const { code, stdout } = await home.serve('status', '--json');
  return { code, is: JSON.parse(stdout) };
}

function post(url: string, body: unknown): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: text });
}

/** Processes of this machine with the parent `pid`. */
function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
}

t.test('serve start -m returns when the server is ready; status reports everything; stop ends it', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('status'), { code: 3, stdout: /^State +stopped\n$/ });
  const started = await home.serve('start', '-m', 'builtin', ...small);
  t.match(started, { code: 0, stdout: '', stderr: /Recua serves builtin at http:\/\/127\.0\.0\.1:\d+ \(pid \d+\)/ });
  const url = /http:\S+/.exec(started.stderr)![0];
  const models = await (await fetch(`${url}/v1/models`)).json() as any;
  t.equal(models.data[0].context_length, 2048, 'the context size of the specification');
  await (await post(url, { ...endless, stream: false, max_tokens: 2 })).text();

  const { code, is } = await status(home);
  t.equal(code, 0);
  t.match(is, {
    state: 'running', url, host: '127.0.0.1', port: Number(new URL(url).port), answering: true, crashes: 0, problem: null, context_size: 2048,
    model: { name: 'builtin', id: 'builtin' }, requests: { total: 1, running: 0, waiting: 0 }, log_file: home.places.log,
  });
  t.strictSame(is.flags, { parallel: 2, port: 0, threads: 1 });
  t.equal(await lifeOf(home.record().identity), 'alive');
  t.equal(is.pid, home.record().identity.pid);
  t.type(is.uptime_seconds, 'number');
  const text = (await home.serve('status')).stdout;
  for (const row of [/^State +running$/m, /^PID +\d+$/m, /^Address +http/m, /^Model +builtin \(/m, /^Context +2048 tokens$/m, /^Flags +.*--threads=1\b/m, /^Uptime +\d/m, /^Requests +1 in all/m, /^Log +\//m]) t.match(text, row);

  // The holder of a lock is no secret: other users of the folder must see it.
  for (const name of readdirSync(home.places.folder).filter((one) => !one.endsWith('.lock'))) t.equal(statSync(join(home.places.folder, name)).mode & 0o077, 0, `${name} is its owner's`);
  t.match(await home.serve('stop'), { code: 0, stderr: /Stopped the server \(pid \d+\)/ });
  t.equal(await lifeOf(await identityOf(is.pid) ?? { pid: is.pid, started: '', machine: '' }) === 'alive', false);
  t.notOk(existsSync(home.places.record), 'the state file is gone');
  await t.rejects(fetch(url));
  t.match(await home.serve('stop'), { code: 0, stderr: /not running/ }, 'no server is no error');
  t.match(await home.serve('status'), { code: 3 });
});

for (const format of ['text', 'json']) t.test(`serve start prints the notes about the model that the ${format} log has`, async (t) => {
  const home = makeHome(t);
  const started = await home.serve('start', 'builtin', ...small, '--ctx-size', '16384', '--log-format', format);
  t.match(started, { code: 0, stderr: /^Recua serves builtin .*\n.*: 4096 tokens of context for each of 2 requests at once\nNote: The context is 4096 tokens, which the model was trained on, not the 16384 asked for\.\n/m });
  t.equal((await home.serve('stop')).code, 0);
  const again = await home.serve('start', 'builtin', ...small);
  t.notMatch(again.stderr, /Note:/, 'those of an earlier server are not repeated');
});

t.test('serve start has the defaults of the specification and every flag of api', async (t) => {
  const { stdout } = await recua(['help', 'serve', 'start']);
  for (const row of [/-m, --model <model>/, /--port <n> .*default 8080/, /--host <address> .*default 127\.0\.0\.1/, /--ctx-size.*<n> .*default 2048/, /--n-gpu-layers <n\|auto\|all>\n? .*default 0/]) t.match(stdout, row);
  const flags = (text: string) => [...text.matchAll(/--[a-z][a-z-]+(?= <|,|\s{2,})/g)].map(([name]) => name);
  const missing = flags((await recua(['help', 'api'])).stdout).filter((name) => !flags(stdout).includes(name));
  t.same(missing, ['--state-file'], 'its own state file is not a matter of choice');
  t.equal((await recua(['serve', 'start', '--help'])).stdout, stdout);
});

t.test('serve start --model --port --host --ctx-size --n-gpu-layers take effect', async (t) => {
  const home = makeHome(t);
  const port = await freePort();
  const started = await home.serve('start', '--model', 'builtin', '--port', String(port), '--host', 'localhost', '--ctx-size', '512', '--n-gpu-layers', '0', '--threads', '1', '--alias', 'tiny');
  t.equal(started.code, 0, started.stderr);
  const models = await (await fetch(`http://localhost:${port}/v1/models`)).json() as any;
  t.match(models.data[0], { id: 'tiny', context_length: 512 });
  t.match((await status(home)).is, { port, host: 'localhost', model: { id: 'tiny' } });
});

t.test('starting again is fine with the same model and an error with another', async (t) => {
  const home = makeHome(t);
  const copy = join(home.folder, 'copy.gguf');
  copyFileSync(join(root, 'builtin', 'builtin.gguf'), copy);
  t.equal((await home.serve('start', 'builtin', ...small)).code, 0);
  const { pid } = home.record().identity;
  t.match(await home.serve('start', '-m', 'builtin', ...small), { code: 0, stderr: new RegExp(`^Already running: builtin at http\\S+ \\(pid ${pid}\\)\n$`) });
  t.match(await home.serve('start', 'builtin', '--ctx-size', '512'), { code: 0, stderr: /Note: the server runs without --ctx-size=512.*serve restart --ctx-size=512/ });
  const { port } = home.record();
  t.match(await home.serve('start', 'builtin', '--port', String(port)), { code: 0, stderr: /^Already running/ });
  t.match(await home.serve('start', 'builtin', '--port', String(port + 1)), { code: 1, stderr: new RegExp(`already running \\(pid ${pid}\\) with builtin, but at http\\S+:${port}\\. .*serve restart --port ${port + 1} `) });
  t.match(await home.serve('start', 'builtin', '--host', '0.0.0.0', '--port', '0'), { code: 1, stderr: /serve restart --host 0\.0\.0\.0 moves it/ });
  t.match(await home.serve('start', copy), { code: 1, stderr: new RegExp(`already running \\(pid ${pid}, .*with builtin.*serve restart .*serve stop`) });
  t.equal(home.record().identity.pid, pid);

  t.match(await home.serve('restart', '-m', copy), { code: 0, stderr: /Stopped[^]*Recua serves copy/ });
  t.match(home.record(), { model: { path: copy }, settings: { 'parallel': 2, 'threads': 1 } }, 'all else is as before');
  t.equal(home.record().port, port, 'clients find it where it was, even at a port that the system chose');
  t.equal(await lifeOf({ ...home.record().identity, pid }) === 'alive', false);
  t.match(await home.serve('restart', 'none.gguf'), { code: 1, stderr: /no model none/ });
  t.equal((await status(home)).code, 0, 'a wrong model does not stop the old one');
});

t.test('serve start works without a model, with several, and with a models file', async (t) => {
  const home = makeHome(t);
  const copy = join(home.folder, 'copy.gguf');
  copyFileSync(join(root, 'builtin', 'builtin.gguf'), copy);
  const states = async () => (await status(home)).is.models.map(({ id, state }: any) => `${id} ${state}`).sort();
  t.match(await home.serve('start', ...small), { code: 0, stderr: /^Starting the server …\nRecua serves models on demand at http/ });
  t.strictSame(await states(), ['builtin unloaded']);
  t.match(await home.serve('start', ...small), { code: 0, stderr: /^Already running: models on demand/ });
  t.match(await home.serve('status'), { stdout: /^Model +all of this machine, loaded on demand$/m });
  t.match(await home.serve('start', copy, 'builtin', ...small), { code: 1, stderr: new RegExp(`already running \\(.* with models on demand\\. recua serve restart ${copy} builtin changes that`) });

  t.match(await home.serve('restart', copy, 'builtin'), { code: 0, stderr: /Stopped[^]*Recua serves copy, builtin at/ });
  t.strictSame(await states(), ['builtin loaded', 'copy loaded'], 'what is named is loaded when it returns');
  const text = (await home.serve('status')).stdout;
  t.match(text, /^Model +copy, builtin$/m);
  t.match(text, /^Loaded +copy \(loaded\), builtin \(loaded\)$/m);
  t.match(await home.serve('restart'), { code: 0, stderr: /Recua serves copy, builtin at/ }, 'a restart has the same models');

  writeFileSync(join(home.folder, 'models.json'), JSON.stringify({ models: { tiny: { model: 'copy.gguf', pinned: true }, other: { model: 'builtin' } } }));
  const inFolder = (...args: string[]) => recua(['serve', ...args], '', { env: home.env, cwd: home.folder });
  t.match(await inFolder('restart', '--models', 'models.json'), { code: 0, stderr: /Recua serves tiny and 1 more on demand at/ });
  t.strictSame(await states(), ['other unloaded', 'tiny loaded']);
  t.match(await inFolder('start', '--models', 'models.json', ...small), { code: 0, stderr: /^Already running: tiny and 1 more on demand at [^\n]*\n$/ });
  t.match(await home.serve('status'), { stdout: /^Loaded +tiny \(loaded\), 1 not loaded$/m });
  t.match(await inFolder('restart', '--models', 'none.json'), { code: 1, stderr: /none\.json cannot be read/ });
  t.equal((await status(home)).code, 0, 'a wrong file does not stop the old server');

  writeFileSync(join(home.folder, 'damaged.json'), JSON.stringify({ default: 'tiny', models: { tiny: { model: 'nine.gguf' }, other: { model: 'builtin' } } }));
  t.match(await inFolder('restart', '--models', 'damaged.json'), { code: 1, stderr: /^recua: [^\n]*damaged\.json, model "tiny": There is no model/ });
  t.strictSame(await states(), ['other unloaded', 'tiny loaded'], 'nor does a default model that is not there');
  t.match(await home.serve('stop'), { code: 0 });
  t.match(await inFolder('start', '--models', 'damaged.json', ...small), { code: 0, stderr: /^Warning: [^\n]*nine[^\n]* The model is not served until you fix this\.$/m });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('two starts at once make one server', async (t) => {
  const home = makeHome(t);
  const results = await Promise.all([1, 2, 3].map(() => home.serve('start', 'builtin', ...small)));
  t.same(results.map(({ code }) => code), [0, 0, 0], results.map(({ stderr }) => stderr).join());
  const urls = new Set(results.map(({ stderr }) => /http:\/\/127[^\s/]+/.exec(stderr)?.[0]));
  t.same([...urls], [home.record().url]);
  t.equal(results.filter(({ stderr }) => stderr.includes('Already running')).length, 2);
});

t.test('a server killed by SIGKILL has crashed, leaves no engine, and start works again', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small);
  const { pid } = home.record().identity;
  const engines = await Promise.all(childrenOf(pid).map((one) => identityOf(one)));
  t.ok(engines.length > 0);
  process.kill(pid, 'SIGKILL');
  await until(async () => await lifeOf(home.record().identity) !== 'alive');
  t.match(await home.serve('status'), { code: 4, stdout: /State +crashed/, stderr: /ended unexpectedly[^]*The end of its log:[^]*Recua listens/ });
  for (const engine of engines) await until(async () => await lifeOf(engine!) !== 'alive');
  t.match(await home.serve('start', 'builtin', ...small), { code: 0, stderr: /Recua serves/ });
  t.not(home.record().identity.pid, pid);
  process.kill(home.record().identity.pid, 'SIGKILL');
  await until(async () => await lifeOf(home.record().identity) !== 'alive');
  t.match(await home.serve('stop'), { code: 0, stderr: /not running: pid \d+ ended unexpectedly/ });
  t.equal((await status(home)).code, 3);
});

t.test('a state file whose pid now belongs to another process kills nothing', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small);
  const record = home.record();
  await home.serve('stop');
  const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  t.teardown(() => stranger.kill('SIGKILL'));
  const now = (await identityOf(stranger.pid!))!;
  for (const args of [['stop'], ['stop', '--force']]) {
    writeFileSync(home.places.record, JSON.stringify({ ...record, identity: { ...now, started: String(Number(now.started) - 1) } }));
    t.match(await home.serve('status'), { code: 4 });
    t.match(await home.serve(...args), { code: 0, stderr: /not running/ });
    t.equal(await lifeOf(now), 'alive');
  }
  writeFileSync(home.places.record, JSON.stringify({ ...record, identity: { ...now, started: String(Number(now.started) - 1) } }));
  t.match(await home.serve('start', 'builtin', ...small), { code: 0, stderr: /Recua serves/ });
  t.equal(await lifeOf(now), 'alive');
  await home.serve('stop');
  writeFileSync(home.places.record, '{ half a fi');
  t.match(await home.serve('status'), { code: 3 });
  t.match(await home.serve('start', 'builtin', ...small), { code: 0 }, 'nor does a broken one stand in the way');
});

t.test('a stop during a stream lets the answer end, and says that it waits', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small, '--drain-timeout', '120');
  const reply = await post(home.record().url, { ...endless, max_tokens: 500 });
  const text = reply.text();
  const stopped = await home.serve('stop');
  t.match(stopped, { code: 0, stderr: /Stopped the server/ });
  t.match(await text, /data: \[DONE\]\n\n$/);
});

t.test('a stop that exceeds its drain time tells the client', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small, '--drain-timeout', '0');
  const reply = await post(home.record().url, { ...endless, n: 128 });
  const text = reply.text();
  t.match(await home.serve('stop'), { code: 0 });
  const end = (await text).trimEnd().split('\n').at(-1)!;
  t.match(JSON.parse(end.replace(/^data: /, '')), { error: { code: 'shutting_down' } });
});

t.test('stop waits as long as it was told; a second Ctrl-C kills the server', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small, '--drain-timeout', '600');
  const { identity, url } = home.record();
  // One after another, so that the last of them is still waiting when the rest has ended.
  const replies = Array.from({ length: 60 }, () => post(url, endless).then((reply) => reply.text()).catch(() => ''));
  await until(async () => (await status(home)).is.requests.running > 0);
  t.match(await home.serve('stop', '--timeout', '1'), { code: 1, stderr: /Waiting for \d+ running requests? to end\.\n.*has not exited within 1 seconds.*--force/ });
  t.match(await status(home), { code: 5, is: { state: 'stopping', pid: identity.pid } });
  const stop = start(['serve', 'stop'], { env: home.env });
  await stop.saw(/Waiting for/);
  stop.child.kill('SIGINT');
  await stop.saw(/Ctrl-C again kills the server at once/);
  // Signals within a tenth of a second count as one Ctrl-C; a third one would meet a process that
  // is exiting.
  await new Promise((resolve) => setTimeout(resolve, 150));
  stop.child.kill('SIGINT');
  t.match(await stop.ended, { code: 0, stderr: /Killed the server/ });
  t.equal(await lifeOf(identity), 'dead');
  await Promise.all(replies);
  t.equal((await status(home)).code, 3);
});

t.test('stop --force ends the server and its engine at once', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small, '--drain-timeout', '600');
  const { identity, url } = home.record();
  const engines = await Promise.all(childrenOf(identity.pid).map((one) => identityOf(one)));
  const gone = (await post(url, { ...endless, n: 128 })).text().catch(() => '');
  t.match(await home.serve('stop', '--force'), { code: 0, stderr: /Killed/ });
  t.equal(await lifeOf(identity), 'dead');
  for (const engine of engines) await until(async () => await lifeOf(engine!) !== 'alive');
  await gone;
});

t.test('a server stopped by a plain SIGTERM has not crashed', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small);
  const { identity } = home.record();
  process.kill(identity.pid, 'SIGTERM');
  await until(async () => await lifeOf(identity) !== 'alive');
  t.equal((await status(home)).is.state, 'stopped');
});

t.test('a failed start exits 1 with the reason and the end of the log', async (t) => {
  const home = makeHome(t);
  const hollow = join(home.folder, 'hollow.gguf');
  writeFileSync(hollow, gguf(sound));
  const { code, stderr } = await home.serve('start', hollow, ...small);
  t.equal(code, 1);
  t.match(stderr, /^recua: The server did not start: .{10,}\nThe end of its log, .*server\.log:\n {2}\S+Z .*Loading hollow/m);
  t.equal((await status(home)).code, 3);
  t.match(await home.serve('start', 'none.gguf'), { code: 1, stderr: /There is no model none\.gguf/ });
  t.match(await home.serve('start', 'a', '-m', 'b'), { code: 1, stderr: /There is no model b/ });
  t.match(await home.serve('start', 'builtin', 'builtin'), { code: 2, stderr: /each model once, got builtin twice/ });
  t.match(await home.serve('start', 'builtin', '--ctx-size', 'big'), { code: 2, stderr: /whole number/ });
  t.match(await home.serve('restart'), { code: 1 });
});

t.test('a state folder that cannot be written is an error with its name', async (t) => {
  const home = makeHome(t);
  // Not even root can write here.
  mkdirSync(home.places.startLock, { recursive: true });
  const { code, stderr } = await home.serve('start', 'builtin', ...small);
  t.equal(code, 1);
  t.match(stderr, /^recua: The state folder .*serve cannot be written: .*SERVICE_HOME\.\n$/);
});

t.test('a restart that could not work leaves the old server running', async (t) => {
  const home = makeHome(t);
  t.equal((await home.serve('start', 'builtin', ...small, '--api-key', 'sesame')).code, 0);
  const { identity: { pid } } = home.record();
  const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const taken = String((other.address() as AddressInfo).port);
  t.match(await home.serve('restart', '--port', taken), { code: 1, stderr: new RegExp(`^recua: node \\(pid ${process.pid}\\) listens on`) });
  t.match(await home.serve('restart', '--host', '192.0.2.1', '--port', '9'), { code: 1, stderr: /^recua: Cannot listen on 192\.0\.2\.1 port 9/ });
  t.match(await home.serve('restart', '--tls-cert', 'none.pem', '--tls-key', 'none.pem'), { code: 1, stderr: /none\.pem, the file of --tls-cert, cannot be read/ });
  t.match(await home.serve('restart', '--host', '192.0.2.1'), { code: 1, stderr: /^recua: Cannot listen on 192\.0\.2\.1 / });
  const keys = join(home.folder, 'keys.json');
  writeFileSync(keys, '{"keys": [');
  t.match(await home.serve('restart', '--host', `unix:${keys}`), { code: 1, stderr: /^recua: \S+keys\.json exists and is not a socket/ });
  t.match(await home.serve('restart', '--api-key-file', keys), { code: 2, stderr: /^recua: The API keys cannot be used: .* not valid JSON/ });
  t.match(await home.serve('restart', '--api-key', 'one,one'), { code: 2, stderr: /^recua: The API keys cannot be used: --api-key, key 1 and --api-key, key 2 are the same key/ });
  t.match(await home.serve('restart', '--cors-origins', 'a b'), { code: 2, stderr: /^recua: Expected origins/ });
  t.match(await status(home), { code: 0, is: { pid, state: 'running', answering: true } });
  const failed = await home.serve('restart', '--device', 'nope');
  t.match(failed, { code: 1, stderr: /did not start: [^]*nope[^]*Starting the old server again[^]*Recua serves builtin at[^]*the server runs again with its old settings/ });
  const { is } = await status(home);
  t.match(is, { state: 'running', answering: true, port: home.record().port });
  t.equal((await fetch(`${is.url}/v1/models`)).status, 401, 'it still asks for its key');
  // Without a running one, too: the next restart has the settings of the one that worked.
  await home.serve('stop');
  t.match(await home.serve('restart', '--port', taken), { code: 1 });
  t.match(await home.serve('restart'), { code: 0, stderr: /Recua serves builtin at/ });
  await home.serve('stop');
  t.match(await home.serve('start', ...small, '--port', taken), { code: 1 });
  t.match(await home.serve('restart'), { code: 0, stderr: /Recua serves builtin at/ }, 'a start that failed is not what a restart means');
});

t.test('a pipe is refused: it could not be read again', async (t) => {
  const home = makeHome(t);
  const pipe = join(home.folder, 'keys');
  execFileSync('mkfifo', [pipe]);
  t.match(await home.serve('start', 'builtin', ...small), { code: 0 });
  const { identity: { pid } } = home.record();
  for (const flag of ['--api-key-file', '--chat-template-file', '--models', '--tls-cert']) {
    for (const verb of ['start', 'restart']) t.match(await home.serve(verb, flag, pipe), { code: 2, stderr: new RegExp(`^recua: Expected a file behind ${flag}, got the pipe ${pipe}`) });
  }
  t.match(await status(home), { code: 0, is: { pid, state: 'running', answering: true } });
});

t.test('if the port is in use, start and api say by whom', async (t) => {
  const home = makeHome(t);
  const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(other, 'listening');
  const taken = String((other.address() as AddressInfo).port);
  const who = new RegExp(`node \\(pid ${process.pid}\\) listens on 127\\.0\\.0\\.1 port ${taken}`);
  const refused = await home.serve('start', 'builtin', '--port', taken);
  t.match(refused, { code: 1, stderr: who });
  t.notMatch(refused.stderr, /Loading|log/, 'before anything is started');
  t.match(await recua(['api', 'builtin', '--port', taken, '-c', '512']), { code: 1, stderr: who });
  other.close();

  t.equal((await home.serve('start', 'builtin', ...small)).code, 0);
  const { port, identity } = home.record();
  const ours = new RegExp(`Another recua, pid ${identity.pid}, which serves builtin, listens on 127\\.0\\.0\\.1 port ${port}`);
  const { code, stderr } = await recua(['api', 'builtin', '--port', String(port), '-c', '512']);
  t.equal(code, 1);
  t.match(stderr, ours);
  t.equal((await home.serve('restart', 'builtin', '--api-key', 'secret', ...small)).code, 0);
  const withKey = home.record();
  t.match(await recua(['api', 'builtin', '--port', String(withKey.port), '-c', '512'], '', { env: home.env }),
    { code: 1, stderr: new RegExp(`Another recua, pid ${withKey.identity.pid}, which serves builtin, listens`) }, 'its own user has its key');
});

t.test('Ctrl-C during a start stops the starting server', async (t) => {
  // A start may finish before the interrupt; then it is tried again.
  for (let tries = 0; tries < 10; tries++) {
    const home = makeHome(t);
    const starting = start(['serve', 'start', 'builtin', ...small], { env: home.env });
    await until(() => existsSync(home.places.record) || starting.child.exitCode !== null);
    const { identity } = home.record();
    // Held, so that it cannot become ready meanwhile.
    process.kill(identity.pid, 'SIGSTOP');
    starting.child.kill('SIGINT');
    const said = await Promise.race([starting.saw(/Stopping the server that was being started/).catch(() => undefined), starting.ended]);
    process.kill(identity.pid, 'SIGCONT');
    const { code, stderr } = await starting.ended;
    if (said === undefined || 'code' in said) continue;
    t.equal(code, 130);
    t.match(stderr, /no server was started/);
    t.not(await lifeOf(identity), 'alive');
    t.equal((await status(home)).code, 3);
    return;
  }
  t.fail('no start could be interrupted');
});

t.test('the server outlives the terminal it was started from', async (t) => {
  const home = makeHome(t);
  const pty = spawnPty(process.execPath, [mainPath, 'serve', 'start', 'builtin', ...small], { cwd: root, env: { ...process.env, ...home.env } as Record<string, string> });
  let seen = '';
  pty.onData((text) => { seen += text; });
  const exited = new Promise<number>((resolve) => pty.onExit(({ exitCode }) => resolve(exitCode)));
  t.equal(await exited, 0, seen);
  pty.kill('SIGHUP');
  t.match(await (await fetch(`${home.record().url}/health`)).json(), { status: 'ok' });
  t.match(await status(home), { code: 0 });
});

t.test('logs --request prints the lines of one request', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small);
  const url = home.record().url;
  for (const id of ['one', 'two', 'one']) await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'x-request-id': id }, body: JSON.stringify({ messages: endless.messages, max_tokens: 2 }) })).text();
  let about = '';
  await until(async () => {
    about = (await home.serve('logs', '--request', 'one')).stdout;
    return about.trim().split('\n').length === 2;
  });
  t.match(about, /^(\S+ info {2}one POST \/v1\/chat\/completions 200 of builtin \d+\+2 tokens, \d+ cached, first after \d+ ms, \d+ ms\n){2}$/);
  t.equal((await home.serve('logs', '--request', 'one', '-n', '1')).stdout, `${about.trimEnd().split('\n')[1]}\n`);
  t.match(await home.serve('logs', '--request', 'three'), { code: 0, stdout: '', stderr: /no line about the request three/ });
  t.match(await home.serve('logs', '--request', 'a b'), { code: 2, stderr: /Expected the id of a request/ });
  await home.serve('stop');
});

t.test('logs prints the last lines, follows until Ctrl-C, and works after the server has stopped', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('logs'), { code: 1, stderr: /no log.*serve start/ });
  await home.serve('start', 'builtin', ...small);
  const { stdout } = await home.serve('logs');
  t.match(stdout, /^\d{4}-\d\d-\d\dT\S+Z info {2}Loading builtin\n[^]*Recua listens on http/);
  t.equal((await home.serve('logs', '--lines', '1')).stdout, `${stdout.trimEnd().split('\n').at(-1)}\n`);
  t.equal((await home.serve('logs', '-n', '0')).stdout, '');
  const following = start(['serve', 'logs', '-f', '-n', '1'], { env: home.env });
  await following.saw(/Recua listens/);
  await home.serve('restart');
  await following.saw(/Stopped\.\n[^]*Loading builtin/);
  following.child.kill('SIGINT');
  t.match(await following.ended, { code: 130, stderr: '' });
  await home.serve('stop');
  t.match(await home.serve('logs', '-n', '1'), { code: 0, stdout: /Stopped\.\n$/ });
  const waiting = start(['serve', 'logs', '-f'], { env: home.env });
  await waiting.saw(/No server runs\./);
  waiting.child.kill('SIGINT');
  t.match(await waiting.ended, { code: 130 });
});

t.test('no word of a prompt or an answer reaches the log, at any level', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small, '--log-level', 'debug');
  const { url } = home.record();
  const secret = 'xylophonesecret';
  const message = { role: 'user', content: `${secret} says hello` };
  const bodies: unknown[] = [
    { messages: [message], max_tokens: 4, temperature: 0 },
    { messages: [message], max_tokens: 4, stream: true },
    { messages: [message], grammar: `root ::= "${secret}"` },
    { messages: [message], grammar: `root ::= ${secret}` },
    { messages: [message], tools: [{ type: 'function', function: { name: 'f', description: secret, parameters: { type: 'object', properties: { a: { type: 'string' } } } } }], max_tokens: 4 },
    { messages: [{ role: secret, content: 'x' }] },
    { messages: [{ role: 'user', content: [{ type: secret }] }] },
    { messages: [message], temperature: secret },
    { messages: [message], model: secret },
    { messages: [{ role: 'user', content: `${secret} `.repeat(5000) }] },
    `{"messages": [{"role": "user", "content": "x" ${secret}`,
  ];
  const codes = [];
  for (const body of bodies) {
    const reply = await post(url, body);
    codes.push(reply.status);
    await reply.text();
  }
  t.equal(codes[0], 200);
  t.ok(codes.filter((code) => code >= 400).length >= 6, codes.join());
  await fetch(`${url}/v1/embeddings`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ input: [secret] }) });
  await home.serve('stop');
  const files = readdirSync(home.places.folder).map((name) => readFileSync(join(home.places.folder, name), 'utf8'));
  t.ok(files.some((text) => /debug/.test(text) && /POST \/v1\/chat\/completions 200/.test(text)), 'the log is the one of those requests');
  t.ok(files.some((text) => /invalid_type at temperature/.test(text)), 'what was wrong is told without quoting it');
  t.notOk(files.some((text) => text.includes(secret)));
});

t.test('status reports a server of another version, and one that does not respond', async (t) => {
  const home = makeHome(t);
  await home.serve('start', 'builtin', ...small);
  const record = home.record();
  writeFileSync(home.places.record, JSON.stringify({ ...record, version: '0.0.1', model: { ...record.model, id: 'a\x1b]0;owned\x07\x9bb' } }));
  const other = await home.serve('status');
  t.match(other, { code: 0, stdout: /^Model +a\\u001b\]0;owned\\u0007\\u009bb \(/m, stderr: /server is recua 0\.0\.1, this is recua \S+ recua serve restart/ });
  t.match(await recua(['doctor'], '', { env: home.env }), { stdout: /The server is recua 0\.0\.1, this is recua/ });
  t.notMatch(other.stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f]/, 'nor does a file name control the terminal');
  process.kill(record.identity.pid, 'SIGSTOP');
  const silent = await home.serve('status');
  process.kill(record.identity.pid, 'SIGCONT');
  t.match(silent, { code: 0, stdout: /State +running/, stderr: /does not answer/ });
});

t.test('a model path is relative to the folder of the command', async (t) => {
  const home = makeHome(t);
  mkdirSync(join(home.folder, 'here'));
  copyFileSync(join(root, 'builtin', 'builtin.gguf'), join(home.folder, 'here', 'my model.gguf'));
  const { SERVICE_HOME: _, ...rest } = home.env;
  const started = await recua(['serve', 'start', 'my model.gguf', ...small, '--log-file', 'my.log'], '', { cwd: join(home.folder, 'here'), env: { ...rest, SERVICE_HOME: '../models' } });
  t.equal(started.code, 0, started.stderr);
  t.match(home.record(), { model: { id: 'my model', path: join(home.folder, 'here', 'my model.gguf') }, logFile: join(home.folder, 'here', 'my.log') });
  t.match(await home.serve('logs', '-n', '1'), { code: 0, stdout: /Recua listens/ });
  t.match(await home.serve('restart', '--parallel', '1'), { code: 0 }, 'restart does so from any folder');
  t.match(home.record(), { settings: { parallel: 1 } });
});

t.test('serve help explains the commands, and a wrong one gets the nearest name', async (t) => {
  const { code, stdout } = await recua(['serve', 'help']);
  t.equal(code, 0);
  for (const name of ['start', 'stop', 'status', 'logs', 'restart', 'help']) t.match(stdout, new RegExp(`^ {2}${name} `, 'm'));
  for (const words of [['serve'], ['serve', '-h'], ['help', 'serve']]) t.equal((await recua(words)).stdout, stdout, words.join(' '));
  t.equal((await recua(['serve', 'help', 'logs'])).stdout, (await recua(['help', 'serve', 'logs'])).stdout);
  t.match(await recua(['logs']), { code: 2, stderr: /There is no command logs\. Did you mean serve logs\?/ });
  t.match(await recua(['serve', 'strat']), { code: 2, stderr: /There is no command serve strat\. Did you mean serve start\?/ });
  t.match(await recua(['serve', 'stop', 'now']), { code: 2, stderr: /takes no arguments, got now/ });
  t.match(await recua(['serve', '--port', '1']), { code: 2, stderr: /Expected a command after recua serve/ });
});
