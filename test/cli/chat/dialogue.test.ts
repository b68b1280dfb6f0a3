// Answers in a running chat: stopped, crashed, too long, with thinking, and some that try to drive
// the terminal.
import t from 'tap';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { writeSession } from '#recua/cli/chat/sessions/session.js';
import { Pty } from '../pty.js';
import { mainPath } from '../recua.js';
import { always, childrenOf, endless, engineOf, openChat, readSaved, sharedFolder } from './chats.js';
import type { Test } from './chats.js';

const thinking = [
  '--chat-template-file', fileURLToPath(new URL('../../../vendor/llama.cpp/models/templates/Qwen-Qwen3-0.6B.jinja', import.meta.url)),
  '-g', 'root ::= "<think>\\nLet me see.\\n</think>\\n\\nYes."',
];

t.test('Ctrl-C stops an answer and keeps its text; the chat continues', async (t) => {
  const chat = await openChat(t, endless);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  chat.type('\x03');
  await chat.until(/\(stopped; \/retry asks again\)/);
  await chat.prompt();
  const [, reply] = readSaved(chat.home).messages;
  t.match(reply, { role: 'assistant', ended: 'stopped', content: /^[a-z]{5,}$/ });
  t.ok(chat.text().replace(/\n/g, '').includes(`go${reply!.content}(stopped`), 'all that was shown, and no more');
  t.match(await chat.say('/tokens'), /Generated +[1-9]\d* tokens/);
  chat.type('and on\r');
  await chat.until(/> and on\n[a-z]{5}/);
  chat.type('\x03');
  await chat.prompt();
  t.equal(await chat.leave(), 0);
  t.equal(readSaved(chat.home).messages.length, 4);
});

t.test('an engine crash is reported, and the answer continues', async (t) => {
  const chat = await openChat(t, endless);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  process.kill(engineOf(chat.pid), 'SIGKILL');
  await chat.until(/the engine process died \(signal SIGKILL\)[^]*1 request goes on in the next engine process\n[a-z]{5}/);
  chat.type('\x03');
  await chat.prompt();
  t.match(readSaved(chat.home).messages[1], { role: 'assistant', ended: 'stopped', content: /^[a-z]{5,}$/ });
  chat.type('again\r');
  await chat.until(/> again\n[a-z]{5}/);
  chat.type('\x03');
  await chat.prompt();
  t.equal(await chat.leave(), 0);
});

t.test('a crash between answers leaves a half-typed message alone', async (t) => {
  const chat = await openChat(t, ['--temp', '0']);
  chat.type('Hel');
  await chat.until(() => chat.cursor().line === '> Hel');
  process.kill(engineOf(chat.pid), 'SIGKILL');
  await chat.until(/the engine process died/);
  await chat.until(() => chat.cursor().line === '> Hel' && chat.cursor().column === 5, 'the message again');
  await chat.say('lo');
  t.match(readSaved(chat.home).messages, [{ content: 'Hello' }, { ended: 'stop' }]);
});

