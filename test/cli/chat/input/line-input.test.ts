// Typing, pasting and stopping on a real terminal.
import t from 'tap';
import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Pty } from '../../pty.js';
import { mainPath } from '../../recua.js';
import { always, endless, openChat, readSaved, sharedFolder } from '../chats.js';

const sent = (home: string) => readSaved(home).messages.filter(({ role }) => role === 'user').map(({ content }) => content);

t.test('keys edit the line as in a shell', async (t) => {
  const chat = await openChat(t, always('ok'));
  // Arrows, word moves, Home, End, Delete, cut and yank.
  await chat.say('ac\x1b[Db\x1b[C!');
  await chat.say('two\x01one \x05 three');
  await chat.say('one two three\x1b[1;5D\x1b[1;5Dbig \x1b[Hsmall \x1b[F!');
  await chat.say('xabc\x1b[H\x1b[3~');
  await chat.say('keep drop\x17\x15back \x19');
  await chat.say('a/b c/d\x17\x17\x19');
  await chat.say('start end\x1b[D\x1b[D\x1b[D\x0b!');
  await chat.say('one two\x1bb\x1bd2');
  await chat.say('abdc\x14');
  t.equal(await chat.leave(), 0);
  t.same(sent(chat.home), ['abc!', 'one two three', 'small one big two three!', 'abc', 'back keep ', 'a/b ', 'start !', 'one 2', 'abcd']);
});

t.test('backspace and arrows move by what a reader sees as one character', async (t) => {
  const chat = await openChat(t, always('ok'));
  chat.type('日本👩‍👩‍👧é|');
  await chat.until(() => chat.cursor().column === 2 + 4 + 2 + 1 + 1 && chat.cursor().line.includes('|'), 'the cursor behind what was typed');
  chat.type('\x7f\x7f');
  await chat.until(() => chat.cursor().column === 2 + 4 + 2, 'the accented letter is gone with its accent');
  chat.type('\x7f');
  await chat.until(() => chat.cursor().column === 2 + 4, 'the family is gone as a whole');
  chat.type('\x1b[D');
  await chat.until(() => chat.cursor().column === 2 + 2, 'left goes over a wide character');
  await chat.say('x');
  await chat.leave();
  t.same(sent(chat.home), ['日x本']);
});

t.test('text wraps at the edge of the screen without splitting a wide character', async (t) => {
  const chat = await openChat(t, always('ok'), { columns: 30 });
  chat.type(`${'a'.repeat(27)}日本`);
  await chat.until(() => chat.lines().at(-1) === '日本', 'the wide character is in the next row');
  t.equal(chat.lines().at(-2), `> ${'a'.repeat(27)}`);
  chat.type('\x01x');
  await chat.until(() => chat.lines().includes(`> x${'a'.repeat(27)}`), 'an insertion moves the rest on');
  t.equal(chat.cursor().column, 3);
  chat.resize(20, 24);
  await chat.until(() => chat.lines().includes(`> x${'a'.repeat(17)}`), 'the text is laid out anew');
  t.equal(chat.lines().filter((line) => line.startsWith('>')).length, 1, 'and stands there once');
  chat.type('\x05');
  await chat.say('!');
  await chat.leave();
  t.same(sent(chat.home), [`x${'a'.repeat(27)}日本!`]);
});

t.test('many keys at once are drawn once', async (t) => {
  const chat = await openChat(t, always('ok'));
  const text = 'The quick brown fox. '.repeat(190).trim();
  const before = chat.raw.length;
  // As from a terminal that does not mark a paste.
  chat.type(`${text}|`);
  await chat.until(() => chat.cursor().line.endsWith('|'), 'the end of the text');
  // One drawing takes 2 KB; the terminal may hand the keys on in several parts.
  t.ok(chat.raw.length - before < 200_000, `${chat.raw.length - before} bytes were written`);
  await chat.say('');
  t.equal(await chat.leave(), 0);
  t.same(sent(chat.home), [`${text}|`]);
});

