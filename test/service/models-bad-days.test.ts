// A server of several models when much goes wrong at once, with real processes.
import { spawnSync } from 'node:child_process';
import { appendFileSync, copyFileSync, existsSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { start } from '../cli/recua.js';
import { commitB, put } from '../models/hub-layout.js';
import { post } from './service.js';

interface ListedModel {
  id: string;
  file?: string;
  status: { value: string };
}

async function serve(t: Test, folder: string, models: Record<string, object>, ...flags: string[]) {
  const file = join(folder, 'models.json');
  writeFileSync(file, JSON.stringify({ models }));
  const running = start(['api', '--models', file, '--port', '0', '--threads', '1', '--ctx-size', '256', '--parallel', '1', ...flags], {
    bare: process.platform !== 'win32',
  });
  t.teardown(async () => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill('SIGTERM');
    await running.ended;
  });
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  const list = async () => (await (await fetch(`${url}/v1/models`)).json() as { data: ListedModel[] }).data;
  const state = async (id: string) => (await list()).find((model) => model.id === id)!;
  const ask = async (model: string, more: object = {}) => {
    const response = await post(url!, '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello!' }], temperature: 0, max_tokens: 2, ...more });
    return await response.json() as { model?: string; error?: { code: string; message: string } };
  };
  return { running, pid: running.child.pid!, url: url!, list, state, ask };
}

const children = (pid: number): number[] => spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' }).stdout.split('\n').map(Number).filter((one) => one > 0);
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

/** A dead orphan may stay a zombie if nobody reaps it. */
function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

t.test('two clients ask for 20 models at once with room for two: all are answered', async (t) => {
  const folder = t.testdir();
  const names = Array.from({ length: 20 }, (_, i) => `model-${i}`);
  for (const name of names) symlinkSync(builtinPath, join(folder, `${name}.gguf`));
  const { pid, ask } = await serve(t, folder, Object.fromEntries(names.map((name) => [name, { model: `${name}.gguf` }])), '--max-models', '2');
  let done = false;
  let most = 0;
  const watching = (async () => {
    while (!done) {
      most = Math.max(most, children(pid).length);
      await pause();
    }
  })();
  const clients = await Promise.all([names, names.toReversed()].map((order) => Promise.all(order.map((name) => ask(name)))));
  done = true;
  await watching;
  t.strictSame(clients[0]!.map(({ model }) => model), names);
  t.strictSame(clients[1]!.map(({ model }) => model), names.toReversed());
  t.ok(most >= 1 && most <= 2, `${most} processes at once`);
});

for (const [what, path, asked] of [
  ['stream', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello!' }], stream: true, ignore_eos: true, max_tokens: 200, n: 64, logprobs: true, top_logprobs: 20 }],
  ['answer', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello!' }], ignore_eos: true, max_tokens: 200, n: 64, logprobs: true, top_logprobs: 20 }],
  ['list of tokens', '/tokenize', { content: '$~'.repeat(2_000_000) }],
] as const) t.test(`a client that does not read its ${what} keeps no other model from loading`, async (t) => {
  const folder = t.testdir();
  for (const name of ['a', 'b']) symlinkSync(builtinPath, join(folder, `${name}.gguf`));
  const { url, ask, state } = await serve(t, folder, { a: { model: 'a.gguf' }, b: { model: 'b.gguf' } }, '--max-models', '1');
  // More than the sockets hold: log probabilities of 20 tokens beside each token.
  const body = JSON.stringify({ model: 'a', ...asked });
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.pause();
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  while ((await state('a')).status.value !== 'loaded') await pause();
  t.equal((await ask('b')).model, 'b');
  let read = 0;
  socket.on('data', (piece: Buffer) => { read += piece.length; }).resume();
  while (read < 12_000_000) await pause();
  t.pass('and it gets its answer later');
});

t.test('a file that vanishes or changes while loaded is served on, reported, and loaded again the next time', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'chat.gguf');
  copyFileSync(builtinPath, path);
  const { running, url, ask, state } = await serve(t, folder, { chat: { model: 'chat.gguf' } });
  t.equal((await ask('chat')).model, 'chat');
  t.notOk((await state('chat')).file);
  copyFileSync(builtinPath, `${path}.new`);
  appendFileSync(`${path}.new`, '\0');
  renameSync(`${path}.new`, path);
  t.match(await state('chat'), { status: { value: 'loaded' }, file: 'changed' });
  await running.saw(/chat: its file has changed; the loaded model keeps serving/);
  t.equal((await ask('chat')).model, 'chat');
  await post(url, '/models/unload', { model: 'chat' });
  t.equal((await ask('chat')).model, 'chat');
  await running.saw(/chat: its file or its settings changed since it was loaded last/);
  t.notOk((await state('chat')).file);
  rmSync(path);
  t.match(await state('chat'), { status: { value: 'loaded' }, file: 'gone' });
  t.equal((await ask('chat')).model, 'chat', 'what is loaded is served on');
  await post(url, '/models/unload', { model: 'chat' });
  t.match(await ask('chat'), { error: { code: 'model_not_found', message: /chat cannot be loaded: There is no file chat\.gguf/ } });
  writeFileSync(path, 'no model');
  t.match(await ask('chat'), { error: { code: 'invalid_gguf' } });
  if (process.platform !== 'win32') {
    rmSync(path);
    spawnSync('mkfifo', [path]);
    t.match(await ask('chat'), { error: { code: 'file_unreadable', message: /not a regular file/ } }, 'nobody waits for a pipe');
  }
  rmSync(path);
  copyFileSync(builtinPath, path);
  t.equal((await ask('chat')).model, 'chat', 'and it is back');
});

