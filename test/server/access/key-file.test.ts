// Key files: what they may contain, what is refused, and changes while the server runs.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { ApiKeys } from '#recua/server/access/api-keys.js';
import { FakeEngine, hang } from '../fake-engine.js';
import { openSocket } from './open-socket.js';
import { hello, ownFolder, post, startApp, until } from '../app-under-test.js';

const read = (file: string): ApiKeys => ApiKeys.read({ keys: '', file });

t.test('the limits of a key are read', (t) => {
  const file = JSON.stringify([{ name: 'ann', key: 'a', models: ['x', 'y'], requests_per_minute: 5, tokens_per_day: 6, concurrency: 7, priority: 'flex' }]);
  t.match(read(file).find('a', 0), { models: ['x', 'y'], requestsPerMinute: 5, tokensPerDay: 6, concurrency: 7, priority: -1 });
  for (const [field, value, message] of [
    ['models', [], /models of keys\[0\] of the key file is not a list of names/], ['models', 'x', /not a list of names/], ['models', [''], /not a list of names/],
    ['requests_per_minute', 0, /requests_per_minute of keys\[0\] .*not a whole number of at least 1/], ['tokens_per_day', 1.5, /tokens_per_day/], ['concurrency', '2', /concurrency/],
    ['cache_salt', 'yes', /neither true nor false/], ['priority', 'high', /not one of flex, default, priority/], ['priority', 'toString', /not one of flex/], ['requests_per_hour', 1, /the known fields are name, key/],
  ] as const) {
    t.throws(() => read(JSON.stringify([{ key: 'a', [field]: value }])), { code: 'invalid_usage', message }, `${field} ${JSON.stringify(value)}`);
  }
  t.end();
});

t.test('any file gives its keys, or is refused with a sentence that does not show them', (t) => {
  const value = fc.oneof(fc.jsonValue(), fc.constantFrom('a', true, 1, -1, ['m'], '2027-01-31', 'flex', createHash('sha256').digest('hex')));
  const key = fc.dictionary(fc.constantFrom('name', 'key', 'sha256', 'admin', 'expires', 'models', 'requests_per_minute', 'tokens_per_day', 'concurrency', 'priority', 'cache_salt', '__proto__', 'x'), value);
  const text = fc.oneof(fc.string({ unit: 'binary' }), fc.array(key).map((all) => JSON.stringify(all)), fc.array(key).map((keys) => JSON.stringify({ keys })), fc.array(key).map((all) => JSON.stringify(all).slice(1)));
  fc.assert(fc.property(text, (file) => {
    try {
      const keys = read(file);
      return keys.areAsked || file === '';
    } catch (thrown) {
      return thrown instanceof RecuaError && thrown.code === 'invalid_usage' && /^The API keys cannot be used: .*\.$/s.test(thrown.message);
    }
  }), { numRuns: 20_000 });
  const secret = 'Sesame-4711';
  for (const broken of [`${secret} ${secret}`, `[{"key":"${secret}"`, `[{"key":"${secret}","sha256":"${secret}"}]`, `[{"key":"${secret}","priority":"x"}]`]) t.throws(() => read(broken), { message: /^(?!.*Sesame)/s });
  t.end();
});

t.test('a key that is limited to a model that the server lacks is warned of', async (t) => {
  const apiKeyFile = JSON.stringify([{ name: 'ann', key: 'a', models: ['small', 'smal'] }, { name: 'bob', key: 'b' }, { name: 'cid', key: 'c', models: ['Small'] }]);
  const { logged } = await startApp(t, { apiKeyFile });
  await until(() => logged.length > 1);
  t.strictSame(logged, [
    'warn The API key ann is limited to "smal", which this server does not have.',
    'warn The API key cid is limited to "Small", but the model is called "small"; write the name like that.',
  ]);
});