t.test('a paste of 500 lines is one message and can be edited before it is sent', async (t) => {
  const chat = await openChat(t, always('ok'));
  const lines = Array.from({ length: 500 }, (_, i) => `${i}\t\x01x\x03\x04`);
  chat.type(`before \x1b[200~${lines.join('\r\n')}\x1b[201~`);
  await chat.until(/499    x/);
  t.strictSame(readdirSync(join(chat.home, 'sessions')), [], 'nothing was sent yet');
  await chat.say('\x7f!');
  await chat.leave();
  t.same(sent(chat.home), [`before ${lines.map((line) => line.replace(/[\x01\x03\x04]/g, '')).join('\n').slice(0, -1)}!`]);
});

t.test('Alt-Enter, a backslash and """ make several lines', async (t) => {
  const chat = await openChat(t, always('ok'));
  await chat.say('one\x1b\rtwo');
  chat.type('three\\\r');
  await chat.until(() => chat.cursor().column === 2 && chat.cursor().line === '', 'another line');
  await chat.say('four');
  chat.type('"""\r/not a command\r');
  await chat.until(/not a command/);
  await chat.say('end"""');
  // Up goes through the lines of a message first.
  chat.type('ab\x1b\rcd\x1b[A');
  await chat.say('!');
  await chat.leave();
  t.same(sent(chat.home), ['one\ntwo', 'three\nfour', '/not a command\nend', 'ab!\ncd']);
});

t.test('arrows and Ctrl-R find messages of earlier chats; --no-save keeps none', async (t) => {
  const first = await openChat(t, always('ok'));
  for (const message of ['first message', 'second message', 'a question']) await first.say(message);
  await first.leave();
  const file = join(first.home, 'recua', 'chat-history.jsonl');
  t.equal(statSync(file).mode & 0o777, 0o600);

  const next = await openChat(t, [...always('ok'), '--no-save'], { home: first.home });
  next.type('draft\x1b[A\x1b[A!');
  await next.until(() => next.cursor().line === '> draft!', 'the draft alone');
  await next.say('');
  await next.leave();

  const last = await openChat(t, always('ok'), { home: first.home });
  last.type('draft\x1b[A\x1b[A');
  await last.until(() => last.cursor().line === '> second message');
  last.type('\x1b[B\x1b[B');
  await last.until(() => last.cursor().line === '> draft');
  last.type('\x15\x12mess');
  await last.until(() => last.cursor().line === '(search "mess") second message');
  last.type('\x12');
  await last.until(() => last.cursor().line === '(search "mess") first message');
  last.type('\r');
  await last.until(() => last.cursor().line === '> first message');
  last.type('\x15');
  await last.leave();
  t.same(readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line)), ['first message', 'second message', 'a question']);
});

t.test('Ctrl-C clears a message, says how to leave, and leaves with 130', async (t) => {
  const chat = await openChat(t);
  chat.type('some text');
  await chat.until(() => chat.cursor().line === '> some text');
  chat.type('\x03');
  await chat.prompt();
  t.notMatch(chat.text(), /again leaves/);
  chat.type('\x03');
  await chat.until(/Ctrl-C again leaves/);
  // Any typing in between starts over.
  chat.type('x\x7f\x03');
  await chat.until(() => chat.text().split('again leaves').length === 3, 'it says so again');
  chat.type('\x03');
  t.same(await chat.ended, { exitCode: 130, signal: 0 });
});

