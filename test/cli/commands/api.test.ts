import t from 'tap';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { gguf, sound } from '../../models/gguf-bytes.js';
import { put } from '../../models/hub-layout.js';
import { writeReranker } from '../../native/random-reranker.js';
import { makeHome, until } from '../home.js';
import { recua, root, start } from '../recua.js';
import type { Running } from '../recua.js';

const small = ['--port', '0', '-c', '512', '--threads', '1', '--parallel', '2'];

async function served(running: Running): Promise<string> {
  return (await running.saw(/Recua listens on (http:\/\/\S+)/))[1]!;
}

t.test('api serves the model, prints the addresses of API and page and a curl line on stderr, and stops cleanly on Ctrl-C', async (t) => {
  const running = start(['api', 'builtin', ...small, '--alias', 'tiny']);
  const url = await served(running);
  t.match(await (await fetch(`${url}/health`)).json(), { status: 'ok', model: 'loaded' });
  t.match(await (await fetch(`${url}/v1/models`)).json(), { data: [{ id: 'tiny' }] });
  const [, page] = await running.saw(/In a browser: (http:\/\/\S+)/);
  t.match(await (await fetch(page, { headers: { accept: 'text/html' } })).text(), /^<!doctype html>/);
  const [curl] = await running.saw(/curl .*/);
  const reply = JSON.parse(execFileSync('sh', ['-c', curl], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })) as object;
  t.match(reply, { object: 'chat.completion', choices: [{ message: { role: 'assistant', content: /\w/ } }] }, 'the curl line works when pasted');
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0, signal: null, stdout: '' });
});

t.test('the curl line asks what the model can answer', async (t) => {
  const folder = t.testdir();
  for (const [head, object] of [[true, /"relevance_score":/], [false, /"embedding":\[/]] as const) {
    const path = join(folder, `bert-${head}.gguf`);
    await writeReranker('bert', path, { head });
    const running = start(['api', path, '--port', '0', '--threads', '1']);
    const [curl] = await running.saw(/curl .*/);
    t.match(execFileSync('sh', ['-c', curl], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }), object);
    running.child.kill('SIGINT');
    t.match(await running.ended, { code: 0 });
  }
});

t.test('api --ui-sessions shows the chats that recua chat saved; without it they stay hidden', async (t) => {
  const { env } = makeHome(t);
  t.match(await recua(['chat', 'builtin', '-p', 'x', '-q', '--threads', '1', '--max-tokens', '2', '--local', '--continue'], '', { env }), { code: 1 });
  for (const flags of [['--ui-sessions'], []]) {
    const running = start(['api', 'builtin', ...small, ...flags], { env });
    const url = await served(running);
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"session": {"messages": []}, "name": "from here"}' });
    t.equal(made.status, flags.length === 0 ? 403 : 200);
    running.child.kill('SIGINT');
    await running.ended;
  }
  t.match((await recua(['sessions', 'list'], '', { env })).stdout, /^from here .* 0 exchanges with builtin$/m);
});

t.test('api lets a running answer end before it stops', async (t) => {
  const running = start(['api', '-m', 'builtin', ...small]);
  const url = await served(running);
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], stream: true, temperature: 0 }),
  });
  running.child.kill('SIGTERM');
  const text = await reply.text();
  t.match(text, /data: \[DONE\]\n\n$/);
  t.match(await running.ended, { code: 0 });
});

t.test('SIGUSR1 and SIGUSR2 open no debugger and end nothing', { skip: process.platform === 'win32' }, async (t) => {
  const running = start(['api', 'builtin', ...small]);
  const url = await served(running);
  for (const name of ['SIGUSR1', 'SIGUSR2'] as const) {
    running.child.kill(name);
    await running.saw(new RegExp(`${name} does nothing|Debugger listening`));
  }
  t.equal((await fetch(`${url}/health`)).status, 200);
  running.child.kill('SIGTERM');
  const { code, stderr } = await running.ended;
  t.equal(code, 0);
  t.notMatch(stderr, /Debugger/);
});

t.test('SIGUSR1 opens no debugger in other commands', { skip: process.platform === 'win32' }, async (t) => {
  const running = start(['run', 'builtin', '-n', '4', '-q']);
  const model = running.child.pid!;
  // Its handlers are there once it has a child: the engine process.
  while (spawnSync('ps', ['-o', 'pid=', '--ppid', String(model)], { encoding: 'utf8' }).stdout.trim() === '') await setTimeout(20);
  running.child.kill('SIGUSR1');
  await setTimeout(300);
  running.child.stdin.end('Hi');
  const { code, stderr } = await running.ended;
  t.equal(code, 0);
  t.notMatch(stderr, /Debugger/);
});