t.test('a message that does not fit is refused with the numbers, leaves the prompt free, and drops nothing', async (t) => {
  const chat = await openChat(t, ['-c', '512', '--temp', '0'], { columns: 120 });
  await chat.say('Hello');
  chat.type(`\x1b[200~start ${'word '.repeat(600)}end\x1b[201~\r`);
  await chat.until(/This message does not fit: with it the conversation has \d+ tokens, and the context holds 512/);
  t.match(chat.text(), /\/undo.*\/clear/s);
  await chat.prompt();
  // The message can be brought back, and the command that the chat suggests works as printed.
  chat.type('\x1b[A');
  await chat.until(() => chat.cursor().line.endsWith('end'), 'the message again');
  chat.type('\x15');
  await chat.prompt();
  await chat.say('Hello');
  t.same(readSaved(chat.home).messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
  chat.type(`\x1b[200~${'word '.repeat(600)}\x1b[201~\r`);
  await chat.until(() => chat.text().split('does not fit').length === 3, 'another refusal');
  await chat.prompt();
  t.match(await chat.say('/clear'), /Cleared/);
  t.same(readSaved(chat.home).messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant'], 'no message was made of it');
});

t.test('an answer breaks between words as it streams, and looks the same when the chat resumes', async (t) => {
  const words = Array.from({ length: 40 }, (_, at) => `word${at}`).join(' ');
  const chat = await openChat(t, always(words), { columns: 50 });
  const shown = await chat.say('Hello');
  for (const line of shown.split('\n')) t.match(line, /^word\d+( word\d+)*$/);
  t.equal(shown.replaceAll('\n', ' '), words);
  await chat.leave();
  const again = await openChat(t, ['--continue'], { columns: 50, home: chat.home });
  t.ok(again.text().includes(`> Hello\n${shown}\n`), again.text());
});

t.test('an edited message that gets no answer leaves the old one, also in the file', async (t) => {
  const chat = await openChat(t, ['-c', '512', '--temp', '0'], { columns: 120 });
  await chat.say('Hello');
  const saved = readSaved(chat.home).messages;
  chat.type('/edit\r');
  await chat.until(() => chat.cursor().line === '> Hello');
  chat.type(`\x1b[200~${' word'.repeat(600)} end\x1b[201~\r`);
  await chat.until(/does not fit[^]*The old message stays\./);
  await chat.prompt();
  t.same(readSaved(chat.home).messages, saved);
  await chat.say('Hello');
  t.same(readSaved(chat.home).messages.length, 4, 'the next message takes no other\'s place');
});

t.test('a filling context is reported before it is full, and when it is', async (t) => {
  const chat = await openChat(t, ['-c', '256', ...endless, '-n', '230'], { columns: 120 });
  t.match(await chat.say('go'), /cut off after 230 tokens \(--max-tokens\)\.\nThe context is nearly full: 2\d\d of 256 tokens \(\d\d%\)\. \/undo/);
  const more = await openChat(t, ['-c', '256', ...endless], { columns: 120 });
  t.match(await more.say('go'), /cut off because the context is full\. \/undo/);
});

t.test('thinking is shown dim, and marked with words under NO_COLOR', async (t) => {
  const chat = await openChat(t, thinking);
  const shown = await chat.say('Is it?');
  t.match(shown, /^Let me see\.\n\nYes\.$/);
  t.ok(chat.isDim('Let me see.'));
  t.notOk(chat.isDim('Yes.'));
  const plain = await openChat(t, thinking, { env: { NO_COLOR: '1' } });
  t.equal(await plain.say('Is it?'), '[thinking]\nLet me see.\n[/thinking]\nYes.');
  t.notMatch(plain.raw, /\x1b\[[\d;]*m/, 'no colors, no styles');
});

t.test('a model cannot drive the terminal', async (t) => {
  const chat = await openChat(t, ['-g', 'root ::= "a\\x1b]0;title\\x07b\\x1b[2J\\u009b31mc\\rd\\x08\\te\\nf"']);
  t.match(await chat.say('go'), /^a]0;titleb\[2J31mcd +e\nf$/);
  t.notMatch(chat.raw, /title\x07|\x1b\[2J|\u009b/);
  t.equal(readSaved(chat.home).messages[1]!.content, 'a\x1b]0;title\x07b\x1b[2J\u009b31mc\rd\x08\te\nf', 'what it said is saved as it was');
});

t.test('a saved chat, or the name of its file, cannot drive the terminal either', async (t) => {
  const evil = '\x1b]0;evil\x07\x9b31m';
  const sound = JSON.parse(writeSession({
    model: 'builtin', system: `be${evil}`, template: 'auto', createdAt: evil, updatedAt: evil,
    settings: { maxTokens: 10, temperature: 0.5, topP: 0.9, topK: 40, minP: 0.05, repeatPenalty: 1.1, seed: 7 },
    exchanges: [{ message: `asked${evil}`, sentAt: '', reply: { text: `said${evil}`, reasoning: '', ended: 'stop' } }],
  }));
  const home = sharedFolder(t, { sessions: {
    'saved.json': JSON.stringify(sound), [`a${evil}b.json`]: '{}', 'role.json': JSON.stringify({ ...sound, messages: [{ role: evil }] }),
  } });
  const chat = await openChat(t, ['--resume', 'saved', ...always('ok')], { home });
  t.match(await chat.say('/system'), /be\]0;evil31m/);
  t.match(await chat.say('/sessions'), /a\]0;evil31mb/);
  t.match(await chat.say('/load role'), /not\s+a\s+valid\s+saved\s+chat/);
  await chat.leave();
  const others = [['chat', '--resume', 'role', '-p', 'x'], ['sessions', 'list'], ['sessions', 'show', 'saved'], ['sessions', 'export', 'saved']].map((args) => {
    const pty = new Pty(args, { env: { SERVICE_HOME: home } });
    t.teardown(() => pty.dispose());
    return pty;
  });
  await Promise.all(others.map(({ ended }) => ended));
  for (const { raw } of [chat, ...others]) {
    t.match(raw, /\]0;evil(\\u0007\\u009b)?31m/, 'left out, or as escapes in a table');
    t.notMatch(raw, /\x1b\]|\x07|\x9b/);
  }
});

