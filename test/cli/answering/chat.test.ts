// A conversation whose answers come from a running server, and what happens if the server can no
// longer give them.
import t from 'tap';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkedFiles, fingerprintOf, readModelFile } from '#recua/models/gguf/model-file.js';
import { builtinPath } from '#recua/models/store.js';
import { always, endless, engineOf, readSaved, sessionFiles, startChat } from '../chat/chats.js';
import { makeHome } from '../home.js';
import { serveHome, standIn } from './servers.js';
import type { ServedHome } from './servers.js';

type Chat = ReturnType<typeof startChat>;

async function openServed(
  t: Parameters<typeof startChat>[0],
  served: ServedHome,
  args: readonly string[],
  more: { columns?: number; env?: Record<string, string> } = {},
): Promise<Chat> {
  const chat = startChat(t, args, { columns: 120, ...more, home: served.env['SERVICE_HOME']!, env: { ...served.env, ...more.env } });
  await chat.prompt();
  return chat;
}

t.test('a chat over a running server shows its line, counts and context, and is saved and resumed', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '512']);
  const chat = await openServed(t, home, ['builtin', '--temp', '0']);
  const line = `The running server ${home.url} answers, with a context of 512 tokens; --local loads the model here.`;
  t.ok(chat.text().includes(line), chat.text());
  t.ok(chat.isDim('The running server'));
  t.notMatch(chat.text(), /Loading|Context:/);
  await chat.say('Hello');
  await chat.say('And now?');
  t.match(await chat.say('/tokens'), /Prompt +\d+ tokens, [1-9]\d* of them cached[^]*Context +\d+ of 512 tokens[^]*All answers +2/);
  t.match(await chat.say('/stats'), /Model +llama [^]*read in [^]*tokens per second[^]*Ended +by itself[^]*Seed +\d+/);
  t.match(await chat.say('/system Be brief.'), /The system prompt is set/);
  chat.type(`\x1b[200~${'word '.repeat(600)}\x1b[201~\r`);
  await chat.until(/This message does not fit: with it the conversation has \d+ tokens, and the context holds 512/);
  await chat.prompt();
  t.match(await chat.say('/clear'), /Cleared; the next message starts a new conversation/);
  await chat.say('Hello again');
  t.equal(await chat.leave(), 0);
  t.equal(await home.requests(), 4);
  const saved = home.env['SERVICE_HOME']!;
  t.equal(sessionFiles(saved).length, 2);
  t.notOk(readdirSync(join(saved, 'sessions')).some((name) => name.endsWith('.kv')), 'what was read is kept by the server');
  const resumed = await openServed(t, home, ['--continue', '--temp', '0']);
  t.match(resumed.text(), /> Hello again/);
  await resumed.say('More');
  t.match(await resumed.say('/tokens'), /[1-9]\d* of them cached/);
  t.equal(await resumed.leave(), 0);
  t.equal(await home.requests(), 5);
  const quiet = await openServed(t, home, ['builtin', '-q']);
  t.equal(quiet.text(), '>');
});

t.test('Ctrl-C keeps the partial answer, and /retry asks again', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '0']);
  const chat = await openServed(t, home, ['builtin', ...endless]);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  chat.type('\x03');
  await chat.until(/\(stopped; \/retry asks again\)/);
  await chat.prompt();
  t.match(await chat.say('/tokens'), /Prompt +[1-9]\d* tokens\nGenerated +[1-9]\d* tokens\nContext/);
  const [, reply] = readSaved(chat.home).messages;
  t.match(reply, { role: 'assistant', ended: 'stopped', content: /^[a-z]{5,}$/ });
  t.equal(await chat.leave(), 0);
});

t.test('Ctrl-C ends an answer of a server that is stuck, and keeps its text', { skip: process.platform === 'win32' }, async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '0']);
  const chat = await openServed(t, home, ['builtin', ...endless]);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  home.running.child.kill('SIGSTOP');
  chat.type('\x03');
  await chat.until(/\(stopped; \/retry asks again\)/);
  await chat.prompt();
  t.match(readSaved(chat.home).messages[1], { role: 'assistant', ended: 'stopped', content: /^[a-z]{5,}$/ });
  t.match(await chat.say('/tokens'), /its tokens could not be counted/);
  t.equal(await chat.leave(), 0);
});

t.test('Ctrl-C ends an answer of an engine that is stuck, and the chat can be left', { skip: process.platform !== 'linux' }, async (t) => {
  const chat = startChat(t, ['builtin', ...endless]);
  await chat.prompt();
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  process.kill(engineOf(chat.pid), 'SIGSTOP');
  chat.type('\x03');
  await chat.until(/\(stopped; \/retry asks again\)/);
  await chat.prompt();
  t.match(await chat.say('/tokens'), /its tokens could not be counted/);
  // Ctrl-D waits until the KV cache is saved, and Ctrl-C ends that.
  chat.type('\x04');
  const again = setInterval(() => chat.type('\x03'), 200);
  t.match(await chat.ended, { exitCode: 130 });
  clearInterval(again);
});