t.test('a second signal ends api at once', async (t) => {
  const running = start(['api', 'builtin', ...small, '--drain-timeout', '600']);
  const url = await served(running);
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], stream: true, n: 128, temperature: 2, grammar: 'root ::= [a-z ] root' }),
  });
  const gone = reply.text().catch(() => '');
  running.child.kill('SIGINT');
  await running.saw(/Stopping/);
  // Signals within a tenth of a second count as one Ctrl-C, so the second one must wait.
  const again = setInterval(() => running.child.kill('SIGINT'), 50);
  t.match(await running.ended, { code: 130 });
  clearInterval(again);
  await gone;
});

t.test('SIGHUP from the kernel and again from the shell is one signal', { skip: process.platform === 'win32' }, async (t) => {
  const running = start(['api', 'builtin', '--port', '0', '-c', '2048', '--threads', '1', '--drain-timeout', '600']);
  const url = await served(running);
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], stream: true, max_tokens: 1_500, grammar: 'root ::= [a-z]{9999}' }),
  });
  running.child.kill('SIGHUP');
  // Later than the same keystroke of SIGINT, and long before the answer ends.
  await setTimeout(150);
  running.child.kill('SIGHUP');
  t.match(await reply.text(), /data: \[DONE\]\n\n$/, 'the answer is finished');
  t.match(await running.ended, { code: 0, signal: null });
});

t.test('api says that the port is in use and exits 1', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await recua(['api', 'builtin', '--port', String(port), '-c', '512']);
  other.close();
  t.equal(code, 1);
  t.match(stderr, new RegExp(`127\\.0\\.0\\.1 port ${port}`));
});

t.test('api warns when other machines can reach it, and only then', async (t) => {
  for (const [host, warns] of [['0.0.0.0', true], ['127.0.0.1', false], ['localhost', false]] as const) {
    const running = start(['api', 'builtin', ...small, '--host', host]);
    await served(running);
    running.child.kill('SIGINT');
    const { stderr } = await running.ended;
    t.equal(/Warning: anyone who can reach 0\.0\.0\.0 port \d+ can use this server/.test(stderr), warns, host);
    t.match(stderr, /In a browser: http:\/\/(127\.0\.0\.1|localhost):\d+\/\n[^]*http:\/\/(127\.0\.0\.1|localhost):\d+\/v1/, 'an address to open');
  }
});

t.test('api --log-file logs there, and still prints its address on stderr', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const running = start(['api', 'builtin', ...small, '--log-file', path, '--log-level', 'debug']);
  const url = await served(running);
  await (await fetch(`${url}/health`)).text();
  running.child.kill('SIGINT');
  const { code, stderr } = await running.ended;
  t.equal(code, 0);
  t.notMatch(stderr, /debug:/);
  const log = readFileSync(path, 'utf8');
  for (const line of [/Z info {2}Loading builtin$/m, /Z debug .*GET \/health 200/, /Z info {2}Recua listens on/, /Z info {2}Stopped\.\n$/]) t.match(log, line);
  t.match(await recua(['api', 'builtin', ...small, '--log-file', join(path, 'below')]), { code: 1, stderr: /log file .* cannot be written/ });
});

t.test('a state file that cannot be written is named, and its lock is free again', async (t) => {
  const folder = t.testdir({ 'state.json': {} });
  const path = join(folder, 'state.json');
  t.match(await recua(['api', 'builtin', ...small, '--state-file', path]), { code: 1, stderr: /The state file .*state\.json cannot be written: E/ });
  t.strictSame(readdirSync(folder), ['state.json']);
});

