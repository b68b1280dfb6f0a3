// `recua run`, and single turns of `recua chat`, beside a server that has the model loaded.
import t from 'tap';
import { copyFileSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { makeHome, until } from '../home.js';
import { recua, start } from '../recua.js';
import { serveHome, standIn } from './servers.js';

const story = ['-p', 'Tell me a story'];

t.test('a running server answers like a local engine', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '2']);
  for (const args of [
    ['run', 'builtin', ...story, '--temp', '0', '-n', '40'],
    ['run', 'builtin', ...story, '--temp', '3', '--seed', '7', '--top-k', '0', '--top-p', '1', '--min-p', '0.01', '--repeat-penalty', '1.3', '-n', '40'],
    ['run', 'builtin', ...story, '-s', 'Be brief.', '-g', 'root ::= ("a " | "b ")+', '--seed', '5', '-n', '20'],
    ['chat', 'builtin', ...story, '--temp', '1', '--seed', '4294967294', '-n', '40'],
  ]) {
    const before = await home.requests();
    const served = await home.recua(args);
    t.equal(await home.requests(), before + 1, `the server was asked: ${args.join(' ')}`);
    const own = await home.recua([...args, '--local']);
    t.equal(await home.requests(), before + 1, '--local asks nobody');
    t.match(own.stderr, /Loading builtin/);
    t.notMatch(served.stderr, /Loading|Context:/);
    t.match(served, { code: 0, stdout: own.stdout });
    t.not(served.stdout.trim(), '');
  }
});

t.test('a model is found by the name that a server gives it', async (t) => {
  const home = await serveHome(t, ['builtin', '--alias', 'local', '--parallel', '1']);
  const before = await home.requests();
  for (const args of [['run', 'local'], ['run', 'LOCAL'], ['chat', 'local']]) t.match(await home.recua([...args, ...story, '-n', '2']), { code: 0 });
  t.equal(await home.requests(), before + 3);
  t.match(await home.recua(['run', 'other', ...story]), { code: 1, stderr: /There is no model other/ });
  const path = join(home.folder, 'own.gguf');
  copyFileSync(builtinPath, path);
  const other = await serveHome(t, [path, '--alias', 'mine', '--parallel', '1'], home);
  t.match(await home.recua(['run', 'mine', ...story, '-n', '2']), { code: 0 }, 'though its file is not in the store');
  t.equal(await other.requests(), 1);
  await standIn(t, home, (_, response) => response.end(JSON.stringify({ data: [{ id: 'far', status: { value: 'loaded' }, capabilities: ['completion'], meta: { fingerprint: 'x', description: 'x', n_ctx: 512 } }] })));
  t.match(await home.recua(['run', 'far', ...story]), { code: 1, stderr: /The server http\S+ has a model of that name, far, but .*name the file, or add it: recua import FILE/ });
});

t.test('a name of a models file is found before its model was loaded', async (t) => {
  const home = makeHome(t);
  const models = join(home.folder, 'models.json');
  writeFileSync(models, JSON.stringify({ models: { quick: { model: 'builtin', aliases: ['fast'] } } }));
  const served = await serveHome(t, ['--models', models, '--parallel', '1'], home);
  const before = await served.requests();
  t.match(await served.recua(['run', 'fast', ...story, '--local']), { code: 1, stderr: /The server http\S+ has a model of that name, fast, but has not loaded it: recua load fast/ });
  const asked: string[] = [];
  await standIn(t, home, ({ url }, response) => {
    asked.push(url!);
    if (url === '/models/load') response.writeHead(500).end(JSON.stringify({ error: { message: 'It is cut off.', code: 'invalid_gguf' } }));
    else response.end(JSON.stringify({ data: [{ id: 'fast', status: { value: 'unloaded' }, capabilities: ['completion'] }] }));
  });
  t.match(await served.recua(['run', 'fast', ...story, '-n', '2']), { code: 0 }, 'from another server than the one that cannot load it');
  t.ok(asked.includes('/models/load'));
  t.match(await served.recua(['run', 'quick', ...story, '-n', '2']), { code: 0 });
  t.equal(await served.requests(), before + 2);
});