t.test('a server that dies is reported, the message is kept, and the next turn loads the model', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1']);
  const chat = await openServed(t, home, ['builtin', ...always('Yes.')]);
  await chat.say('First');
  home.running.child.kill('SIGKILL');
  await home.running.ended;
  chat.type('Second\r');
  await chat.until(/The server http:\S+ refuses the connection[^]*The next message looks for the model again/);
  await chat.until(() => chat.cursor().line === '> Second', 'the message again');
  chat.type('\r');
  await chat.until(/> Second\nYes\./);
  await chat.prompt();
  t.same(readSaved(chat.home).messages.map(({ content }) => content), ['First', 'Yes.', 'Second', 'Yes.']);
  t.match(await chat.say('/tokens'), /Prompt +\d+ tokens, 0 of them cached/);
  t.equal(await chat.leave(), 0);
  t.ok(existsSync(join(chat.home, 'sessions', sessionFiles(chat.home)[0]!.replace('.json', '.kv'))));
});

t.test('a server that dies during an answer leaves the partial answer', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '0']);
  const chat = await openServed(t, home, ['builtin', ...endless]);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  home.running.child.kill('SIGKILL');
  await chat.until(/ended the connection before its answer was complete[^]*The part before the error is kept/);
  await chat.prompt();
  t.match(readSaved(chat.home).messages[1], { ended: 'failed', content: /^[a-z]{5,}$/ });
  chat.type('on\r');
  await chat.until(/> on\n[a-z]{5}/);
  chat.type('\x03');
  await chat.prompt();
  t.equal(await chat.leave(), 0);
});

t.test('a server that counts in no way keeps the partial answer', async (t) => {
  const home = makeHome(t);
  const file = await readModelFile(builtinPath);
  const model = { id: 'builtin', status: { value: 'loaded' }, capabilities: ['completion'], meta: { fingerprint: fingerprintOf(checkedFiles(file)), description: 'a proxy', n_ctx: 512 } };
  let counts: unknown;
  await standIn(t, home, (req, res) => {
    if (req.method === 'GET') return void res.end(JSON.stringify({ data: [model] }));
    if (req.url !== '/v1/chat/completions') return void res.end(JSON.stringify(counts));
    res.write('data: {"choices":[{"delta":{"content":"so far"},"finish_reason":null}]}\n\n', () => res.destroy());
  });
  for (counts of [null, {}, { input_tokens: 3, tokens: 5 }, { input_tokens: 'many', tokens: [] }]) {
    const chat = startChat(t, ['builtin'], { columns: 120, home: home.env['SERVICE_HOME']!, env: home.env });
    await chat.prompt();
    chat.type('go\r');
    await chat.until(/ended the connection before its answer was complete[^]*The part before the error is kept/);
    await chat.prompt();
    t.notMatch(chat.text(), /NaN|undefined|Cannot/);
    t.equal(await chat.leave(), 0);
    const saved = sessionFiles(chat.home).map((name) => JSON.parse(readFileSync(join(chat.home, 'sessions', name), 'utf8')) as { messages: unknown[] });
    for (const { messages } of saved) t.match(messages[1], { ended: 'failed', content: 'so far' });
  }
});

/** While it restarts there is none. */
function livingEngineOf(pid: number): number | undefined {
  try {
    return engineOf(pid);
  } catch {
    return undefined;
  }
}

t.test('an answer that kills the model on the server again and again is reported, and the chat continues there', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1', '-c', '0']);
  const chat = await openServed(t, home, ['builtin', ...endless]);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  const { pid } = home.running.child;
  let isTold = false;
  // Kills each process as soon as it works on the answer, before it has got much further.
  const kill = async (): Promise<void> => {
    for (let last = 0; !isTold;) {
      const { running } = await (await fetch(`${home.url}/health`)).json() as { running?: number };
      const engine = livingEngineOf(pid!);
      if (engine !== undefined && engine !== last && running) process.kill(last = engine, 'SIGKILL');
    }
  };
  const told = chat.until(/The engine process died \(signal SIGKILL\)[^]*The model is back\.[^]*The part before the error is kept/);
  await Promise.all([kill(), told.finally(() => (isTold = true))]);
  await chat.prompt();
  chat.type('again\r');
  await chat.until(/> again\n[a-z]{5}/);
  chat.type('\x03');
  await chat.prompt();
  t.notMatch(chat.text(), /Loading/);
  t.equal(await chat.leave(), 0);
});

t.test('a template that the server does not have is used locally', async (t) => {
  const home = await serveHome(t, ['builtin', '--parallel', '1']);
  const chat = await openServed(t, home, ['builtin', '-g', 'root ::= "yes<|end|> and more"']);
  const before = await home.requests();
  t.match(await chat.say('/template phi3'), /The template is phi3 now\. The server http\S+ uses the model's own, so your next message loads the model\s+in this chat\./);
  t.match(await chat.say('Is it?'), /^yes$/m);
  t.match(await chat.say('/template llama3'), /^The template is llama3 now\.$/, 'the model is here by now');
  t.equal(await home.requests(), before);
  t.equal(await chat.leave(), 0);
});