t.test('api --log-format json writes nothing but JSON, to stderr or into a file', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const readLines = (text: string) => text.trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const file of [false, true]) {
    const running = start(['api', 'builtin', ...small, '--log-format', 'json', ...(file ? ['--log-file', path] : [])]);
    const [, url] = await running.saw(/Recua listens on (http:\/\/[\w.:]+)/);
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST', headers: { 'content-type': 'application/json', 'x-request-id': 'mine' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'xyzzy' }], max_tokens: 4 }),
    });
    const { usage } = await reply.json() as { usage: { prompt_tokens: number; completion_tokens: number } };
    running.child.kill('SIGINT');
    const { code, stderr } = await running.ended;
    t.equal(code, 0);
    const lines = readLines(file ? readFileSync(path, 'utf8') : stderr);
    t.match(
      lines.find(({ request_id: id }) => id === 'mine'),
      {
        level: 'info',
        msg: /^mine POST \/v1\/chat\/completions 200 /,
        method: 'POST',
        route: '/v1/chat/completions',
        status: 200,
        model: 'builtin',
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        duration_ms: Number,
        queue_ms: Number,
        prompt_ms: Number,
        generate_ms: Number,
      },
    );
    t.ok(lines.every(({ time, level, msg }) => typeof time === 'string' && typeof level === 'string' && typeof msg === 'string'));
    t.ok(lines.some(({ msg }) => /^Recua listens on/.test(String(msg))));
    t.notMatch(JSON.stringify(lines), /xyzzy/);
  }
});

t.test('api --state-file replaces no file of another kind', async (t) => {
  const folder = t.testdir({ 'notes.json': '["my notes"]', 'other.last.json': 'mine', 'empty.json': '' });
  for (const [name, file] of [['notes.json', 'notes.json'], ['other.json', 'other.last.json']] as const) {
    const before = readFileSync(join(folder, file), 'utf8');
    const refused = await recua(['api', 'builtin', ...small, '--state-file', name], '', { cwd: folder });
    t.match(refused, { code: 2, stderr: new RegExp(`Expected a new file or an earlier state file for --state-file; .*${file} is another file\\. It was not changed\\.`) });
    t.equal(readFileSync(join(folder, file), 'utf8'), before);
  }
  if (process.platform !== 'win32') {
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    t.match(await recua(['api', 'builtin', ...small, '--state-file', 'pipe'], '', { cwd: folder }), { code: 2, stderr: /pipe is another file\. It was not changed/ });
    t.ok(statSync(join(folder, 'pipe')).isFIFO());
  }
  for (let turn = 0; turn < 2; turn++) {
    const running = start(['api', 'builtin', ...small, '--state-file', join(folder, 'empty.json')]);
    await until(() => readFileSync(join(folder, 'empty.json'), 'utf8').includes('"running"'));
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0 });
    writeFileSync(join(folder, 'empty.json'), '');
  }
});

t.test('api --state-file keeps pid and address while it runs, and only one server can hold it', async (t) => {
  const path = join(t.testdir(), 'state.json');
  const running = start(['api', 'builtin', ...small, '--state-file', path]);
  await until(() => existsSync(path) && (JSON.parse(readFileSync(path, 'utf8')) as { state: string }).state === 'running');
  t.match(JSON.parse(readFileSync(path, 'utf8')), { identity: { pid: running.child.pid }, url: /^http:\/\/127/ });
  t.match(await recua(['api', 'builtin', ...small, '--state-file', path]), { code: 1, stderr: /Another server has the state file/ });
  running.child.kill('SIGTERM');
  t.match(await running.ended, { code: 0 });
  t.notOk(existsSync(path));
});

t.test('api refuses a missing or damaged file before it starts anything', async (t) => {
  const folder = t.testdir({ 'page.gguf': '<html>' });
  t.match(await recua(['api', 'none.gguf'], '', { cwd: folder }), { code: 1, stdout: '', stderr: /There is no model none\.gguf/ });
  const page = await recua(['api', 'page.gguf'], '', { cwd: folder });
  t.match(page, { code: 1, stdout: '', stderr: /web page/ });
  t.notMatch(page.stderr, /Loading/);
});

t.test('api exits 1 with the reason when the model cannot be loaded', async (t) => {
  const path = join(t.testdir(), 'hollow.gguf');
  writeFileSync(path, gguf(sound));
  const { code, stderr } = await recua(['api', path, ...small]);
  t.equal(code, 1);
  t.match(stderr, /^recua: .+/m);
});

t.test('api refuses several models if one is wrong, and flags that fit one model only', async (t) => {
  t.match(await recua(['api', 'builtin', '-m', 'none.gguf']), { code: 1, stdout: '', stderr: /There is no model none\.gguf/ });
  t.match(await recua(['api', 'builtin', 'builtin']), { code: 2, stderr: /each model once, got builtin twice/ });
  t.match(await recua(['api', 'builtin', '--alias', 'my\u001b[31m']), { code: 2, stderr: /^recua: Expected a name of 1 to 200 characters, none of them a control character for --alias, got "my\\u001b\[31m"\./ });
  t.match(await recua(['api', '--alias', 'mine']), { code: 2, stderr: /--alias works only with one model that stays loaded/ });
  t.match(await recua(['api', '--models', 'none.json']), { code: 1, stderr: /none\.json cannot be read/ });
  t.match(await recua(['api', '--keep-alive', '-2']), { code: 2, stderr: /from -1 to/ });
});

