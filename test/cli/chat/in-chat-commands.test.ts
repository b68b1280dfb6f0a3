// Each command inside a chat, typed as a person would.
import t from 'tap';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { always, openChat, readSaved, sessionFiles, sharedFolder } from './chats.js';

t.test('/help lists every command', async (t) => {
  const chat = await openChat(t, [], { rows: 60, columns: 120 });
  const help = await chat.say('/help');
  for (const name of ['/help, /?', '/quit, /exit, /bye', '/clear', '/save <name>', '/load <name>', '/sessions', '/system', '/tokens', '/stats', '/template', '/model [name]', '/set', '/show', '/retry', '/undo', '/edit', '/copy', '/export']) {
    t.ok(help.includes(name), name);
  }
});

t.test('/help wraps its text on a narrow terminal', async (t) => {
  const chat = await openChat(t, [], { rows: 60, columns: 60 });
  const lines = (await chat.say('/help')).split('\n');
  const at = lines.findIndex((line) => line.startsWith('/clear'));
  const column = lines[at]!.indexOf('Start');
  t.match(lines[at + 1], new RegExp(`^ {${column}}\\S`), 'what is wrapped stands below what it goes on from');
});

t.test('messages of the chat break between words, and no line begins with a blank', async (t) => {
  const chat = await openChat(t, [], { rows: 60, columns: 50 });
  t.match(chat.text(), /\/help\s+lists\s+commands,\s+Ctrl-D\s+leaves\./, 'the greeting too');
  chat.type('/nosuch\r');
  await chat.until(/type\s+two\s+slashes\./);
  await chat.prompt();
  for (const columns of [50, 51, 52, 80]) {
    chat.resize(columns, 60);
    await chat.prompt();
    const said = await chat.say('/help');
    const paragraph = said.slice(said.indexOf('Alt-Enter'));
    t.notMatch(paragraph, /^ /m, `${columns} columns`);
    t.equal(paragraph.split('\n').map((line) => line.trim()).join(' ').split(/\s+/).filter((word) => word === 'closes').length, 1);
  }
});

t.test('/quit, /exit and /bye leave with 0, as do exit and quit alone', async (t) => {
  for (const command of ['/quit', '/exit', '/bye', 'exit', 'quit']) {
    const chat = await openChat(t);
    chat.type(`${command}\r`);
    t.equal((await chat.ended).exitCode, 0);
  }
});

t.test('an unknown command gets the nearest name and leaves the prompt free; two slashes send one', async (t) => {
  const chat = await openChat(t, always('ok'));
  chat.type('/sesions\r');
  await chat.until(/Did you mean \/sessions\?/);
  await chat.prompt();
  chat.type('\x1b[A');
  await chat.until(() => chat.cursor().line === '> /sesions', 'the line again, by the Up key');
  await chat.say('\x15//etc is a folder');
  t.match(await chat.say('/help me'), /takes nothing after it/);
  await chat.leave();
  t.equal(readSaved(chat.home).messages[0]!.content, '/etc is a folder');
});

t.test('/clear forgets the conversation and its KV, and keeps the saved one', async (t) => {
  const chat = await openChat(t, ['--temp', '0'], { columns: 120 });
  await chat.say('Hello');
  t.match(await chat.say('/tokens'), /Prompt +9 tokens, 0 of them cached/);
  t.match(await chat.say('/clear'), /Cleared.*saved as \d{4}-\d\d-\d\d-hello/s);
  await chat.say('Hello');
  t.match(await chat.say('/tokens'), /Prompt +9 tokens, 0 of them cached/, 'it is read again from the first token');
  await chat.leave();
  const [first, second] = sessionFiles(chat.home);
  t.match(second, /hello\.json$/);
  t.match(first, /hello-2\.json$/);
  for (const file of [first!, second!]) t.equal(readSaved(chat.home, file.replace('.json', '')).messages.length, 2);
});

