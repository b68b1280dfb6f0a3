// Saved chats across the life and death of the processes that write them.
import t from 'tap';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { always, endless, openChat, readSaved, sessionFiles, sharedFolder, startChat } from '../chats.js';
import { recua } from '../../recua.js';

const kv = (home: string, name: string) => join(home, 'sessions', `${name}.kv`);
const nameIn = (home: string) => sessionFiles(home)[0]!.replace('.json', '');

t.test('a chat is saved after each turn, privately, under a name made of its day and first words', async (t) => {
  const chat = await openChat(t, ['--temp', '0']);
  await chat.say('Hello, who are YOU? Tell me a story about mountains');
  const [file] = sessionFiles(chat.home);
  t.match(file, /^\d{4}-\d\d-\d\d-hello-who-are-you-tell-me\.json$/);
  const path = join(chat.home, 'sessions', file!);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.equal(statSync(join(chat.home, 'sessions')).mode & 0o777, 0o700);
  t.match(readSaved(chat.home), { messages: [{ role: 'user' }, { role: 'assistant', ended: 'stop', usage: { prompt_tokens: Number }, timings: { prompt_ms: Number } }] });
  chat.type('\x04');
  await chat.ended;
  t.match(chat.text(), new RegExp(`Saved as ${file!.replace('.json', '')}`));
  t.same(readdirSync(join(chat.home, 'sessions')).sort(), [file, file!.replace('.json', '.kv')], 'no lock is left');
  t.equal(statSync(kv(chat.home, nameIn(chat.home))).mode & 0o777, 0o600);
});

t.test('a file that another program changed is not overwritten; the chat goes on under another name', async (t) => {
  const chat = await openChat(t, ['--temp', '0']);
  await chat.say('Hello');
  const name = nameIn(chat.home);
  const path = join(chat.home, 'sessions', `${name}.json`);
  const edited = JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')) as object, system: 'Edited.' });
  writeFileSync(path, edited);
  t.match(await chat.say('Who are you?'), new RegExp(`Another program has changed the saved chat ${name}, so it is not\\s+overwritten[^]*/save <name>`));
  t.equal(readFileSync(path, 'utf8'), edited);
  t.match(await chat.say('/save mine'), new RegExp(`Saved as mine\\. ${name} stays as it was`));
  t.equal(readFileSync(path, 'utf8'), edited);
  await chat.say('And now?');
  t.equal((JSON.parse(readFileSync(join(chat.home, 'sessions', 'mine.json'), 'utf8')) as { messages: unknown[] }).messages.length, 6);
  writeFileSync(join(chat.home, 'sessions', 'mine.json'), edited);
  await chat.say('Bye.');
  await chat.leave();
  t.match(chat.text(), /The last turns are not saved\./);
});

t.test('a file that another program changed is taken over by loading it again', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('Hello');
  const name = nameIn(chat.home);
  const path = join(chat.home, 'sessions', `${name}.json`);
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')) as object, system: 'Edited.' }));
  t.match(await chat.say('Who are you?'), /To\s+go\s+on\s+with what the file holds: \/load/);
  t.match(await chat.say(`/load ${name}`), /Loaded .*: 1 exchange/);
  t.match(await chat.say('/system'), /Edited\./);
  await chat.say('And now?');
  const saved = JSON.parse(readFileSync(path, 'utf8')) as { system: string; messages: { content: string }[] };
  t.match(saved, { system: 'Edited.' });
  t.strictSame(saved.messages.map(({ content }) => content), ['Hello', 'ok', 'And now?', 'ok']);
  await chat.leave();
  t.notMatch(chat.text(), /The last turns are not saved\./);
});

t.test('a chat whose file was removed gets a new name like any other', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('Hello');
  rmSync(join(chat.home, 'sessions', `${nameIn(chat.home)}.json`));
  t.match(await chat.say('/save mine'), /Saved as mine\./);
  t.same(sessionFiles(chat.home), ['mine.json']);
  await chat.leave();
});

t.test('--no-save writes nothing anywhere, but /save NAME still does', async (t) => {
  const chat = await openChat(t, ['--no-save', ...always('ok')]);
  await chat.say('Hello');
  t.same(readdirSync(chat.home), ['recua']);
  t.same(readdirSync(join(chat.home, 'recua')), ['used'], 'when a model was used is noted, no history');
  t.match(await chat.say('/save kept'), /Saved as kept, as it is now/);
  await chat.say('not kept');
  await chat.leave();
  t.same(readdirSync(chat.home), ['recua', 'sessions']);
  t.same(readdirSync(join(chat.home, 'sessions')), ['kept.json']);
  t.equal(readSaved(chat.home).messages.length, 2);
});

t.test('resuming does not evaluate again what the saved KV covers', async (t) => {
  const first = await openChat(t, ['--temp', '0', '-s', 'Be brief.']);
  await first.say('Tell me a story');
  const prompt = readSaved(first.home).messages[1]!.usage!.prompt_tokens;
  await first.leave();
  const name = nameIn(first.home);

  // By name, without a model: the saved chat has one.
  const second = startChat(t, ['--resume', name], { home: first.home });
  await second.prompt();
  t.match(second.text(), /Continuing .*story/);
  t.match(second.text(), /> Tell me a story[^]*The end\./, 'the end of it is shown');
  t.match(await second.say('/stats'), /Saved KV +\d+ tokens restored/);
  await second.say('Who are you?');
  const cached = readSaved(first.home).messages[3]!.usage!.cached_tokens;
  t.ok(cached >= prompt, `${cached} of at least ${prompt} tokens`);
  t.match(await second.say('/system'), /Be brief/, 'the system prompt came back too');
  await second.leave();

  // One turn of it from outside; without the KV file everything is read again.
  const file = join(first.home, 'sessions', `${name}.json`);
  const options = { env: { SERVICE_HOME: first.home } };
  const third = JSON.parse((await recua(['chat', '--resume', file, '-p', 'Hello', '--json', '-q', '--threads', '1'], '', options)).stdout);
  t.match(third, { session: name, usage: { cached_tokens: Number } });
  t.ok(third.usage.cached_tokens > cached);
  writeFileSync(kv(first.home, name), 'damaged');
  const fourth = JSON.parse((await recua(['chat', '--continue', '-p', 'Hello', '--json', '-q', '--threads', '1'], '', options)).stdout);
  t.equal(fourth.usage.cached_tokens, 0);
  t.equal(readSaved(first.home).messages.length, 8);
});

