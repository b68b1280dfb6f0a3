import t from 'tap';
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { addAlias, removeAliases } from '#recua/models/aliases.js';
import type { Places } from '#recua/models/places.js';
import { chosenModels, storeChanged, storeModels } from '#recua/models/served-models.js';
import type { StoredModel } from '#recua/models/store.js';
import { commitA, folderOf, model, modelPart, partFile, put, putPartial } from './hub-layout.js';

const one = (id: string, more: Partial<StoredModel> = {}): StoredModel => (
  { path: `/models/${id}.gguf`, id, key: id, aliases: [], unlisted: [], createdSeconds: 1, repo: undefined, file: undefined, ...more }
);

t.test('chosen models are found by id, alias and path; an id wins, and case counts if it decides', async (t) => {
  const models = [one('Chat', { aliases: ['small', 'x'], unlisted: ['/here/chat.gguf'] }), one('embed', { aliases: ['Chat2', 'chat'] }), one('X')];
  const { find, list } = chosenModels(models, 'embed');
  t.match(await list(), models);
  const expected = {
    Chat: 'Chat', small: 'Chat', SMALL: 'Chat', '/here/chat.gguf': 'Chat', embed: 'embed', chat: 'embed', chat2: 'embed', x: 'Chat', X: 'X', '': 'embed', default: 'embed', DEFAULT: 'embed',
  };
  for (const [name, id] of Object.entries(expected)) t.equal((await find(name)).id, id, name);
  t.equal((await find(undefined)).id, 'embed');
  await t.rejects(find('CHAT'), { code: 'ambiguous_model', param: 'model', message: /2 models of this server; .*: Chat, embed/ });
  await t.rejects(find('/models/Chat.gguf'), { code: 'model_not_found', param: 'model' });
});

t.test('an unknown name is reported with the nearest ones, and never served by another model', async (t) => {
  const { find } = chosenModels([one('qwen-small'), one('qwen-large', { aliases: ['big'] }), one('llama')], 'llama');
  const refused = async (name: string, message: RegExp) => t.rejects(find(name), { code: 'model_not_found', status: 404, message });
  await refused('qwen', /Did you mean "qwen-small" or "qwen-large"\? GET \/v1\/models/);
  await refused('Lama', /Did you mean "llama"\?/);
  await refused('gpt-4o', /The model "gpt-4o" does not exist here\. GET/);
  await refused('x'.repeat(4_000), /The model a string of 4000 characters/);
});

t.test('repositories whose names differ only in case are told apart', async (t) => {
  const of = (repo: string, quantization: string, id = `${repo}:${quantization}`): StoredModel => one(id, { key: id, repo, file: `m-${quantization}.gguf` });
  const { find } = chosenModels([of('own/two', 'Q4_K_M'), of('own/two', 'Q8_0'), of('Own/Two', 'Q4_K_M', 'Own/Two')]);
  await t.rejects(find('own/two'), { code: 'ambiguous_model', message: /own\/two:Q4_K_M, own\/two:Q8_0/ });
  t.equal((await find('Own/Two')).id, 'Own/Two');
  t.equal((await find('own/two:q8_0')).id, 'own/two:Q8_0');
});

t.test('a file under two names is two models, under one it keeps its key', async (t) => {
  const keys = async (...models: StoredModel[]): Promise<string[]> => (await chosenModels(models).list()).map(({ key }) => key);
  t.strictSame(await keys(one('a', { key: 'file' }), one('b', { key: 'file' }), one('c', { key: 'other' })), ['a', 'b', 'other']);
});

t.test('a name that several models have is listed by none of them', async (t) => {
  const models = [one('a', { aliases: ['m', 'x'] }), one('b', { aliases: ['m', 'a', 'y'] })];
  const { find, list } = chosenModels(models);
  t.strictSame((await list()).map(({ aliases }) => aliases), [['x'], ['y']]);
  t.equal((await find('a')).id, 'a', 'an id is the name of no other');
  await t.rejects(find('m'), { code: 'ambiguous_model', message: /2 models of this server; .*: a, b/ });
});

t.test('a missing name is an error if there is no default model', async (t) => {
  const { find } = chosenModels([one('a'), one('b')]);
  for (const name of [undefined, '', 'default']) {
    await t.rejects(find(name), { code: 'invalid_type', param: 'model', message: /no default one\. It has "a", "b"; GET/ });
  }
  t.equal((await chosenModels([one('default')]).find('default')).id, 'default', 'a model may be called so');
  t.equal((await chosenModels([one('a'), one('default')], 'a').find('Default')).id, 'a', 'but if there is a default model, the name means that');
});