t.test('api without a model serves every model of the store, and loads one on demand', async (t) => {
  const home = makeHome(t);
  put(join(home.folder, 'models', 'hub'), { repo: 'acme/toy', file: 'toy-Q8_0.gguf', bytes: readFileSync(join(root, 'builtin', 'builtin.gguf')) });
  const running = start(['api', ...small], { env: home.env });
  const url = await served(running);
  const states = async () => ((await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; status: { value: string } }[] }).data.map(({ id, status }) => [id, status.value]);
  await running.saw(/^Models: acme\/toy, builtin$/m);
  t.strictSame(await states(), [['acme/toy', 'unloaded'], ['builtin', 'unloaded']]);
  const { size } = statSync(join(root, 'builtin', 'builtin.gguf'));
  t.match(await (await fetch(`${url}/api/tags`)).json(), { models: [{ name: 'acme/toy', size }, { name: 'builtin', size }] }, 'sizes are known without a load');
  const ask = (body: object) => fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2, ...body }),
  });
  t.match(await (await ask({ model: 'toy-q8_0' })).json(), { model: 'acme/toy', choices: [{ message: { content: /\w/ } }] });
  t.strictSame(await states(), [['acme/toy', 'loaded'], ['builtin', 'unloaded']]);
  t.match(await (await ask({})).json(), { error: { code: 'invalid_type', param: 'model', message: /no default one\. It has "acme\/toy", "builtin"/ } });
  t.match(await (await ask({ model: 'acme/toys' })).json(), { error: { code: 'model_not_found', message: /Did you mean "acme\/toy"/ } });
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0, stdout: '' });
});

t.test('api serves the store although its aliases are damaged', async (t) => {
  const home = makeHome(t);
  mkdirSync(join(home.folder, 'models', 'recua'), { recursive: true });
  writeFileSync(join(home.folder, 'models', 'recua', 'aliases.json'), '{"a":5}');
  const running = start(['api', ...small], { env: home.env });
  const url = await served(running);
  for (const path of ['/health', '/v1/models', '/ui/aliases', '/api/tags']) t.equal((await fetch(url + path)).status, 200, path);
  await running.saw(/Expected aliases in .*aliases\.json, got something else/);
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0 });
});

t.test('api serves the models of a file although one of them is damaged', async (t) => {
  const folder = t.testdir({ 'page.gguf': '<html>', 'models.json': JSON.stringify({ models: { page: { model: 'page.gguf' }, good: { model: 'builtin' } } }) });
  const running = start(['api', '--models', join(folder, 'models.json'), ...small]);
  const url = await served(running);
  await running.saw(/models\.json, model "page".* The model is not served until you fix this\./);
  t.match(await (await fetch(`${url}/health`)).json(), { status: 'ok', models: { page: { value: 'failed', reason: { code: 'invalid_gguf' } }, good: { value: 'unloaded' } } });
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0 });
});

t.test('api serves the other models of a file although the one to load at the start does not load', async (t) => {
  const folder = t.testdir({ 'models.json': JSON.stringify({ default: 'good', models: { hollow: { model: 'hollow.gguf', pinned: true }, good: { model: 'builtin' } } }) });
  writeFileSync(join(folder, 'hollow.gguf'), gguf(sound));
  const running = start(['api', '--models', join(folder, 'models.json'), ...small]);
  const url = await served(running);
  await running.saw(/Warning: hollow is not loaded: /);
  await running.saw(/^Default: good$/m);
  t.same(await (await fetch(`${url}/health/ready`)).json(), { status: 'ready' });
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0 });
});

t.test('api serves a file whose path has spaces and non-ASCII letters', async (t) => {
  const path = join(t.testdir(), 'mi ñandú 你好.gguf');
  copyFileSync(join(root, 'builtin', 'builtin.gguf'), path);
  const running = start(['api', path, ...small]);
  const url = await served(running);
  t.match(await (await fetch(`${url}/v1/models`)).json(), { data: [{ id: 'mi ñandú 你好' }] });
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 0 });
});