t.test('/save names the chat, /load opens another, /sessions lists both', async (t) => {
  const chat = await openChat(t, ['--temp', '0']);
  t.match(await chat.say('/save'), /Expected a name/);
  await chat.say('Hello');
  const [automatic] = sessionFiles(chat.home).map((file) => file.replace('.json', ''));
  t.match(await chat.say('/save my chat'), /Saved as my chat\.$/);
  t.same(readdirSync(join(chat.home, 'sessions')).sort(), ['my chat.json', 'my chat.json.lock', 'my chat.kv'], 'there is no twin of it under its first name');
  await chat.say('Tell me a joke');
  t.match(await chat.say('/save ../evil'), /Expected a name/);
  t.match(await chat.say('/save my chat'), /Saved as my chat/, 'its own name is no conflict');
  t.match(await chat.say('/save other'), /Saved as other\. my chat stays as it was\./, 'a name that was chosen stays');
  t.match(await chat.say('/sessions'), /other .*\(this one\)/);
  t.match(await chat.say('/save my chat'), /already/);
  await chat.say('Who are you?');
  t.match(await chat.say('/load my chat'), /Loaded my chat: 2 exchanges\./);
  t.match(await chat.say('/stats'), /Saved KV +\d+ tokens restored/);
  t.match(await chat.say('/load nothing'), /There is no saved chat nothing/);
  await chat.leave();
  const asked = (name: string) => readSaved(chat.home, name).messages.map(({ content }) => content).filter((_, i) => i % 2 === 0);
  t.same(asked('my chat'), ['Hello', 'Tell me a joke']);
  t.same(asked('other'), ['Hello', 'Tell me a joke', 'Who are you?']);
  t.same(sessionFiles(chat.home), ['my chat.json', 'other.json'], automatic);
});

t.test('/save replaces the automatic name of the current chat', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('Hello');
  await chat.leave();
  const again = await openChat(t, [...always('ok'), '--continue'], { home: chat.home });
  await again.say('/save kept');
  await again.leave();
  t.same(sessionFiles(chat.home), ['kept.json']);
  t.equal(readSaved(chat.home, 'kept').messages.length, 2);
});

t.test('/save replaces an automatic name also after /undo of all', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('Hello');
  await chat.leave();
  const again = await openChat(t, [...always('ok'), '--continue'], { home: chat.home });
  await again.say('/undo');
  t.match(await again.say('/save kept'), /Saved as kept\.$/);
  await again.leave();
  t.same(sessionFiles(chat.home), ['kept.json']);
});

t.test('/load names the model that a chat was held with, if it was another', async (t) => {
  const home = sharedFolder(t, { sessions: {} });
  const chat = await openChat(t, always('ok'), { home, columns: 120 });
  await chat.say('/save one');
  await chat.say('Hello');
  const path = join(home, 'sessions', 'one.json');
  writeFileSync(join(home, 'sessions', 'other.json'), readFileSync(path, 'utf8').replace('"model": "builtin"', '"model": "acme/big:Q4_0"'));
  t.match(await chat.say('/load other'), /Loaded other: 1 exchange\. It was with acme\/big:Q4_0; builtin answers now\./);
  t.match(await chat.say('/load one'), /Loaded one: 1 exchange\.$/);
});

t.test('/system sets, shows and removes the system prompt', async (t) => {
  const chat = await openChat(t, ['-s', 'Be brief.', '--temp', '0']);
  t.match(await chat.say('/system'), /^Be brief\.$/);
  await chat.say('Hello');
  const before = /Prompt +(\d+)/.exec(await chat.say('/tokens'))![1];
  await chat.say('/system Answer at length, in many and rather long sentences.');
  await chat.say('/retry');
  const after = /Prompt +(\d+)/.exec(await chat.say('/tokens'))![1];
  t.ok(Number(after) > Number(before), 'the model gets it');
  t.equal(readSaved(chat.home).system, 'Answer at length, in many and rather long sentences.');
  t.match(await chat.say('/system -'), /removed/);
  t.equal(readSaved(chat.home).system, '');
});

t.test('/template switches the template, and lists the names', async (t) => {
  const chat = await openChat(t, ['-n', '4', '--temp', '0'], { columns: 120 });
  t.match(await chat.say('/template'), /auto.*chatml, llama3, mistral, gemma, phi3, qwen/);
  t.match(await chat.say('/template lama3'), /Did you mean llama3\?/);
  const prompts: string[] = [];
  for (const name of ['auto', 'chatml', 'llama3', 'mistral', 'gemma', 'phi3', 'qwen']) {
    t.match(await chat.say(`/template ${name}`), new RegExp(`${name} now`));
    await chat.say(prompts.length === 0 ? 'Hello' : '/retry');
    prompts.push(/Prompt +(\d+)/.exec(await chat.say('/tokens'))![1]!);
  }
  t.equal(prompts[0], prompts[1], 'the built-in model\'s own is ChatML');
  t.ok(new Set(prompts).size >= 5, 'the others make other prompts');
  t.equal(readSaved(chat.home).template, 'qwen');
});