function placesIn(folder: string): Places {
  return { hub: join(folder, 'hub'), sessions: join(folder, 'sessions'), state: join(folder, 'state'), tokenFile: join(folder, 'token') };
}

async function fill(folder: string): Promise<Places> {
  const places = placesIn(folder);
  put(places.hub, { repo: 'acme/many-GGUF', file: 'many-Q4_K_M.gguf', bytes: model('m4') });
  put(places.hub, { repo: 'acme/many-GGUF', file: 'many-Q8_0.gguf', bytes: model('m8') });
  for (const part of [1, 2]) put(places.hub, { repo: 'acme/big', file: partFile('big-Q6_K', part, 2), bytes: modelPart(part - 1, 2) });
  put(places.hub, { repo: 'acme/torn', file: partFile('torn', 1, 3), bytes: modelPart(0, 3) });
  putPartial(places.hub, { repo: 'acme/half', file: 'half-Q5_K_M.gguf', etag: 'e'.repeat(64), sizeBytes: 1000, doneBytes: 437 });
  await addAlias(places, 'tiny', { repo: 'acme/many-GGUF', file: 'many-Q4_K_M.gguf' }, false);
  return places;
}

t.test('models of the store are listed as recua list names them, only complete ones, and found by all their names', async (t) => {
  const places = await fill(t.testdir());
  const { list, find } = storeModels({ places });
  t.strictSame((await list()).map(({ id }) => id), ['acme/big', 'acme/many-GGUF:Q4_K_M', 'acme/many-GGUF:Q8_0', 'builtin']);
  for (const name of ['tiny', 'acme/many-GGUF:Q4_K_M', 'acme/many-gguf:q4_k_m', 'many-Q4_K_M.gguf', 'many-Q4_K_M', 'hf.co/acme/many-GGUF/many-Q4_K_M.gguf']) {
    t.equal((await find(name)).id, 'acme/many-GGUF:Q4_K_M', name);
  }
  t.equal((await find('big-Q6_K')).id, 'acme/big');
  t.equal((await find('builtin')).id, 'builtin');
  await t.rejects(find('acme/many-GGUF'), { code: 'ambiguous_model', param: 'model' });
  await t.rejects(find('acme/half'), { code: 'model_not_found', param: 'model', message: /partly downloaded/ });
  await t.rejects(find('tny'), { code: 'model_not_found', message: /Did you mean "tiny"/ });
  await t.rejects(find(undefined), { code: 'invalid_type' });
  await t.rejects(find(join(folderOf(places.hub, 'acme/many-GGUF'), 'snapshots', commitA, 'many-Q8_0.gguf')), { code: 'model_not_found' }, 'no path opens a file');
});

t.test('an alias means its model, also if a file of another is called so; two files of one name mean none', async (t) => {
  const places = placesIn(t.testdir());
  for (const [repo, file] of [['own/a', 'm.gguf'], ['own/b', 'm.gguf'], ['own/c', 'n.gguf']] as const) {
    put(places.hub, { repo, file, bytes: model(repo) });
  }
  const { list, find } = storeModels({ places, first: [one('n')] });
  const listed = async () => Object.fromEntries((await list()).map(({ id, aliases }) => [id, aliases]));
  t.match(await listed(), { 'own/a': ['own/a/m.gguf'], 'own/b': ['own/b/m.gguf'], 'own/c': ['own/c/n.gguf', 'n.gguf'], n: [] });
  await t.rejects(find('m'), { code: 'ambiguous_model', message: /own\/a, own\/b/ });
  t.equal((await find('n')).id, 'n', 'a model of the configuration comes first');
  await addAlias(places, 'm', { repo: 'own/c', file: 'n.gguf' }, false);
  storeChanged();
  t.match(await listed(), { 'own/a': ['own/a/m.gguf'], 'own/c': ['m', 'own/c/n.gguf', 'n.gguf'] });
  t.equal((await find('m')).id, 'own/c');
});

t.test('a model pulled while the server runs is found at once, and a removed one goes after a moment', async (t) => {
  const places = await fill(t.testdir());
  let nowMs = 0;
  const { list, find } = storeModels({ places, now: () => nowMs });
  t.equal((await list()).length, 4);
  put(places.hub, { repo: 'acme/new', file: 'new-Q4_0.gguf', bytes: model('new') });
  await t.rejects(find('acme/new'), { code: 'model_not_found' });
  nowMs = 1_000;
  t.equal((await find('acme/new')).id, 'acme/new');
  rmSync(folderOf(places.hub, 'acme/new'), { recursive: true });
  t.equal((await find('acme/new')).id, 'acme/new');
  nowMs = 10_000;
  await t.rejects(find('acme/new'), { code: 'model_not_found' });
  t.equal((await list()).length, 4);
});

