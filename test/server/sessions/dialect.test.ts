// Saved chats over HTTP, with the files and locks of `recua chat`.
import t, { type Test } from 'tap';
import fs, { mkdirSync, promises, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { SessionKeeper } from '#recua/cli/chat/sessions/session-keeper.js';
import { loadSession } from '#recua/cli/chat/sessions/session-store.js';
import { savedChats } from '#recua/cli/serve/saved-chats.js';
import { FakeEngine } from '../fake-engine.js';
import { ownFolder, startApp } from '../app-under-test.js';

const messages = [
  { role: 'user', content: 'Tell me of Cusco', sent_at: '2026-01-31T10:00:00.000Z', note: 'kept' },
  { role: 'assistant', content: 'It is high.', ended: 'stop', mood: 3 },
];

async function start(t: Test, config: object = {}) {
  const folder = join(ownFolder(t), 'sessions');
  const app = await startApp(t, config, new FakeEngine(), { savedChats: savedChats(folder) });
  const { url } = app;
  const ask = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const res = await fetch(`${url}${path}`, { method, headers: { ...(body ? { 'content-type': 'application/json' } : {}), ...headers }, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: res.status, etag: res.headers.get('etag') ?? '', body: await res.json() };
  };
  return { folder, url, ask, app };
}

t.test('a chat is saved, read, continued, renamed and deleted', async (t) => {
  const { folder, ask } = await start(t);
  t.strictSame((await ask('GET', '/sessions')).body, { object: 'list', data: [] });
  const made = await ask('POST', '/sessions', { session: { model: 'builtin', messages: messages.slice(0, 1), color: 'red' } });
  t.match(await ask('POST', '/sessions', { session: { messages: [], sampling: [1, 2] } }), { status: 400, body: { error: { message: /sampling of the file is not an object/ } } });
  t.match(made, { status: 200, body: { name: /^\d{4}-\d\d-\d\d-tell-me-of-cusco$/, open: false, session: { color: 'red', sampling: { top_p: 0.9, max_tokens: 2048 }, template: 'auto' } } });
  const { name } = made.body;
  t.equal(statSync(join(folder, `${name}.json`)).mode & 0o777, 0o600);
  const session = { ...made.body.session, messages };
  const written = await ask('PUT', `/sessions/${name}`, { session }, { 'If-Match': made.etag });
  t.match(written, { status: 200, body: { session: { color: 'red', messages } } });
  t.not(written.etag, made.etag);
  const read = await ask('GET', `/sessions/${name}`);
  t.strictSame(read.body, written.body);
  t.equal(read.etag, written.etag);
  t.match((await ask('GET', '/sessions')).body.data, [{ name, model: 'builtin', exchanges: 1 }]);

  t.test('a search finds names, messages and answers, in any case', async (t) => {
    const found = async (text: string) => (await ask('GET', `/sessions?search=${encodeURIComponent(text)}`)).body.data.map((one: { name: string }) => one.name);
    for (const text of ['tell-me', 'TELL me of', messages[1]!.content.slice(2, 12).toUpperCase()]) t.strictSame(await found(text), [name], text);
    t.strictSame(await found('builtin'), [], 'not other fields');
  });

  t.test('recua chat keeps the fields it does not know', async (t) => {
    const keeper = new SessionKeeper(folder, true);
    const path = join(folder, `${name}.json`);
    await keeper.open(path);
    const loaded = await loadSession(path);
    await keeper.save({ ...loaded, exchanges: [...loaded.exchanges, { message: 'And Lima?', sentAt: '2026-01-31T11:00:00.000Z' }] });
    await keeper.release();
    t.match(JSON.parse(readFileSync(path, 'utf8')), { color: 'red', messages: [messages[0], messages[1], { content: 'And Lima?', unanswered: true }] });
  });
});

t.test('neither side overwrites the turns of the other', async (t) => {
  const { folder, ask } = await start(t);
  const made = await ask('POST', '/sessions', { name: 'a', session: { messages } });
  t.match(await ask('POST', '/sessions', { name: 'a', session: { messages } }), { status: 400, body: { error: { message: /There is already a saved chat a/ } } });
  t.match(await ask('PUT', '/sessions/a', { session: made.body.session }), { status: 400, body: { error: { param: 'If-Match' } } });
  const keeper = new SessionKeeper(folder, true);
  await keeper.open(join(folder, 'a.json'));
  for (const [method, body] of [['PUT', { session: made.body.session }], ['DELETE', undefined]] as const) {
    t.match(await ask(method, '/sessions/a', body, { 'If-Match': made.etag }), { status: 409, body: { error: { code: 'session_locked', message: new RegExp(`another process \\(${process.pid}\\)`) } } });
  }
  t.match(await ask('GET', '/sessions/a'), { status: 200, body: { open: true } });
  const loaded = await loadSession(keeper.path!);
  await keeper.save({ ...loaded, exchanges: [...loaded.exchanges, { message: 'more', sentAt: '' }] });
  await keeper.release();
  for (const [method, body] of [['PUT', { session: made.body.session }], ['PUT', { name: 'b' }], ['DELETE', undefined]] as const) {
    t.match(await ask(method, '/sessions/a', body, { 'If-Match': made.etag }), { status: 412, body: { error: { code: 'session_changed' } } });
  }
  t.match((await ask('GET', '/sessions/a')).body, { open: false, session: { messages: [{}, {}, { content: 'more' }] } });
  const { etag } = await ask('GET', '/sessions/a');
  const both = await Promise.all([1, 2].map((index) => ask('PUT', '/sessions/a', { session: { ...made.body.session, index } }, { 'If-Match': etag })));
  t.strictSame(both.map(({ status }) => status), [200, 412], 'one of two wins, and the other hears of it');
  t.match(await ask('PUT', '/sessions/a', { name: 'b c' }, { 'If-Match': both[0]!.etag }), { status: 200, body: { name: 'b c' } });
  t.match(await ask('GET', '/sessions/a'), { status: 404, body: { error: { code: 'session_not_found' } } });
  t.match(await ask('DELETE', '/sessions/b%20c', undefined, { 'If-Match': both[0]!.etag }), { status: 200, body: { deleted: true } });
  t.strictSame((await ask('GET', '/sessions')).body.data, []);
});

t.test('an ETag that a proxy marked as weak names the same version', async (t) => {
  const { ask } = await start(t);
  const { etag, body } = await ask('POST', '/sessions', { name: 'a', session: { messages } });
  const written = await ask('PUT', '/sessions/a', { session: { ...body.session, index: 1 } }, { 'If-Match': `W/${etag}` });
  t.equal(written.status, 200);
  t.equal((await ask('DELETE', '/sessions/a', undefined, { 'If-Match': `W/${etag}` })).status, 412, 'an old version stays old');
  t.equal((await ask('DELETE', '/sessions/a', undefined, { 'If-Match': `W/${written.etag}` })).status, 200);
});

t.test('fields that a change leaves out get the values of a new chat', async (t) => {
  const { ask } = await start(t);
  const made = await ask('POST', '/sessions', { name: 'a', session: { messages, system: 'Be brief.', sampling: { temperature: 0.3 }, created_at: '2026-01-31T10:00:00.000Z' } });
  const written = await ask('PUT', '/sessions/a', { session: { model: 'builtin', messages } }, { 'If-Match': made.etag });
  t.match(written, { status: 200, body: { session: { model: 'builtin', system: '', messages, created_at: '2026-01-31T10:00:00.000Z' } } });
  t.not(written.body.session.sampling.temperature, 0.3);
});

t.test('a misspelled field is refused, and any other unknown one is named', async (t) => {
  const { ask } = await start(t);
  const refused = (param: string, meant: string) => ({ status: 400, body: { error: { code: 'unknown_parameter', param, message: new RegExp(`did you mean ${meant}\\?`) } } });
  t.match(await ask('POST', '/sessions', { sesssion: { messages } }), refused('sesssion', 'session'));
  t.match(await ask('POST', '/sessions', { session: { messages }, Name: 'x' }), refused('Name', 'name'));
  t.strictSame((await ask('GET', '/sessions')).body.data, []);
  const made = await ask('POST', '/sessions', { name: 'one', session: { messages, mood: 1 }, color: 'red' });
  t.match(made, { status: 200, body: { name: 'one', session: { mood: 1 }, warnings: [/ignored: "color"/] } });
  t.match(await ask('PUT', '/sessions/one', { name: 'two', sessions: { messages: [] } }, { 'If-Match': made.etag }), refused('sessions', 'session'));
  t.match(await ask('PUT', '/sessions/one', { name: 'two', color: 'red' }, { 'If-Match': made.etag }), { status: 200, body: { name: 'two', warnings: [/ignored: "color"/] } });
  t.notOk('warnings' in (await ask('GET', '/sessions/two')).body);
});

t.test('names are not paths, and an invalid chat is not written', async (t) => {
  const { folder, ask } = await start(t);
  for (const name of ['..%2Fa', 'a%2Fb', '.a']) t.equal((await ask('GET', `/sessions/${name}`)).status, 400, name);
  // Files of the working directory are not among them.
  t.equal((await ask('GET', '/sessions/package.json')).status, 400);
  t.match(await ask('POST', '/sessions', { name: '../a', session: {} }), { status: 400, body: { error: { code: 'invalid_usage' } } });
  t.match(await ask('POST', '/sessions', { session: { messages: [{ role: 'tool' }] } }), { status: 400, body: { error: { code: 'invalid_session' } } });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'broken.json'), '{');
  t.match((await ask('GET', '/sessions')).body.data, [{ name: 'broken', error: /not a valid saved chat/ }]);
  t.equal((await ask('GET', '/sessions/broken')).status, 400);
});