t.test('/tokens and /stats show prompt, cached and generated tokens, speed and context fill', async (t) => {
  const chat = await openChat(t, ['--temp', '0', '-c', '1024'], { columns: 120 });
  t.match(await chat.say('/tokens'), /The context holds \d+ tokens\. The next answer shows how many are in use\./);
  await chat.say('Hello');
  await chat.say('Who are you?');
  const tokens = await chat.say('/tokens');
  t.match(tokens, /Prompt +\d+ tokens, [1-9]\d* of them cached\nGenerated +\d+ tokens\nContext +\d+ of 1024 tokens \(\d+%\)/);
  const stats = await chat.say('/stats');
  for (const part of [/Generated +\d+ tokens in .*, [\d.]+ tokens per second/, /First token +after [\d.]+ m?s/, /Seed +\d+/, /Context +\d+ of 1024 tokens/, /temperature 0, top-p 0.9, top-k 40, min-p 0.05, repeat penalty 1.1/]) {
    t.match(stats, part);
  }
});

t.test('/undo removes the last exchange, /edit replaces it, /retry asks it again', async (t) => {
  const chat = await openChat(t, ['--temp', '1']);
  for (const command of ['/undo', '/edit', '/retry']) t.match(await chat.say(command), /nothing|no message/);
  await chat.say('Hello');
  await chat.say('Who are you?');
  t.match(await chat.say('/undo'), /Removed: Who are you\?/);
  t.equal(readSaved(chat.home).messages.length, 2);
  chat.type('/edit\r');
  await chat.until(() => chat.cursor().line === '> Hello');
  await chat.say(' there');
  t.same(readSaved(chat.home).messages.map(({ role }) => role), ['user', 'assistant']);
  t.equal(readSaved(chat.home).messages[0]!.content, 'Hello there');
  chat.type('/edit\r');
  await chat.until(() => chat.cursor().line === '> Hello there');
  chat.type('\x03');
  await chat.until(/The old message stays/);
  await chat.say('Who are you?');
  t.equal(readSaved(chat.home).messages.length, 4);
  await chat.say('/undo');
  const seeds = [(readSaved(chat.home).messages[1] as { seed?: number }).seed];
  await chat.say('/retry');
  seeds.push((readSaved(chat.home).messages[1] as { seed?: number }).seed);
  t.not(seeds[0], seeds[1], 'with another seed');
  t.equal(readSaved(chat.home).messages.length, 2);
});

t.test('/copy passes the last answer to the terminal if there is no display', async (t) => {
  const chat = await openChat(t, always('copy this'), { env: { DISPLAY: '', WAYLAND_DISPLAY: '' } });
  t.match(await chat.say('/copy'), /no answer to copy/);
  await chat.say('Hello');
  t.match(await chat.say('/copy'), /terminal's clipboard/);
  t.ok(chat.raw.includes(`\x1b]52;c;${Buffer.from('copy this').toString('base64')}\x07`));
});

t.test('/export writes Markdown or JSON, and never overwrites a file', async (t) => {
  const folder = sharedFolder(t, { home: {} });
  const chat = await openChat(t, [...always('**ok**'), '-s', 'Be brief.'], { cwd: folder, home: join(folder, 'home'), columns: 200 });
  await chat.say('Hello');
  await chat.say('/export a.md');
  await chat.say('/export b.json');
  t.match(readFileSync(join(folder, 'a.md'), 'utf8'), /^# .*hello\n[^]*## System\n\nBe brief\.\n\n## User\n\nHello\n\n## Assistant\n\n\*\*ok\*\*\n$/);
  t.equal(statSync(join(folder, 'a.md')).mode & 0o777, 0o600);
  t.same(JSON.parse(readFileSync(join(folder, 'b.json'), 'utf8')), {
    model: 'builtin', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello' }, { role: 'assistant', content: '**ok**' }],
  });
  t.match(await chat.say('/export a.md'), /There is already a file /);
  t.match(await chat.say('/export a.txt'), /ends in \.md or \.json/);
});

t.test('Tab completes commands, templates and saved chats', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('Hello');
  await chat.say('/save other');
  chat.type('/te\t');
  await chat.until(() => chat.cursor().line === '> /template');
  chat.type('ll\t');
  await chat.until(() => chat.cursor().line === '> /template llama3');
  chat.type('\x15/load o\t');
  await chat.until(() => chat.cursor().line === '> /load other');
  chat.type('\x15/s\t');
  await chat.until(/\/save +\/sessions +\/system +\/set +\/show +\/stats/);
});