t.test('--json, cut answers and refusals are the same', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '512']);
  const json = async (...args: string[]) => JSON.parse((await home.recua(['run', 'builtin', ...story, '--json', '--temp', '0', ...args])).stdout);
  const [served, own] = [await json('--seed', '9'), await json('--seed', '9', '--local')];
  t.strictSame(Object.keys(served), Object.keys(own));
  t.strictSame(Object.keys(served.timings), Object.keys(own.timings));
  t.strictSame([served.content, served.finish_reason, served.usage, served.seed], [own.content, own.finish_reason, own.usage, 9]);
  t.ok(served.timings.prompt_ms > 0 && served.timings.generate_ms > 0);
  t.ok(Number.isInteger((await json()).seed), 'a seed that was drawn is told, too');
  t.match(await home.recua(['run', 'builtin', ...story, '-n', '2', '--temp', '0']), { code: 0, stderr: 'recua: the answer was cut off after 2 tokens.\n' });
  t.match(await home.recua(['run', 'builtin', '-q'], 'word '.repeat(600)), { code: 1, stdout: '', stderr: /^recua: .*fewer than 512 tokens.* The running server http\S+ answers here; with --local or -c, / });
  const grammar = await home.recua(['run', 'builtin', ...story, '-g', 'root ::= (']);
  t.match(grammar, { code: 1, stdout: '' });
  t.equal(grammar.stderr.split('The grammar cannot be used').length, 2, grammar.stderr);
});

t.test('options that need a load, and another file, load the model locally', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1']);
  const twin = join(home.folder, 'builtin.gguf');
  copyFileSync(builtinPath, twin);
  const before = await home.requests();
  const ask = (name: string, ...args: string[]) => ['run', name, ...story, '-n', '2', ...args];
  for (const args of [ask('builtin', '-c', '256'), ask('builtin', '--threads', '1'), ask(twin), ['chat', 'builtin', '-p', 'Hi', '-n', '2', '-t', 'chatml']]) {
    t.match(await home.recua(args), { code: 0, stdout: /\S/, stderr: /Loading builtin/ }, args.join(' '));
  }
  const env = { ...home.env, RECUA_CTX_SIZE: '256' };
  const variable = start(ask('builtin'), { env });
  variable.child.stdin.end();
  t.match(await variable.ended, { code: 0, stderr: /Loading builtin/ }, 'a variable says how to load');
  t.equal(await home.requests(), before);
  t.match(await home.recua(ask('builtin')), { code: 0, stderr: /^recua: the answer was cut off/ });
  t.equal(await home.requests(), before + 1, 'it would have answered');
});

t.test('Ctrl-C ends the answer at once, on the server and locally', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '0']);
  const running = start(['run', 'builtin', ...story, '-n', '1000000', '--temp', '1', '-g', 'root ::= [a-z] root'], { env: home.env });
  running.child.stdin.end();
  await running.saw(/^[a-z]{5}/);
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130, signal: null, stdout: /^[a-z]+\n$/ });
  await until(async () => (await (await fetch(`${home.url}/health`)).json() as { running: number }).running === 0);
});

t.test('a server that dies is reported, and one that is gone is not asked', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1']);
  const running = start(['run', 'builtin', ...story, '-n', '1000000', '--temp', '1', '-g', 'root ::= [a-z] root'], { env: home.env });
  running.child.stdin.end();
  await running.saw(/^[a-z]{5}/);
  home.running.child.kill('SIGKILL');
  t.match(await running.ended, { code: 1, stdout: /^[a-z]+\n$/, stderr: /recua: The server http:\S+ ended the connection before its answer was complete/ });
  t.match(await home.recua(['run', 'builtin', ...story, '-n', '2']), { code: 0, stderr: /Loading builtin/ });
});

t.test('servers that do not answer, or answer nonsense, are skipped', async (t) => {
  const home = makeHome(t);
  const listeners: RequestListener[] = [
    () => undefined,
    (_req, res) => res.end('<html>'),
    (_req, res) => res.end('{"data":[null,{"id":"builtin","status":{"value":"loaded"},"capabilities":["completion"]}]}'),
    (_req, res) => res.end('{"data":[{"id":"builtin","status":{"value":"loaded"},"capabilities":["completion"],"meta":null}]}'),
  ];
  for (const listener of listeners) await standIn(t, home, listener);
  t.match(await recua(['run', 'builtin', ...story, '-n', '2'], '', { env: home.env }), { code: 0, stdout: /\S/, stderr: /Loading builtin/ });
});
