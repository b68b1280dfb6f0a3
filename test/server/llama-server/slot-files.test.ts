// The computed state of a conversation is saved to a file and restored, also in another server.
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t, { type Test } from 'tap';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import { builtinPath } from '#recua/models/store.js';
import { ClientTurns } from '#recua/server/exchange/client-turns.js';
import { engineDefaults } from '#recua/settings/config.js';
import { RecuaError } from '#recua/errors.js';
import { post, startApp, until } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const messages = [{ role: 'user', content: 'Tell me a story about a llama that walks home over the mountains.' }];

async function start(t: Test, slotSavePath: string) {
  const engine = startLocalEngine({
    ...engineDefaults,
    modelPath: builtinPath,
    threads: 1,
    threadsBatch: 1,
    parallel: 2,
    contextSize: 1_024,
  });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const { url, logged } = await startApp(t, { slotSavePath }, engine);
  const chat = async () => (await (await post(`${url}/v1/chat/completions`, { messages, max_tokens: 8, temperature: 0 })).json()).usage.prompt_tokens_details.cached_tokens as number;
  const act = async (action: string, body?: object) => {
    const res = await fetch(`${url}/slots/0${action}`, { method: 'POST', ...(body ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}) });
    return { status: res.status, ...await res.json() };
  };
  return { url, chat, act, logged };
}

t.test('a slot that one server saved and another restored is not evaluated again', async (t) => {
  const folder = t.testdir({});
  const one = await start(t, folder);
  t.equal(await one.chat(), 0);
  const saved = await one.act('?action=save', { filename: 'story.bin' });
  t.match(saved, { status: 200, id_slot: 0, filename: 'story.bin', n_saved: Number, n_written: statSync(join(folder, 'story.bin')).size, timings: { save_ms: Number }, warnings: [/slot has no effect/] });
  t.ok(saved.n_saved > 20);
  t.strictSame(readdirSync(folder), ['story.bin'], 'no draft is left');
  const other = await start(t, folder);
  t.match(await other.act('?action=restore', { filename: 'story.bin' }), { status: 200, n_restored: saved.n_saved, n_read: saved.n_written });
  t.ok(await other.chat() > 20, 'the prompt is there');
  t.match(await other.act('?action=erase'), { status: 200, id_slot: 0, warnings: [/all idle conversations/] });
  t.match(await other.act('?action=erase', { keep_alive: 5 }), { status: 200, warnings: [/keep_alive/, /all idle conversations/] });
  t.match(await other.act('?action=save', { filename: 'story.bin' }), { status: 200, n_saved: 0, warnings: [/slot/, /Nothing was saved.* is as it was/] });
  t.match(await other.act('?action=save', { filename: 'new.bin' }), { status: 200, n_saved: 0, warnings: [/slot/, /Nothing was saved.* no file/] });
  t.equal(await other.chat(), 0);
});

t.test('a restore while every sequence runs is to be tried again', async (t) => {
  const folder = t.testdir({ 'a.bin': 'x' });
  const engine = Object.assign(new FakeEngine(), { restoreState: async () => ({ tokens: 0, sizeBytes: 0, reason: 'All sequences are busy.', isBusy: true }) });
  const { url } = await startApp(t, { slotSavePath: folder }, engine);
  const response = await post(`${url}/slots/0?action=restore`, { filename: 'a.bin' });
  t.equal(response.status, 429);
  t.equal(response.headers.get('retry-after'), '1');
  t.match(await response.json(), { error: { code: 'queue_full', message: 'The state cannot be restored now: All sequences are busy. Try again in a moment.' } });
});

t.test('states are restored one at a time, clients take turns, and a crowd is refused', async (t) => {
  const names = Array.from({ length: 70 }, (_, at) => `a${at}.bin`);
  const folder = t.testdir(Object.fromEntries([...names, 'b.bin'].map((name) => [name, 'x'])));
  let go: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (go = resolve));
  const order: string[] = [];
  let running = 0;
  const engine = Object.assign(new FakeEngine(), { restoreState: async (path: string) => {
    t.equal(++running, 1);
    order.push(basename(path));
    await gate;
    running--;
    return { tokens: 1, sizeBytes: 1 };
  } });
  const apiKeyFile = JSON.stringify([{ name: 'ann', key: 'key-of-ann', admin: true }, { name: 'bob', key: 'key-of-bob', admin: true }]);
  const { url } = await startApp(t, { slotSavePath: folder, apiKeyFile }, engine);
  const restore = async (filename: string, key: string): Promise<number> => (await post(`${url}/slots/0?action=restore`, { filename }, { authorization: `Bearer ${key}` })).status;
  const { inTurn } = ClientTurns.prototype;
  let asked = 0;
  t.intercept(ClientTurns.prototype, 'inTurn', {
    value(this: ClientTurns, ...given: Parameters<typeof inTurn>) {
      asked++;
      return inTurn.apply(this, given);
    },
  });
  const crowd = Promise.all(names.map((name) => restore(name, 'key-of-ann')));
  await until(() => asked === names.length);
  const other = restore('b.bin', 'key-of-bob');
  await until(() => asked > names.length);
  go();
  t.equal(await other, 200);
  t.ok(order.indexOf('b.bin') <= 2, `it was the ${order.indexOf('b.bin') + 1}th`);
  const codes = await crowd;
  t.equal(codes.filter((code) => code === 200).length, 65, 'one that ran, and a quarter of the places for those that wait');
  t.equal(codes.filter((code) => code === 429).length, 5);
});