t.test('Ctrl-X Ctrl-E opens the message in an editor, and Enter sends the result', async (t) => {
  const folder = sharedFolder(t, { home: {}, home2: {}, 'my editor': '#!/bin/sh\necho Editing\nread -r key\nprintf "%s\\nseen: " "$key" >> "$2"\nhead -n 1 "$2" >> "$2"\necho "$1" >> "$2"\n', failing: '#!/bin/sh\nexit 3\n' });
  for (const name of ['my editor', 'failing']) chmodSync(join(folder, name), 0o755);
  const chat = await openChat(t, always('ok'), { home: join(folder, 'home'), env: { VISUAL: `"${join(folder, 'my editor')}" --flag` } });
  chat.type('draft');
  await chat.until(/> draft/);
  chat.type('\x18\x05');
  await chat.until(/^Editing$/m);
  // The editor gets the terminal in line mode with echo.
  chat.type('typed there\n');
  await chat.until(/> draft\n +typed there\n +seen: draft\n +--flag/);
  t.strictSame(readdirSync(join(folder, 'home', 'sessions')), [], 'nothing is sent yet');
  await chat.say('!');
  await chat.leave();
  t.same(sent(chat.home), ['draft\ntyped there\nseen: draft\n--flag!']);

  const other = await openChat(t, always('ok'), { home: join(folder, 'home2'), env: { VISUAL: `"${join(folder, 'failing')}"` }, columns: 600 });
  other.type('kept\x18\x05');
  await other.until(/The editor .*failing"? failed with exit code 3; the message is unchanged/);
  await other.say('!');
  await other.leave();
  t.same(sent(other.home), ['kept!']);
});

t.test('Ctrl-D leaves with 0 and restores the terminal', async (t) => {
  const chat = await openChat(t);
  t.match(chat.raw, /\x1b\[\?2004h/);
  t.equal(await chat.leave(), 0);
  t.equal(chat.raw.lastIndexOf('\x1b[?2004l') > chat.raw.lastIndexOf('\x1b[?2004h'), true, 'pastes are no longer bracketed');
});

t.test('text typed during an answer waits for the next prompt', async (t) => {
  const chat = await openChat(t, endless);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  chat.type('typed\x1b[200~pasted\x03\x1b[201~ ahead');
  // A Ctrl-C inside a paste does not count. This one does, and removes the typed text.
  chat.type('\x03');
  await chat.until(/stopped/);
  await chat.prompt();
  chat.type('after');
  await chat.until(() => chat.cursor().line === '> after');
});

t.test('Ctrl-C ends a paste whose end got lost', async (t) => {
  const chat = await openChat(t);
  chat.type('\x1b[200~pasted\x03 text');
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  chat.type('\x03');
  await chat.until(/pasted text/);
  await chat.prompt();
  chat.type('after');
  await chat.until(() => chat.cursor().line === '> after');
});

t.test('a long paste during an answer arrives whole, with its end', async (t) => {
  const chat = await openChat(t, ['-g', 'root ::= [a-z] root', '-n', '300', '--temp', '1']);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  chat.type(`\x1b[200~${`${'x'.repeat(99)}\r`.repeat(1_500)}last\x1b[201~`);
  await chat.until(() => chat.cursor().line === '  last');
  chat.type('!');
  await chat.until(() => chat.cursor().line === '  last!', 'the paste has ended');
});

t.test('on a terminal that cannot be drawn on, lines are read as they are and nothing is escaped', async (t) => {
  const chat = await openChat(t, always('ok'), { env: { TERM: 'dumb' } });
  chat.type('one\\\n');
  await chat.until(() => chat.cursor().column === 2 && chat.cursor().line === '', 'another line');
  chat.type('two\n');
  await chat.until(/ok\n>/);
  chat.type('\x03');
  await chat.until(/again leaves/);
  chat.type('\x03');
  t.equal((await chat.ended).exitCode, 130);
  // Loading prints its own kind of line on stderr; after it there is none.
  t.notMatch(chat.raw.slice(chat.raw.indexOf('/help')), /\x1b/);
  t.same(sent(chat.home), ['one\ntwo']);
});

t.test('if the reader of stdout ends, so does the chat', { skip: process.platform === 'win32' && 'needs sh' }, async (t) => {
  const words = [process.execPath, mainPath, 'chat', 'builtin', '--threads', '1', '-g', 'root ::= "yes\\n" root', '-n', '1000000'];
  const shell = new Pty(['-c', '("$0" "$@"; echo "code $?" >&2) | head -n 1', ...words], { program: '/bin/sh', env: { SERVICE_HOME: sharedFolder(t) } });
  t.teardown(() => shell.dispose());
  await shell.prompt();
  shell.type('Hello\r');
  await shell.until(/^code /m);
  t.match(shell.text(), /^Nobody reads stdout any more, so the chat ends\.$[^]*^code 0$/m);
  t.equal(shell.text().split('Nobody reads').length, 2);
});

t.test('a narrow terminal shows a message, too', async (t) => {
  const chat = await openChat(t, always('ok'), { columns: 20, rows: 6 });
  await chat.say('a message that is longer than the screen is wide');
  t.match(chat.text().replace(/\s/g, ''), /amessagethatislongerthanthescreeniswide/);
  t.ok(chat.lines().every((line) => line.length <= 20));
});