t.test('a chat finds its name beside many that begin alike, without trying each of them', async (t) => {
  const { folder, ask } = await start(t);
  const { body: { name } } = await ask('POST', '/sessions', { session: { messages } });
  await ask('POST', '/sessions', { session: { messages } });
  // Nobody can take the lock of a name that is taken anyway.
  for (const one of [name, `${name}-2`]) mkdirSync(join(folder, `${one}.json.lock`));
  t.match(await ask('POST', '/sessions', { session: { messages } }), { status: 200, body: { name: `${name}-3` } });
  const keeper = new SessionKeeper(folder, true);
  await keeper.save(await loadSession(join(folder, `${name}.json`)));
  t.equal(keeper.name, `${name}-4`);
  await keeper.release();
});

t.test('errors of the disk name paths in the log, not to clients', async (t) => {
  const { folder, ask, app } = await start(t);
  await ask('POST', '/sessions', { name: 'a', session: { messages } });
  writeFileSync(join(folder, 'broken.json'), '{');
  mkdirSync(join(folder, 'none.json'));
  mkdirSync(join(folder, 'a.kv'));
  const list = await ask('GET', '/sessions');
  t.match(list.body.data.find(({ name }: { name: string }) => name === 'broken'), { error: /^broken is not a valid saved chat/ });
  const replies = [list, await ask('GET', '/sessions/broken'), await ask('GET', '/sessions/none'), await ask('DELETE', '/sessions/a', undefined, { 'If-Match': '*' })];
  t.strictSame(replies.map(({ status }) => status), [200, 400, 500, 500]);
  rmSync(folder, { recursive: true });
  writeFileSync(folder, '');
  replies.push(await ask('GET', '/sessions'), await ask('POST', '/sessions', { session: { messages } }));
  for (const { status, body } of replies.slice(-2)) t.match({ status, body }, { status: 500, body: { error: { code: 'store_unwritable' } } });
  t.notMatch(JSON.stringify(replies), dirname(folder));
  t.ok(app.logged.some((text) => text.includes(join(folder, 'none.json'))) && app.logged.some((text) => /ENOTDIR|EEXIST/.test(text)), app.logged.join('\n'));
});