t.test('bad names, files and actions are refused', async (t) => {
  const folder = t.testdir({});
  const { url, act } = await start(t, folder);
  for (const filename of ['../x', 'a/b', '..', '.x', '', 'x'.repeat(300), 'a\0b']) t.match(await act('?action=save', { filename }), { status: 400, error: { param: 'filename' } }, JSON.stringify(filename));
  t.match(await act('?action=save', {}), { status: 400, error: { param: 'filename' } });
  for (const id of ['abc', '-1', '1.5', '1e3', '%20']) t.equal((await post(`${url}/slots/${id}?action=erase`, {})).status, 400, id);
  for (const action of ['', '?action=', '?action=explode']) t.match(await act(action, { filename: 'x' }), { status: 400, error: { param: 'action' } }, action);
  t.match(await act('?action=restore', { filename: 'none' }), { status: 404, error: { code: 'file_not_found', param: 'filename' } });
  mkdirSync(join(folder, 'dir'));
  for (const action of ['save', 'restore']) t.match(await act(`?action=${action}`, { filename: 'dir' }), { status: 400, error: { param: 'filename', message: /not of a folder/ } }, action);
  writeFileSync(join(folder, 'junk'), 'this is no state');
  const refused = await act('?action=restore', { filename: 'junk' });
  t.equal(refused.status, 400);
  t.notMatch(JSON.stringify(refused), folder, 'where files lie is not told');
  t.match(await act('?action=save', { filename: 'junk' }), { status: 400, error: { param: 'filename', message: /there is another file of this name/ } });
  t.equal(readFileSync(join(folder, 'junk'), 'utf8'), 'this is no state');
  t.strictSame(readdirSync(folder), ['dir', 'junk']);
});

t.test('the longest name takes a file, and what a killed engine left goes', async (t) => {
  const uuid = '6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6a';
  const folder = t.testdir({ 'mine.3f2b0d6e-8a7c-4c51-9d0e-1f2a3b4c5d6e': '', [`.save-${uuid}`]: '', '.save-6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6b.new': '', '.save-game1': '' });
  for (const name of readdirSync(folder)) if (!name.includes('new')) utimesSync(join(folder, name), 1, 1);
  const { chat, act } = await start(t, folder);
  await chat();
  const filename = 'x'.repeat(255);
  t.match(await act('?action=save', { filename }), { status: 200, filename });
  t.strictSame(readdirSync(folder).sort(), ['.save-6f0c1f6e-4c8e-4d5b-9a39-1f2e3d4c5b6b.new', '.save-game1', 'mine.3f2b0d6e-8a7c-4c51-9d0e-1f2a3b4c5d6e', filename]);
});

t.test('a save whose engine dies leaves no draft', async (t) => {
  const folder = t.testdir({});
  const engine = new FakeEngine();
  Object.assign(engine, {
    saveState: (path: string) => {
      writeFileSync(`${path}.1`, 'half of it');
      return Promise.reject(new RecuaError('model_crashed', 'The engine process died (signal SIGKILL).'));
    },
  });
  const { url } = await startApp(t, { slotSavePath: folder }, engine);
  t.match(await (await post(`${url}/slots/0?action=save`, { filename: 'x' })).json(), { error: { code: 'model_crashed' } });
  t.strictSame(readdirSync(folder), []);
});

t.test('a folder that cannot be written is named in the log, not to clients', async (t) => {
  const folder = t.testdir({ gone: {} });
  const { chat, act, logged } = await start(t, join(folder, 'gone'));
  await chat();
  rmSync(join(folder, 'gone'), { recursive: true });
  const refused = await act('?action=save', { filename: 'x' });
  t.match(refused, { status: 500, error: { code: 'store_unwritable', message: /^The saved state x cannot be written: ENOENT/ } });
  t.notMatch(JSON.stringify(refused), folder);
  t.ok(logged.some((text) => text.includes(join(folder, 'gone', 'x'))), logged.join('\n'));
});

t.test('foreign pages, guests and servers without a folder save nothing', async (t) => {
  const page = { origin: 'https://evil.example', 'user-agent': 'Mozilla/5.0' };
  const { url } = await startApp(t, { slotSavePath: t.testdir({}) });
  t.equal((await post(`${url}/slots/0?action=save`, { filename: 'x' }, page)).status, 403);
  const keyed = await startApp(t, { slotSavePath: t.testdir({}), apiKeyFile: JSON.stringify([{ name: 'ann', key: 'guest' }]) });
  t.equal((await post(`${keyed.url}/slots/0?action=save`, { filename: 'x' }, { authorization: 'Bearer guest' })).status, 403);
  const { url: plain } = await startApp(t);
  t.match(await (await post(`${plain}/slots/0?action=save`, { filename: 'x' })).json(), { error: { code: 'not_implemented', message: /--slot-save-path/ } });
});