t.test('keys come and go without a restart, and an invalid file changes nothing', async (t) => {
  const file = join(ownFolder(t), 'keys.json');
  const put = (text: string): void => {
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  const first = JSON.stringify([{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }]);
  put(first);
  const { url, logged } = await startApp(t, { apiKey: 'owner', apiKeyFile: first }, new FakeEngine(), { keyFile: file });
  const status = async (key: string): Promise<number> => (await fetch(`${url}/v1/models`, { headers: { 'x-api-key': key } })).status;
  t.equal(await status('a'), 200);

  put(JSON.stringify([{ name: 'bob', key: 'b' }, { name: 'eve', key: 'e' }]));
  await until(() => logged.some((line) => /^info The API keys of .* were read again$/.test(line)));
  t.strictSame([await status('a'), await status('b'), await status('e'), await status('owner')], [401, 200, 200, 200]);

  let refusals = 0;
  for (const [bad, why] of [['[{"key":', /begins like JSON/], ['', /is empty/], ['[{}]', /needs either key or sha256/], [undefined, /ENOENT/]] as const) {
    if (bad === undefined) rmSync(file);
    else put(bad);
    refusals++;
    await until(() => logged.filter((line) => /^warn The previous API keys stay in use\. /.test(line)).length === refusals);
    t.match(logged.findLast((line) => line.includes('stay in use')), why);
    t.strictSame([await status('a'), await status('b')], [401, 200], String(why));
  }
  t.notOk(logged.some((line) => /"key"/.test(line)));
});

t.test('a file of lines that is cut off makes no key that is easy to guess', async (t) => {
  const file = join(ownFolder(t), 'keys');
  const first = 'sesame-4711\nmelon-0815\n';
  writeFileSync(file, first);
  const { url, logged } = await startApp(t, { apiKeyFile: first }, new FakeEngine(), { keyFile: file });
  const status = async (key: string): Promise<number> => (await fetch(`${url}/v1/models`, { headers: { 'x-api-key': key } })).status;
  writeFileSync(file, first.slice(0, 13));
  await until(() => logged.some((line) => /^warn The previous API keys stay in use\. .* ends in the midst of a key/.test(line)));
  t.notOk(logged.some((line) => line.includes('sesame')));
  t.strictSame([await status('m'), await status('melon-0815')], [401, 200]);
  writeFileSync(file, 'sesame-4711\nm\n');
  await until(() => logged.some((line) => line.includes('were read again')));
  t.strictSame([await status('m'), await status('melon-0815')], [200, 401], 'a whole line counts');
  writeFileSync(file, 'sesame-4711');
  await until(() => logged.filter((line) => line.includes('were read again')).length === 2);
  t.strictSame([await status('m'), await status('sesame-4711')], [401, 200], 'so does a whole key');
});

t.test('an open connection does not become that of another user when the file changes', async (t) => {
  const file = join(ownFolder(t), 'keys.json');
  const put = (keys: object[]): void => {
    writeFileSync(`${file}.new`, JSON.stringify(keys));
    renameSync(`${file}.new`, file);
  };
  put([{ name: 'ann', key: 'a', models: ['small'] }, { name: 'eve', key: 'e' }]);
  const { url } = await startApp(t, { apiKeyFile: readFileSync(file, 'utf8') }, new FakeEngine(), { keyFile: file });
  const [idle, other] = await Promise.all(['a', 'e'].map((key) => openSocket(t, url, key)));
  const leave = new AbortController();
  t.teardown(() => leave.abort());
  const events = await fetch(`${url}/models/sse`, { headers: { 'x-api-key': 'e' }, signal: leave.signal });

  // The first key gets another name, the second one fewer rights.
  put([{ name: 'bob', key: 'a', models: ['small'] }, { name: 'ann', key: 'new' }, { name: 'eve', key: 'e', models: ['small'] }]);
  t.equal(await idle!.closed, 1008);
  await t.rejects(events.text(), 'the stream of events is cut off');
  const answered = once(other!.socket, 'message') as Promise<[Buffer]>;
  other!.socket.send(JSON.stringify({ type: 'response.create', input: 'x', model: 'small' }));
  t.match(JSON.parse((await answered)[0].toString()), { type: 'response.created' }, 'the same user goes on');
});

t.test('what a key started in the background, and its open streams, end with the key', async (t) => {
  const file = join(ownFolder(t), 'keys.json');
  const put = (...names: string[]): void => {
    writeFileSync(`${file}.new`, JSON.stringify(names.map((name) => ({ name, key: name }))));
    renameSync(`${file}.new`, file);
  };
  put('ann', 'bob');
  const { url, engine } = await startApp(t, { apiKeyFile: readFileSync(file, 'utf8') }, new FakeEngine(), { keyFile: file });
  engine.script = hang;
  const as = (key: string): Record<string, string> => ({ 'x-api-key': key });
  const start = async (key: string): Promise<string> => ((await (await post(`${url}/v1/responses`, { input: 'x', background: true }, as(key))).json()) as { id: string }).id;
  const stateOf = async (id: string, key: string): Promise<unknown> => await (await fetch(`${url}/v1/responses/${id}`, { headers: as(key) })).json();
  const own = await start('ann');
  const other = await start('bob');
  const leave = new AbortController();
  t.teardown(() => leave.abort());
  void post(url + '/v1/chat/completions', { ...hello, stream: true }, as('ann'), leave.signal).catch(() => undefined);
  await until(() => engine.running.size === 3);
  engine.acceptAfter = new Promise(() => undefined);
  const waiting = await start('ann');
  const [events, otherEvents] = await Promise.all(['ann', 'bob'].map((key) => fetch(`${url}/models/sse`, { headers: as(key), signal: leave.signal })));
  let isOpen = true;
  void otherEvents!.text().catch(() => undefined).finally(() => (isOpen = false));

  put('bob');
  await t.rejects(events!.text(), 'the stream of events is cut off');
  await until(() => engine.running.size === 2);
  t.match(await stateOf(other, 'bob'), { status: 'in_progress' });
  t.ok(isOpen);
  put('ann', 'bob');
  for (let status = 401; status === 401;) ({ status } = await fetch(`${url}/v1/models`, { headers: as('ann') }));
  for (const id of [own, waiting]) t.match(await stateOf(id, 'ann'), { status: 'failed', error: { code: 'invalid_api_key', message: /The API key ann, .* was removed/ } });
});

t.test('a pipe in place of the file is reported, and the file after it counts', { skip: process.platform === 'win32' && 'has no such pipes' }, async (t) => {
  const file = join(ownFolder(t), 'keys');
  writeFileSync(file, 'first');
  const app = await startApp(t, { apiKeyFile: 'first' }, new FakeEngine(), { keyFile: file });
  const statusOf = async (key: string): Promise<number> => (await fetch(`${app.url}/v1/models`, { headers: { 'x-api-key': key } })).status;
  rmSync(file);
  execFileSync('mkfifo', [file]);
  await until(() => app.logged.some((line) => /warn The previous API keys stay in use\. .*keys is not a regular file/.test(line)));
  t.equal(await statusOf('first'), 200);
  rmSync(file);
  writeFileSync(file, 'second');
  await until(() => app.logged.some((line) => line.includes('were read again')));
  t.strictSame([await statusOf('first'), await statusOf('second')], [401, 200]);
});