t.test('a full disk is a 507, which tells no path', async (t) => {
  const { folder, ask } = await start(t);
  const { body: { session } } = await ask('POST', '/sessions', { name: 'a', session: { messages } });
  // When the lock is taken, and when the chat is written.
  for (const call of ['writeFile', 'rename'] as const) {
    const usual = fs.promises[call];
    fs.promises[call] = () => Promise.reject(Object.assign(new Error(`ENOSPC: no space left on device, open '${folder}'`), { code: 'ENOSPC', path: folder }));
    syncBuiltinESMExports();
    const replies = [await ask('POST', '/sessions', { name: `b ${call}`, session: { messages } }), await ask('PUT', '/sessions/a', { session }, { 'If-Match': '*' })];
    Object.assign(fs.promises, { [call]: usual });
    syncBuiltinESMExports();
    for (const { status, body } of replies) t.match({ status, body }, { status: 507, body: { error: { code: 'disk_full' } } }, call);
    t.notMatch(JSON.stringify(replies), folder);
  }
});

t.test('saved chats are for the user of the machine, if the server shows them', async (t) => {
  const { url } = await startApp(t);
  t.match(await (await fetch(`${url}/sessions`)).json(), { error: { code: 'client_refused', message: /--ui-sessions/ } });
  const file = JSON.stringify({ keys: [{ name: 'owner', key: 'sesame', admin: true }, { name: 'team', key: 'guest' }] });
  const { ask } = await start(t, { apiKeyFile: file });
  t.equal((await ask('GET', '/sessions')).status, 401);
  t.match(await ask('GET', '/sessions', undefined, { authorization: 'Bearer guest' }), { status: 403, body: { error: { code: 'client_refused' } } });
  t.equal((await ask('GET', '/sessions', undefined, { authorization: 'Bearer sesame' })).status, 200);
  const open = await start(t);
  t.equal((await open.ask('GET', '/sessions', undefined, { 'x-forwarded-for': '10.0.0.1' })).status, 403, 'behind a proxy nobody knows who asks');
  t.equal((await open.ask('GET', '/sessions', undefined, { origin: 'https://evil.example' })).status, 403);
});

t.test('a list of many chats has few of their files open at once, and requests share one reading', async (t) => {
  const { folder, ask } = await start(t);
  const { body: { session } } = await ask('POST', '/sessions', { name: 'a', session: { messages } });
  for (let index = 0; index < 200; index++) writeFileSync(join(folder, `chat ${index}.json`), JSON.stringify(session));
  const { open } = promises;
  let [now, most, opened] = [0, 0, 0];
  t.teardown(() => {
    promises.open = open;
    syncBuiltinESMExports();
  });
  promises.open = async (...args) => {
    most = Math.max(most, ++now);
    opened++;
    const file = await open(...args);
    const close = file.close.bind(file);
    file.close = () => close().finally(() => now--);
    return file;
  };
  syncBuiltinESMExports();
  const { body: { data } } = await ask('GET', '/sessions');
  t.equal(data.filter((one: { exchanges?: number }) => one.exchanges === 1).length, 201);
  t.ok(most < 20, `${most} at once`);
  opened = 0;
  const lists = await Promise.all(Array.from({ length: 10 }, () => ask('GET', '/sessions')));
  t.strictSame(lists.map(({ body }) => (body as { data: object[] }).data.length), Array(10).fill(201));
  t.ok(opened < 3 * 201, `${opened} opened`);
});
