// `recua` alone on a terminal: the menu.
import t from 'tap';
import type { Test } from 'tap';
import { once } from 'node:events';
import { copyFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { FakeHub, commit, modelBytes } from '../../models/fake-hub.js';
import { makeHome } from '../home.js';
import { Pty } from '../pty.js';
import type { PtyOptions } from '../pty.js';
import { recua } from '../recua.js';

function open(t: Test, env: Record<string, string>, options: PtyOptions = {}): Pty {
  const pty = new Pty([], { env, ...options });
  t.teardown(() => pty.dispose());
  return pty;
}

/** A port on which another program listens. */
async function taken(): Promise<{ port: number; close(): void }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}

t.test('without a model, the menu shows how to get one, and the built-in one to try, in 24 rows', async (t) => {
  const home = makeHome(t);
  const menu = open(t, home.env);
  await menu.until(/tiny built-in one, builtin[^]*> 1 {2}p {2}Get a model from the hub\n {2}2 {2}c {2}Chat with builtin[^]*\n {2}3 {2}s {2}Serve builtin[^]*\n {2}4 {2}h {2}Help/);
  t.ok(menu.lines().length < 24);
  menu.type('c');
  await menu.prompt();
  t.match(menu.text(), /^builtin: /m);
  t.equal(await menu.leave(), 0);
});

t.test('arrow keys, numbers and letters choose; Esc leaves with 0, Ctrl-C with 130', async (t) => {
  const home = makeHome(t);
  const path = join(home.folder, 'alpha.gguf');
  copyFileSync(builtinPath, path);
  t.match(await recua(['import', path, '--symlink'], '', { env: home.env }), { code: 0 });
  const menu = open(t, home.env);
  await menu.until(/> 1 {2}c {2}Chat with local\/alpha\n {2}2 {2}m {2}Choose another model to chat with \(1 on this machine, and builtin\)\n {2}3 {2}p {2}Get another model/);
  menu.type('\x1b[B');
  await menu.until(/^> 2/m);
  menu.type('9');
  menu.type('2');
  await menu.until(/Which model\?[^]*> 1 {2}local\/alpha[^]*\n {2}2 {2}builtin/);
  menu.type('\x1b');
  await menu.until(() => /^> 1 {2}c {2}Chat/m.test(menu.text()), 'the menu again');
  menu.type('h');
  await menu.until(/Usage: recua <command>/);
  t.equal((await menu.ended).exitCode, 0);
  for (const [key, code] of [['\x1b', 0], ['\x04', 0], ['q', 0], ['\x03', 130]] as const) {
    const other = open(t, home.env);
    await other.until(/^> 1/m);
    other.type(key);
    t.equal((await other.ended).exitCode, code);
    t.notMatch(other.text(), /^> 1/m, 'the list is taken away');
  }
  const closed = open(t, home.env);
  await closed.until(/^> 1/m);
  closed.hangUp();
  t.match(await closed.ended, { exitCode: 129, signal: 0 }, 'its terminal is closed');
  const chat = open(t, home.env, { columns: 40 });
  await chat.until(/^> 1/m);
  t.ok(chat.lines().length < 24);
  chat.type('\r');
  await chat.prompt();
  t.match(chat.text(), /local\/alpha: /);
  await chat.leave();
});

t.test('s starts a server', async (t) => {
  const menu = open(t, { ...makeHome(t).env, RECUA_PORT: '0' });
  await menu.until(/^> 1/m);
  menu.type('s');
  await menu.until(/http:\/\/127\.0\.0\.1:\d+/);
  menu.type('\x03');
  t.equal((await menu.ended).exitCode, 0);
});

t.test('a server that cannot start leads back to the menu', async (t) => {
  const { port, close } = await taken();
  t.teardown(close);
  const menu = open(t, { ...makeHome(t).env, RECUA_PORT: String(port) });
  await menu.until(/^> 1/m);
  menu.type('3');
  await menu.until(/ listens on 127\.0\.0\.1 port [^]*^> 1/m);
  menu.type('\x1b');
  t.equal((await menu.ended).exitCode, 0);
});

