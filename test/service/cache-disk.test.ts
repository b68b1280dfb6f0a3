// Conversations that outlive the server, after a restart and after a kill.
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../cli/home.js';
import { recua, start } from '../cli/recua.js';
import { chat, enginePid, post, type Message } from './service.js';

async function serve(t: Test, home: string, args: readonly string[] = ['builtin'], flags: readonly string[] = ['--cache-disk', '100']) {
  const running = start(['api', ...args, '--port', '0', '--threads', '1', '--parallel', '1', '--ctx-size', '0', '--log-level', 'debug', ...flags], { env: { SERVICE_HOME: home } });
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (running.child.exitCode === null && running.child.signalCode === null) running.child.kill(signal);
    return await running.ended;
  };
  t.teardown(() => stop());
  const [, url] = await running.saw(/Recua listens on (http:\/\/\S+)/);
  return { url: url!, pid: running.child.pid!, stop, log: () => running.stderr() };
}

const folderOf = (home: string) => join(home, 'recua', 'conversations');
const filesOf = (home: string) => readdirSync(folderOf(home), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.kv')).map((name) => join(folderOf(home), name));
const long: Message[] = [{ role: 'system', content: 'You are a patient teacher of llamas. '.repeat(60) }, { role: 'user', content: 'Tell me about the mountains.' }];
const ask = async (url: string, messages: Message[], model?: string) => {
  const { choices, usage } = await chat(url, messages, { max_tokens: 20, ...(model ? { model } : {}) });
  return { content: choices[0]!.message.content!, cached: usage.prompt_tokens_details.cached_tokens, prompt: usage.prompt_tokens };
};

for (const [name, args] of [['one model', ['builtin']], ['several', ['builtin', '--keep-alive', '600']]] as const) {
  t.test(`the next turn after a restart reads nothing again: ${name}`, async (t) => {
    const home = t.testdir();
    const first = await serve(t, home, args);
    const before = await ask(first.url, long);
    const turn: Message[] = [...long, { role: 'assistant', content: before.content }, { role: 'user', content: 'And the lakes?' }];
    const expected = await ask(first.url, turn);
    t.ok(expected.cached >= before.prompt);
    await first.stop();
    t.equal(filesOf(home).length, 1);
    t.equal(statSync(filesOf(home)[0]!).mode & 0o777, 0o600);
    const second = await serve(t, home, args);
    const after = await ask(second.url, turn);
    t.equal(after.content, expected.content);
    t.ok(after.cached >= expected.prompt - 1, `${after.cached} of ${after.prompt}`);
    await second.stop();
    // A server without the flag neither reads nor removes them.
    const plain = await serve(t, home, args, []);
    t.equal((await ask(plain.url, turn)).cached, 0);
    await plain.stop();
    t.equal(filesOf(home).length, 1);
  });
}

t.test('a stop that reaches all processes of the server loses nothing', { skip: process.platform === 'win32' }, async (t) => {
  const home = t.testdir();
  const server = await serve(t, home);
  await ask(server.url, long);
  // As systemd does unless a unit says otherwise. The engine has not been idle for long.
  process.kill(enginePid(server.pid), 'SIGTERM');
  await server.stop();
  t.equal(filesOf(home).length, 1);
});

t.test('a killed server had saved its idle conversations, and a damaged file is dropped with a warning', async (t) => {
  const home = t.testdir();
  const first = await serve(t, home);
  const { prompt } = await ask(first.url, long);
  await until(() => { try { return filesOf(home).length === 1; } catch { return false; } });
  const written = readFileSync(filesOf(home)[0]!);
  // With nothing new, nothing is written again.
  await new Promise((resolve) => setTimeout(resolve, 4000));
  t.ok(readFileSync(filesOf(home)[0]!).equals(written));
  await first.stop('SIGKILL');
  const second = await serve(t, home);
  t.ok((await ask(second.url, long)).cached >= prompt - 1);
  await second.stop();
  const [file] = filesOf(home);
  truncateSync(file!, statSync(file!).size - 100);
  const third = await serve(t, home);
  t.equal((await ask(third.url, long)).cached, 0);
  t.match(third.log(), /A kept conversation must be evaluated again/);
});

t.test('recua cache shows what is kept, and clears it', async (t) => {
  const home = t.testdir();
  const env = { SERVICE_HOME: home };
  t.match(await recua(['cache'], '', { env }), { code: 0, stdout: /No conversations are kept/ });
  const first = await serve(t, home);
  await ask(first.url, long);
  await post(first.url, '/v1/chat/completions', { messages: [{ role: 'user', content: 'Another conversation, quite another one, of other words.' }], max_tokens: 30 });
  await until(() => { try { return filesOf(home).length === 2; } catch { return false; } });
  t.match(await recua(['cache', 'clear', 'builtin'], '', { env }), { code: 0, stderr: /Removed 2 conversations/ });
  // The running server keeps what it computes.
  await ask(first.url, [...long, { role: 'assistant', content: 'They are high.' }, { role: 'user', content: 'How high?' }]);
  await first.stop();
  t.notMatch(first.log(), /not kept/);
  const listed = await recua(['cache'], '', { env });
  t.match(listed.stdout, /builtin +[12] +\d[\d.]* [KM]iB/);
  const json = JSON.parse((await recua(['cache', '--json'], '', { env })).stdout) as { models: { id: string; conversations: number; sizeBytes: number }[] };
  t.match(json.models, [{ id: 'builtin', conversations: Number, sizeBytes: Number }]);
  t.match(await recua(['cache', 'clean'], '', { env }), { code: 2, stderr: /clear/ });
  writeFileSync(join(folderOf(home), 'not-ours'), '');
  t.match(await recua(['cache', 'clear'], '', { env }), { code: 0 });
  t.same(filesOf(home), []);
  t.ok(statSync(join(folderOf(home), 'not-ours')).isFile());
});