for (const [kind, names] of [['one model', ['a/b']], ['all models', []]] as const) {
  t.test(`a server of ${kind}: one that was imported again is found after a crash, and its answer goes on`, { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
    const hub = join(t.testdir({ hub: {} }), 'hub');
    const entry = { repo: 'a/b', file: 'm.gguf', bytes: readFileSync(builtinPath) };
    const path = put(hub, entry);
    const running = start(['api', ...names, '--port', '0', '--threads', '1', '--ctx-size', '4096'], { bare: true, env: { HUB_HOME: hub } });
    t.teardown(async () => {
      running.child.kill('SIGTERM');
      await running.ended;
    });
    const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
    const body = { model: 'a/b', prompt: 'Hello', max_tokens: 4_000, temperature: 0, ignore_eos: true, stream_options: { include_usage: true } };
    const whole = await (await post(url!, '/v1/completions', body)).json() as { choices: { text: string }[] };
    const answer = await post(url!, '/v1/completions', { ...body, stream: true });
    rmSync(path);
    put(hub, { ...entry, bytes: Buffer.concat([entry.bytes, Buffer.alloc(1)]), commit: commitB });
    let read = '';
    const decoder = new TextDecoder();
    for await (const piece of answer.body as unknown as AsyncIterable<Uint8Array>) {
      if (read === '') for (const engine of children(running.child.pid!)) process.kill(engine, 'SIGKILL');
      read += decoder.decode(piece, { stream: true });
    }
    t.match(running.stderr(), /the engine process runs again, with a file of the model that has changed/);
    const events = read.split('\n\n').filter((event) => event.startsWith('data: {')).map((event) => JSON.parse(event.slice(6)) as { choices: { text: string }[]; usage?: { completion_tokens: number } });
    t.equal(events.map(({ choices }) => choices[0]?.text ?? '').join(''), whole.choices[0]!.text);
    t.equal(events.at(-1)!.usage?.completion_tokens, 4_000);
  });
}

t.test('a file cut short in place ends its engine, and requests are told why', async (t) => {
  const folder = t.testdir();
  const model = join(folder, 'a.gguf');
  copyFileSync(builtinPath, model);
  symlinkSync(builtinPath, join(folder, 'b.gguf'));
  const { ask } = await serve(t, folder, { a: { model: 'a.gguf' }, b: { model: 'b.gguf' } });
  t.equal((await ask('a')).model, 'a');
  truncateSync(model, 100_000);
  let answer = await ask('a');
  // What the engine had read of the file may be enough for one more answer.
  for (let i = 0; i < 5 && answer.error === undefined; i++) answer = await ask('a', { max_tokens: 20, messages: [{ role: 'user', content: `Tell me about ${i}.` }] });
  t.match(answer.error, { code: 'invalid_gguf', message: /a\.gguf/ });
  t.equal((await ask('b')).model, 'b');
});

t.test('an engine that dies is restarted and its answers continue, and the others notice nothing', async (t) => {
  const folder = t.testdir();
  for (const name of ['a', 'b']) copyFileSync(builtinPath, join(folder, `${name}.gguf`));
  const { pid, ask, url } = await serve(t, folder, { a: { model: 'a.gguf' }, b: { model: 'b.gguf' } }, '--ctx-size', '2048');
  await ask('a');
  const [engineOfA] = children(pid);
  await ask('b');
  const long = { stream: true, max_tokens: 1_500, ignore_eos: true };
  const stream = async (model: string) => (await post(url, '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello!' }], ...long })).body!;
  const other = new Response(await stream('b')).text();
  const reader = (await stream('a')).pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  process.kill(engineOfA!, 'SIGKILL');
  let text = '';
  for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
  t.match(text, /"finish_reason":"length"[^]*\[DONE\]/);
  t.match(await other, /"finish_reason":"length"[^]*\[DONE\]/);
  t.equal((await ask('a')).model, 'a', 'it is back');
});

t.test('when the gateway is killed, all engines end', async (t) => {
  const folder = t.testdir();
  for (const name of ['a', 'b']) copyFileSync(builtinPath, join(folder, `${name}.gguf`));
  const { running, pid, ask } = await serve(t, folder, { a: { model: 'a.gguf' }, b: { model: 'b.gguf' } });
  await Promise.all([ask('a'), ask('b')]);
  const engines = children(pid);
  t.equal(engines.length, 2);
  ask('b', { max_tokens: 200, ignore_eos: true }).catch(() => undefined);
  running.child.kill('SIGKILL');
  await running.ended;
  while (engines.some(alive)) await pause();
  t.notOk(engines.some(alive));
});

t.test('an idle gateway is small', { skip: process.platform === 'win32' && 'by ps' }, async (t) => {
  const folder = t.testdir();
  copyFileSync(builtinPath, join(folder, 'a.gguf'));
  const { pid, ask, url } = await serve(t, folder, { a: { model: 'a.gguf' } });
  await ask('a');
  await post(url, '/models/unload', { model: 'a' });
  // V8 releases memory of the start and the request some seconds after the last of them.
  const rss = () => 1024 * Number(spawnSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' }).stdout);
  const end = Date.now() + 60_000;
  while (rss() >= 80_000_000 && Date.now() < end) await new Promise((done) => setTimeout(done, 500));
  t.ok(rss() > 1_000_000 && rss() < 80_000_000, `${Math.round(rss() / 2 ** 20)} MiB`);
});