t.test('p finds a model on the hub by words, pulls it, and offers it; empty input goes back', async (t) => {
  const hub = await FakeHub.start(t, [{ name: 'acme/tiny-GGUF', files: [{ path: 'tiny-Q4_K_M.gguf', bytes: modelBytes(1_000) }, { path: 'tiny-Q8_0.gguf', bytes: modelBytes(2_000) }] }]);
  const menu = open(t, hub.environment(t.testdir()), { columns: 120 });
  await menu.until(/^> 1 {2}p/m);
  menu.type('p');
  await menu.until(/such as qwen3 4b/);
  menu.type('nothing-of-that-name\r');
  await menu.until(/No repository on .* matches "nothing-of-that-name"/);
  await menu.until(/^> 1 {2}p/m);
  menu.type('p');
  await menu.until(() => menu.text().split('such as qwen3 4b').length === 3, 'asked again');
  menu.type('tin\x1b');
  await menu.until(/goes back: tin\s+> 1 {2}p/);
  menu.type('p');
  await menu.until(() => menu.text().split('such as qwen3 4b').length === 4, 'asked once more');
  menu.type('tiny\r');
  await menu.until(/Which repository\?[^]*> 1 {2}acme\/tiny-GGUF/);
  menu.type('\r');
  await menu.until(/Which one, by its quantization/);
  t.match(menu.text(), /tiny-Q4_K_M\.gguf/);
  menu.type('Q4_K_M\r');
  await menu.until(/> 1 {2}c {2}Chat with acme\/tiny-GGUF/);
  menu.type('\x1b');
  t.equal((await menu.ended).exitCode, 0);
});

t.test('p takes the address of a page: of a repository it asks for a model, of a file it pulls that', async (t) => {
  const files = [{ path: 'tiny-Q4_K_M.gguf', bytes: modelBytes(1_000) }, { path: 'tiny-Q8_0.gguf', bytes: modelBytes(2_000) }];
  const hub = await FakeHub.start(t, [{ name: 'acme/tiny-GGUF', files }]);
  const folder = t.testdir();
  const repo = join(folder, 'hub', 'models--acme--tiny-GGUF');
  const menu = open(t, hub.environment(folder), { columns: 120 });
  await menu.until(/^> 1 {2}p/m);
  menu.type('p');
  await menu.until(/such as qwen3 4b/);
  menu.type(`${hub.endpoint}/acme/tiny-GGUF/tree/${commit}\r`);
  await menu.until(/Which one, by its quantization/);
  menu.type('Q4_K_M\r');
  await menu.until(/> 1 {2}c {2}Chat with /);
  t.ok(existsSync(join(repo, 'snapshots', commit, 'tiny-Q4_K_M.gguf')));
  t.notOk(existsSync(join(repo, 'refs', 'main')), 'the revision of the page');
  menu.type('p');
  await menu.until(() => menu.text().split('such as qwen3 4b').length === 3, 'asked again');
  menu.type('acme/tiny-GGUF/tiny-Q8_0.gguf\r');
  await menu.until(/tiny-Q8_0\.gguf  [^]*> 1 {2}c {2}Chat with /);
  t.equal(menu.text().split('Which one').length, 2, 'a file needs no question');
  menu.type('\x1b');
  t.equal((await menu.ended).exitCode, 0);
});

t.test('Ctrl-C at the question for search words ends the line first', async (t) => {
  const menu = open(t, makeHome(t).env, { columns: 120 });
  await menu.until(/^> 1/m);
  menu.type('p');
  await menu.until(/Esc goes back:/);
  menu.type('\x03');
  t.equal((await menu.ended).exitCode, 130);
  t.match(menu.text(), /Esc goes back: *\r?\nrecua: Nothing was chosen\./);
});

t.test('if the menu cannot be drawn, recua alone explains itself as before', async (t) => {
  const dumb = open(t, { ...makeHome(t).env, TERM: 'dumb' });
  t.equal((await dumb.ended).exitCode, 0);
  t.match(dumb.text(), /Usage: recua <command>/);
  t.match(await recua([]), { code: 0, stdout: /Usage: recua <command>/ });
});