t.test('SIGTERM exits in order and restores the terminal', async (t) => {
  const chat = await openChat(t, endless);
  chat.type('go\r');
  await chat.until(/> go\n[a-z]{5}/);
  chat.kill('SIGTERM');
  t.equal((await chat.ended).exitCode, 143);
  t.match(chat.raw.slice(-20), /\x1b\[\?2004l/);
  t.match(readSaved(chat.home).messages[1], { ended: 'stopped' });
});

t.test('closing the terminal ends the chat in order', async (t) => {
  const chat = await openChat(t, ['--temp', '0']);
  await chat.say('Hello');
  chat.hangUp();
  t.match(await chat.ended, { exitCode: 129, signal: 0 });
  t.match(readdirSync(join(chat.home, 'sessions')).sort(), [/\.json$/, /\.kv$/], 'saved, with its KV, and no lock left');
  t.equal(readdirSync(join(chat.home, 'sessions')).length, 2);
});

/** A shell with a chat that waits for a message; wide, since the shell repeats long commands. */
async function shellWithChat(t: Test, flags = ''): Promise<Pty & { home: string }> {
  const home = sharedFolder(t);
  const shell = new Pty(['--norc', '--noprofile', '-i'], { program: 'bash', columns: 250, env: { SERVICE_HOME: home, PS1: 'sh$ ', BASH_SILENCE_DEPRECATION_WARNING: '1' } });
  t.teardown(() => shell.dispose());
  await shell.until(/sh\$/);
  shell.type(`'${process.execPath}' '${mainPath}' chat builtin --threads 1 ${flags}\r`);
  await shell.prompt();
  return Object.assign(shell, { home });
}

/** A shell with a chat that was stopped with a half-typed message. */
async function stoppedChat(t: Test): Promise<Pty> {
  const shell = await shellWithChat(t);
  shell.type('a draft\x1a');
  await shell.until(/Stopped/);
  return shell;
}

/** Does something that must end the stopped chat, and waits for its end. */
async function endStopped(shell: Pty, act: () => void): Promise<void> {
  const chat = childrenOf(shell.pid)[0]!;
  act();
  for (let tries = 0; tries < 300 && existsSync(`/proc/${chat}`); tries++) await wait(100);
  if (existsSync(`/proc/${chat}`)) throw new Error(`The chat did not end. The screen:\n${shell.text()}`);
}

t.test('Ctrl-Z gives the shell its terminal, and fg continues the chat', async (t) => {
  const shell = await stoppedChat(t);
  shell.type('stty -a | grep -o -w -e icanon -e -icanon\r');
  await shell.until(/\nicanon/);
  shell.type('fg\r');
  await shell.until(() => shell.cursor().line === '> a draft', 'the draft again');
  shell.type('!');
  await shell.until(() => shell.cursor().line === '> a draft!');
  shell.type('\x15');
  await shell.prompt();
  shell.type('\x04');
  await shell.until(() => shell.cursor().line === 'sh$', 'the shell');
  shell.type('exit\r');
  await shell.ended;
});

t.test('a stopped chat works on in the background, takes signals, and fg shows it again', async (t) => {
  const shell = await stoppedChat(t);
  shell.type('bg\r');
  await shell.until(/builtin --threads 1 +&/);
  // Long enough for a chat that takes the terminal to be stopped by that.
  await wait(500);
  shell.type('jobs\r');
  await shell.until(/Running/);
  shell.type('fg\r');
  await shell.until(() => shell.cursor().line === '> a draft', 'the draft again');
  shell.type('!\x1a');
  await shell.until(/Stopped[^]*Stopped/);
  const chat = childrenOf(shell.pid)[0]!;
  process.kill(chat, 'SIGCONT');
  await wait(500);
  await endStopped(shell, () => process.kill(chat, 'SIGTERM'));
  shell.type('exit\r');
  await shell.ended;
});

t.test('a chat that is ended while stopped leaves the terminal to the shell', async (t) => {
  const shell = await stoppedChat(t);
  await endStopped(shell, () => shell.type('kill %1\r'));
  shell.type('stty -a | grep -o -w -e icanon -e -icanon\r');
  await shell.until(/\n-?icanon/);
  t.match(shell.text(), /\nicanon/);
  t.equal(shell.raw.lastIndexOf('\x1b[?2004l') > shell.raw.indexOf('a draft'), true);
  shell.type('exit\r');
  await shell.ended;
});

for (const [how, end] of [
  ['kill', (shell: Pty) => shell.type('kill %1\r')],
  ['the closing of the terminal', (shell: Pty) => shell.hangUp()],
] as const) {
  t.test(`a chat stopped in an answer and ended by ${how} saves what came`, async (t) => {
    const shell = await shellWithChat(t, endless.map((flag) => `'${flag}'`).join(' '));
    shell.type('go\r');
    await shell.until(/> go\n[a-z]{5}/);
    shell.type('\x1a');
    await shell.until(/Stopped/);
    await endStopped(shell, () => end(shell));
    t.match(readSaved(shell.home).messages[1], { ended: 'stopped' });
  });
}

t.test('a chat leaves no process behind', async (t) => {
  const chat = await openChat(t);
  const engine = engineOf(chat.pid);
  await chat.leave();
  t.notOk(readdirSync('/proc').includes(String(engine)));
});
