// `recua chat` without a model: which one it takes, and the list to pick from.
import t from 'tap';
import type { Test } from 'tap';
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { savedChats } from '#recua/cli/serve/saved-chats.js';
import { builtinPath } from '#recua/models/store.js';
import { makeHome } from '../home.js';
import type { Home } from '../home.js';
import { recua } from '../recua.js';
import { always, startChat } from './chats.js';

async function homeWith(t: Test, ...names: string[]): Promise<Home> {
  const home = makeHome(t);
  mkdirSync(join(home.folder, 'mine'));
  for (const name of names) {
    const path = join(home.folder, 'mine', `${name}.gguf`);
    copyFileSync(builtinPath, path);
    t.match(await recua(['import', path, '--symlink'], '', { env: home.env }), { code: 0 });
  }
  return home;
}

function open(t: Test, home: Home, args: readonly string[] = [], rows = 24): ReturnType<typeof startChat> {
  return startChat(t, ['--threads', '1', ...args], { columns: 100, rows, home: home.env['SERVICE_HOME']!, env: home.env });
}

t.test('with no model on the machine, chat says how to get one and that there is one to try', async (t) => {
  const home = makeHome(t);
  const said = /Expected a model: recua chat <model>, and there is none on this machine yet\. recua pull <owner\/repo> downloads one; recua chat builtin uses/;
  t.match(await recua(['chat', '-p', 'Hello'], '', { env: home.env }), { code: 2, stdout: '', stderr: said });
  const chat = open(t, home);
  t.equal((await chat.ended).exitCode, 2);
  t.match(chat.text().replaceAll('\n', ''), said);
});

t.test('the only model is taken, and later the model of the newest chat, wherever it is', async (t) => {
  const home = await homeWith(t, 'alpha');
  const first = open(t, home, always('Yes.'));
  await first.prompt();
  t.match(first.text(), /^local\/alpha: /m);
  await first.leave();
  t.match(await recua(['chat', '-q', '-p', 'Hello', ...always('No.')], '', { env: home.env }), { code: 0, stdout: 'No.\n' });
  const other = open(t, home, ['builtin', ...always('Yes.')]);
  await other.prompt();
  await other.say('Hello');
  await other.leave();
  const last = open(t, home);
  await last.prompt();
  t.match(last.text(), /^builtin: /m);
  await last.leave();
});

t.test('of several models a terminal offers a list; elsewhere they are named', async (t) => {
  const home = await homeWith(t, 'alpha', 'beta', 'gamma');
  t.match(await recua(['chat', '-p', 'Hello'], '', { env: home.env }), { code: 2, stdout: '', stderr: /Expected a model: recua chat <model>\. There are local\/\w+, local\/\w+, local\/\w+\./ });
  const sessions = join(Object.values(home.env)[0]!, 'sessions');
  await savedChats(sessions).create({ messages: [{ role: 'user', content: 'Hi', sent_at: 'x' }, { role: 'assistant', content: 'Yes.', ended: 'stop' }] }, 'any');
  const resumed = await recua(['chat', '--resume', 'any', '-p', 'Hello'], '', { env: home.env });
  t.match(resumed, { code: 2, stderr: /There are local\/\w+, local\/\w+, local\/\w+\. The saved chat names no model\.$/m });
  rmSync(join(sessions, 'any.json'));
  const chat = open(t, home);
  await chat.until(/> 1 {2}local\/\w+ \(F16, 2\.29 MiB\)\n {2}2 {2}local\/\w+ [^]*\n {2}4 {2}builtin \(the small built-in one\)$/);
  chat.type('\x1b[B');
  await chat.until(/^> 2 {2}local/m);
  const [, name] = /^> 2 {2}(\S+)/m.exec(chat.text())!;
  chat.type('\r');
  await chat.prompt();
  t.ok(chat.text().includes(`\n${name}: llama`), chat.text());
  t.notMatch(chat.text(), /built-in one/, 'the list is gone');
  await chat.leave();
  const byNumber = open(t, home, [], 4);
  await byNumber.until(/^> 1 {2}local/m);
  byNumber.type('4');
  await byNumber.until(/^> 4 {2}builtin/m);
  byNumber.type('\r');
  await byNumber.prompt();
  t.match(byNumber.text(), /^builtin: /m);
  await byNumber.leave();
});

t.test('Esc, Ctrl-C and a signal leave the list with their exit code and restore the terminal', async (t) => {
  const home = await homeWith(t, 'alpha', 'beta');
  for (const [leave, code] of [['\x1b', 130], ['\x03', 130], ['SIGTERM', 143]] as const) {
    const chat = open(t, home);
    await chat.until(/^> 1 {2}local/m);
    if (leave === 'SIGTERM') chat.kill(leave);
    else chat.type(leave);
    t.equal((await chat.ended).exitCode, code);
    t.ok(chat.raw.lastIndexOf('\x1b[?2004l') > chat.raw.lastIndexOf('\x1b[?2004h'), 'bracketed paste is off again');
    t.notMatch(chat.text(), /^> 1/m);
  }
});

t.test('a chat whose model is gone does not decide which model is taken', async (t) => {
  const home = await homeWith(t, 'alpha', 'beta');
  const path = join(home.folder, 'mine', 'own.gguf');
  copyFileSync(builtinPath, path);
  const chat = open(t, home, [path, ...always('Yes.')]);
  await chat.prompt();
  await chat.say('Hello');
  await chat.leave();
  rmSync(path);
  t.match(await recua(['chat', '-p', 'Hello'], '', { env: home.env }), { code: 2, stderr: /There are local\/\w+, local\/\w+\./ });
});