t.test('an alias that another process adds, moves or removes counts at once', async (t) => {
  const places = await fill(t.testdir());
  for (const name of ['va', 'vb']) put(places.hub, { repo: `own/${name}`, file: 'm.gguf', bytes: model(name) });
  const { list, find } = storeModels({ places, now: () => 0 });
  await list();
  await t.rejects(find('moving'), { code: 'model_not_found' });
  for (const name of ['va', 'vb', 'va']) {
    await addAlias(places, 'moving', { repo: `own/${name}`, file: 'm.gguf' }, true);
    const [one, other] = await Promise.all([find('moving'), find('moving')]);
    t.same([one.id, other.id], [`own/${name}`, `own/${name}`]);
  }
  await removeAliases(places, (alias) => alias === 'moving');
  await t.rejects(find('moving'), { code: 'model_not_found' });
});

t.test('requests that go on coming do not wait for the store to be read again, and a slow store is read less often', async (t) => {
  const places = await fill(t.testdir());
  let nowMs = 0;
  let stepMs = 0;
  const { find } = storeModels({ places, now: () => (nowMs += stepMs) });
  const isKnown = async (): Promise<boolean> => await find('acme/big').then(() => true, () => false);
  t.ok(await isKnown());
  rmSync(folderOf(places.hub, 'acme/big'), { recursive: true });
  nowMs = 4_500;
  t.ok(await isKnown(), 'from what was read before');
  while (await isKnown()) await wait(5);
  // Each reading takes five seconds from here on.
  nowMs = 20_000;
  stepMs = 5_000;
  t.notOk(await isKnown());
  stepMs = 0;
  put(places.hub, { repo: 'acme/big', file: 'big-Q4_0.gguf', bytes: model('big') });
  nowMs += 4_000;
  t.notOk(await isKnown(), 'not read again');
  nowMs += 2_000;
  t.ok(await isKnown());
});

t.test('damaged aliases leave those read before in use, and are reported once', async (t) => {
  const places = await fill(t.testdir());
  let nowMs = 0;
  const warned: string[] = [];
  const { list, find } = storeModels({ places, now: () => nowMs, warn: (text) => warned.push(text) });
  t.equal((await find('tiny')).id, 'acme/many-GGUF:Q4_K_M');
  writeFileSync(join(places.state, 'aliases.json'), '{"a":5}');
  for (nowMs of [10_000, 20_000]) {
    t.equal((await list()).length, 4);
    t.equal((await find('tiny')).id, 'acme/many-GGUF:Q4_K_M');
  }
  t.match(warned, [/previous aliases stay in use\. Expected aliases in .*aliases\.json/]);
  t.equal(warned.length, 1);
  t.equal((await storeModels({ places }).list()).length, 4, 'a server that starts has none');
});

t.test('what cannot be read of the store keeps what was known, hides no other model, and is reported once', { skip: process.platform === 'win32' && 'links need rights' }, async (t) => {
  const places = await fill(t.testdir());
  let nowMs = 0;
  const warned: string[] = [];
  const { list, find } = storeModels({ places, now: () => nowMs, warn: (text) => warned.push(text) });
  t.equal((await list()).length, 4);
  // A link to itself cannot be read by root either.
  const unreadable = (path: string): void => {
    renameSync(path, `${path}.before`);
    symlinkSync(path, path);
  };
  unreadable(join(folderOf(places.hub, 'acme/big'), 'snapshots'));
  for (nowMs of [10_000, 20_000]) {
    t.equal((await list()).length, 4);
    t.equal((await find('acme/big')).id, 'acme/big');
  }
  t.match(warned, [/The model store.s folder .*snapshots cannot be read: ELOOP.* What was known of its models stays in use\./]);
  const late: string[] = [];
  const started = storeModels({ places, warn: (text) => late.push(text) });
  t.equal((await started.list()).length, 3, 'a server that starts has the other models');
  await t.rejects(started.find('acme/big'), { code: 'model_not_found' });
  unreadable(places.hub);
  nowMs = 30_000;
  t.equal((await list()).length, 4);
  t.equal((await find('tiny')).id, 'acme/many-GGUF:Q4_K_M');
  t.match(warned[1], /hub cannot be read: ELOOP/);
  t.strictSame([warned.length, late.length], [2, 1]);
});