t.test('kill -9 during an answer loses that answer and nothing else', async (t) => {
  const first = await openChat(t, [...endless, '-t', 'chatml', '--top-k', '30']);
  first.type('first\r');
  await first.until(/> first\n[a-z]{5}/);
  first.type('\x03');
  await first.prompt();
  first.type('second\x1b\rline\r');
  await first.until(/line\n[a-z]{5}/);
  first.kill('SIGKILL');
  await first.ended;
  const saved = readSaved(first.home);
  t.match(saved, { template: 'chatml', sampling: { top_k: 30 }, messages: [{ content: 'first' }, { role: 'assistant' }, { content: 'second\nline', unanswered: true }] });

  const second = startChat(t, ['--continue', ...always('ok')], { home: first.home });
  await second.until(/The last message has no answer/);
  await second.until(() => second.cursor().line === '  line', 'the message again');
  second.type('!\r');
  await second.until(/ok\n─+\n>/);
  t.match(await second.say('/stats'), /Template +chatml\nSampling +.*top-k 30/s, 'what the command line does not say is the saved chat\'s');
  await second.leave();
  t.same(readSaved(first.home).messages.map(({ content }) => content).slice(2), ['second\nline!', 'ok']);
});

t.test('an open chat belongs to one process', async (t) => {
  const first = await openChat(t, always('ok'));
  await first.say('Hello');
  const name = nameIn(first.home);
  const options = { env: { SERVICE_HOME: first.home } };
  t.match(await recua(['chat', '--continue', '-p', 'x'], '', options), { code: 1, stdout: '', stderr: new RegExp(`${name} is open in another process \\(${first.pid}\\)`) });
  t.match(await recua(['sessions', 'rm', name], '', options), { code: 1, stderr: /open in another process/ });
  const other = await openChat(t, always('ok'), { home: first.home });
  t.match(await other.say(`/load ${name}`), /open in another process/);
  await other.say('Hello');
  t.equal(sessionFiles(first.home).length, 2, 'the same first words make another name');
  await other.leave();
  // The lock of a killed process belongs to nobody.
  first.kill('SIGKILL');
  await first.ended;
  t.match(await recua(['chat', '--resume', name, '-p', 'x', '-q', '-n', '4'], '', options), { code: 0 });
  t.equal(readSaved(first.home, name).messages.length, 4);
});

t.test('a path that is not a file is not a saved chat, and nothing waits for it', { skip: process.platform === 'win32' }, async (t) => {
  const home = sharedFolder(t, { sessions: { 'folder.json': {} } });
  const options = { env: { SERVICE_HOME: home } };
  execFileSync('mkfifo', [join(home, 'sessions', 'pipe.json')]);
  for (const name of ['pipe', 'folder']) t.match(await recua(['chat', '--resume', name, '-p', 'x'], '', options), { code: 1, stdout: '', stderr: /not a regular file/ });
  t.match(await recua(['sessions', 'list'], '', options), { code: 0, stderr: /no saved chats/ });
});

t.test('a damaged file is named and left alone', async (t) => {
  const home = sharedFolder(t, { sessions: { 'bad.json': '{"recua_session": 1, "model": "builtin"', 'new.json': '{"recua_session": 2}' } });
  const options = { env: { SERVICE_HOME: home } };
  for (const [args, said] of [
    [['chat', '--resume', 'bad', '-p', 'x'], /sessions\/bad\.json is not a valid saved chat: it is not valid JSON/],
    [['chat', '--resume', 'new', '-p', 'x'], /version 2 of the format/],
    [['chat', '--resume', 'ba', '-p', 'x'], /Did you mean bad\?/],
    [['chat', '--resume', join(home, 'none.json'), '-p', 'x'], /There is no saved chat .*none\.json/],
    [['sessions', 'show', 'bad'], /not valid JSON/],
  ] as const) {
    t.match(await recua(args, '', options), { code: 1, stdout: '', stderr: said });
  }
  t.equal(readFileSync(join(home, 'sessions', 'bad.json'), 'utf8'), '{"recua_session": 1, "model": "builtin"');
  t.match(await recua(['chat', '--continue', '-p', 'x'], '', { env: { SERVICE_HOME: t.testdir() } }), { code: 1, stderr: /no saved chat to continue/ });
});

t.test('resuming with another model says so, and uses the named one', async (t) => {
  const first = await openChat(t, always('ok'));
  await first.say('Hello');
  await first.leave();
  const copy = join(first.home, 'other.gguf');
  copyFileSync(new URL('../../../../builtin/builtin.gguf', import.meta.url), copy);
  const { code, stderr } = await recua(['chat', copy, '--continue', '-p', 'x', '-n', '4'], '', { env: { SERVICE_HOME: first.home } });
  t.equal(code, 0);
  t.match(stderr, /was with builtin; it continues with .*other\.gguf/);
  t.ok(existsSync(kv(first.home, nameIn(first.home))));
});
