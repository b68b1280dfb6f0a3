import t, { type Test } from 'tap';
import { appendFileSync, chmodSync, copyFileSync, linkSync, promises, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import type { RecuaError } from '#recua/errors.js';
import { makeConfig } from '#recua/settings/config.js';
import { readModelsFile } from '#recua/cli/flags/models-file.js';
import { modelShelf } from '#recua/cli/serve/model-shelf.js';
import { severalModels } from '#recua/cli/serve/several-models.js';
import { builtinPath } from '#recua/models/store.js';
import { commitA, commitB, put } from '../../models/hub-layout.js';

const config = makeConfig({ contextSize: 512, parallel: 2 });
const none = { file: undefined, config };

function setHub(t: Test, hub: string): void {
  const before = process.env['HUB_HOME'];
  process.env['HUB_HOME'] = hub;
  t.teardown(() => {
    if (before === undefined) delete process.env['HUB_HOME'];
    else process.env['HUB_HOME'] = before;
  });
}

t.test('only the operands are served, they are loaded at once, and the first is the default', async (t) => {
  const path = join(t.testdir(), 'copy.gguf');
  copyFileSync(builtinPath, path);
  const { catalogue, preload } = await severalModels({ ...none, names: [path, 'builtin'] });
  t.strictSame(preload, ['copy', 'builtin']);
  t.strictSame((await catalogue.list()).map(({ id }) => id), ['copy', 'builtin']);
  t.equal((await catalogue.find(undefined)).id, 'copy');
  t.equal((await catalogue.find(path)).id, 'copy', 'a path is a name where it was an operand');
  const plan = await catalogue.plan(await catalogue.find('copy'));
  t.match(plan, { options: { modelPath: path, contextSize: 512, parallel: 2, checked: [{ path }] }, keepAliveMs: 600_000, pinned: false });
  t.ok(plan.needBytes > 1_000_000);
  chmodSync(path, 0o600);
  linkSync(path, join(t.testdirName, 'link.gguf'));
  t.equal((await catalogue.plan(await catalogue.find('copy'))).fingerprint, plan.fingerprint, 'the same bytes');
  appendFileSync(path, '\0');
  t.not((await catalogue.plan(await catalogue.find('copy'))).fingerprint, plan.fingerprint, 'another file, another print');
  writeFileSync(path, '<html>');
  const broken = await catalogue.plan(await catalogue.find('copy')).then(() => ({ code: '', message: '' }), (error: unknown) => error as RecuaError);
  t.match(broken, { code: 'invalid_gguf', param: 'model', message: /^copy cannot be loaded: copy\.gguf / });
  t.notOk(broken.message.includes(t.testdirName), 'clients are not told of folders');
  rmSync(path);
  await t.rejects(catalogue.plan(await catalogue.find('copy')), { code: 'model_not_found', message: 'copy cannot be loaded: There is no file copy.gguf.' });
});

t.test('two models with one name, or one model twice, are refused before anything is loaded', async (t) => {
  const folder = t.testdir({ a: {}, b: {}, 'page.gguf': '<html>' });
  const [a, b] = ['a', 'b'].map((name) => join(folder, name, 'same.gguf'));
  for (const path of [a, b]) copyFileSync(builtinPath, path);
  await t.rejects(severalModels({ ...none, names: [a, b] }), { code: 'invalid_usage', message: /Two models would be called same: .*--models FILE/ });
  await t.rejects(severalModels({ ...none, names: [a, a] }), { code: 'invalid_usage', message: /each model once, got same twice/ });
  await t.rejects(severalModels({ ...none, names: [a, join(folder, 'page.gguf')] }), { code: 'invalid_gguf' });
  await t.rejects(severalModels({ ...none, names: [a, join(folder, 'none.gguf')] }), { code: 'model_not_found' });
});

t.test('a models file names its models, and its settings override those of the server', async (t) => {
  const folder = t.testdir({
    'models.json': JSON.stringify({
      default: 'small',
      models: {
        large: { model: 'copy.gguf', context: 256, pooling: 'cls', pinned: true, keepAlive: -1 },
        small: { model: 'copy.gguf', aliases: ['mini'], temperature: 0, topK: 1, keepAlive: 0 },
      },
    }),
  });
  copyFileSync(builtinPath, join(folder, 'copy.gguf'));
  const file = await readModelsFile(join(folder, 'models.json'));
  const { catalogue, preload, defaultsOf } = await severalModels({ ...none, file, names: [] });
  t.strictSame(preload, ['large'], 'what is pinned is loaded at once');
  t.equal((await catalogue.find('')).id, 'small');
  t.equal((await catalogue.find('MINI')).id, 'small');
  t.match(await catalogue.plan(await catalogue.find('large')), { options: { contextSize: 256, parallel: 2, pooling: 'cls' }, keepAliveMs: Infinity, pinned: true });
  t.match(await catalogue.plan(await catalogue.find('small')), { options: { contextSize: 512, pooling: 'auto' }, keepAliveMs: 0, pinned: false });
  t.strictSame(defaultsOf('small'), { temperature: 0, sampling: { topK: 1 } });
  t.strictSame(defaultsOf('large'), { sampling: {} });
  for (const name of ['copy', 'copy.gguf', join(folder, 'copy.gguf')]) await t.rejects(catalogue.find(name), { code: 'model_not_found' });
  const some = await severalModels({ ...none, file, names: ['mini'] });
  t.strictSame((await some.catalogue.list()).map(({ id }) => id), ['small'], 'operands choose among them');
  t.strictSame(some.preload, ['small']);
  some.onWarning(() => t.fail('the file is used'));
  const warned: string[] = [];
  (await severalModels({ ...none, file, names: ['builtin'] })).onWarning((text) => warned.push(text));
  t.match(warned, [/models\.json has no effect: it names none of builtin\. Its models: large, small\.$/]);
});

t.test('models of the config file have their own settings, and the rest of the store is served beside them', async (t) => {
  const folder = t.testdir({ 'config.json': JSON.stringify({ models: { small: { model: 'builtin', context: 256, group: 'one' }, copy: { model: 'copy.gguf' } } }) });
  copyFileSync(builtinPath, join(folder, 'copy.gguf'));
  const path = join(folder, 'config.json');
  const file = await readModelsFile(path, path);
  const { catalogue, preload, only } = await severalModels({ ...none, file, names: [] });
  const ids = (await catalogue.list()).map(({ id }) => id);
  t.strictSame(ids.slice(0, 2), ['small', 'copy']);
  t.notOk(ids.includes('builtin'), 'a model of the store is there once');
  t.strictSame([preload, only], [[], undefined]);
  for (const name of ['', 'default', 'small', 'builtin']) t.equal((await catalogue.find(name)).id, 'small', name);
  t.match(await catalogue.plan(await catalogue.find('builtin')), { options: { contextSize: 256 }, group: 'one' }, 'by any name with its settings');
  const { catalogue: others } = await severalModels({ ...none, file: { ...file, models: new Map([['copy', file.models.get('copy')!]]) }, names: [] });
  t.equal((await others.find('builtin')).id, 'builtin');
  t.match(await others.plan(await others.find('builtin')), { options: { contextSize: 512 } });
});

t.test('a template of the models file is read before each load', async (t) => {
  const folder = t.testdir({
    'models.json': JSON.stringify({ models: { own: { model: 'builtin', template: 'own.jinja', pinned: true }, good: { model: 'builtin' } } }),
  });
  const template = join(folder, 'own.jinja');
  const file = await readModelsFile(join(folder, 'models.json'));
  const { catalogue, preload, onWarning } = await severalModels({ ...none, file, names: [] });
  const warned: string[] = [];
  onWarning((text) => warned.push(text));
  t.match(warned, [/models\.json, model "own": .*own\.jinja cannot be read: there is no such file/]);
  t.strictSame(preload, [], 'the others are served');
  t.notOk(JSON.stringify((await catalogue.list()).map(({ problem }) => problem)).includes(folder), 'clients are not told of folders');
  const plan = async () => await catalogue.plan(await catalogue.find('own'));
  await t.rejects(plan(), { code: 'file_unreadable', message: /^own cannot be loaded: own\.jinja cannot be read/ });
  writeFileSync(template, '');
  await t.rejects(plan(), { code: 'file_unreadable', message: 'own cannot be loaded: own.jinja is empty.' }, 'the model\'s own template does not replace it');
  const prints = new Set<string>();
  for (const text of ['{{ messages }}', '{{ bos_token }}', '{{ messages }}']) {
    writeFileSync(template, text);
    const { options, fingerprint } = await plan();
    t.equal(options.chatTemplate, text);
    prints.add(fingerprint);
  }
  t.equal(prints.size, 2, 'if one did not load, another is tried at once');
});

t.test('a model of the models file that cannot be used is failed, and the others are served', async (t) => {
  const folder = t.testdir({
    'page.gguf': '<html>',
    'models.json': JSON.stringify({ models: { page: { model: 'page.gguf', pinned: true }, late: { model: 'late.gguf', aliases: ['soon'] }, good: { model: 'builtin' } } }),
    'none.json': JSON.stringify({ models: { page: { model: 'page.gguf' }, late: { model: 'late.gguf' } } }),
  });
  const file = await readModelsFile(join(folder, 'models.json'));
  const { catalogue, preload, onWarning } = await severalModels({ ...none, file, names: [] });
  const warned: string[] = [];
  onWarning((text) => warned.push(text));
  t.match(warned, [/models\.json, model "page": .*page\.gguf/, /models\.json, model "late": There is no model late\.gguf/]);
  t.strictSame(preload, []);
  t.match(await catalogue.list(), [{ id: 'page', problem: { code: 'invalid_gguf' } }, { id: 'late', problem: { code: 'model_not_found' } }, { id: 'good', problem: undefined }]);
  t.notOk(JSON.stringify((await catalogue.list()).map(({ problem }) => problem)).includes(t.testdirName), 'clients are not told of folders');
  t.match(await catalogue.plan(await catalogue.find('good')), { options: { modelPath: builtinPath } });
  await t.rejects(catalogue.plan(await catalogue.find('page')), { code: 'invalid_gguf' });
  await t.rejects(catalogue.plan(await catalogue.find('soon')), { code: 'model_not_found', message: /^late cannot be loaded: There is no model late\.gguf/ });
  await t.rejects(severalModels({ ...none, file: await readModelsFile(join(folder, 'none.json')), names: [] }), { code: 'invalid_gguf', message: /none\.json, model "page"/ });
  copyFileSync(builtinPath, join(folder, 'late.gguf'));
  t.match(await catalogue.plan(await catalogue.find('soon')), { options: { modelPath: join(folder, 'late.gguf') } }, 'its file is there now');
  await t.rejects(severalModels({ ...none, file, names: ['good', 'page'] }), { code: 'invalid_gguf', message: /models\.json, model "page"/ }, 'operands must all be right');
});

/** A models file with nine models of a store; counts how often the store is read. */
async function nine(t: Test): Promise<{ file: Awaited<ReturnType<typeof readModelsFile>>; reads: () => number }> {
  const names = Array.from({ length: 9 }, (_, i) => `a/b${i}`);
  const folder = t.testdir({ hub: {}, 'models.json': JSON.stringify({ models: Object.fromEntries(names.map((model, i) => [`m${i}`, { model }])) }) });
  setHub(t, join(folder, 'hub'));
  for (const repo of names) put(join(folder, 'hub'), { repo, file: 'm.gguf', bytes: readFileSync(builtinPath) });
  const { readdir } = promises;
  let reads = 0;
  t.teardown(() => {
    promises.readdir = readdir;
    syncBuiltinESMExports();
  });
  promises.readdir = (async (...args: Parameters<typeof readdir>) => {
    if (args[0] === join(folder, 'hub')) reads++;
    return await readdir(...args);
  }) as typeof readdir;
  syncBuiltinESMExports();
  return { file: await readModelsFile(join(folder, 'models.json')), reads: () => reads };
}

t.test('for all models of a models file, the store is read once', async (t) => {
  const { file, reads } = await nine(t);
  const { catalogue } = await severalModels({ ...none, names: [], file });
  t.equal((await catalogue.list()).length, 9);
  t.equal(reads(), 1);
});

t.test('requests that come at once share a reading of the store', async (t) => {
  const { file, reads } = await nine(t);
  const { files } = await severalModels({ ...none, names: [], file });
  const shelf = modelShelf(files);
  const before = reads();
  const many = async (ask: () => Promise<unknown>): Promise<unknown> => await Promise.all(Array.from({ length: 20 }, ask));
  await many(async () => t.match(await shelf.describe('m1'), { architecture: 'llama' }));
  await many(async () => t.equal((await shelf.ownNames()).length, 9));
  await many(async () => await t.rejects(shelf.remove('a/none'), { code: 'model_not_found' }));
  await many(async () => await t.rejects(shelf.copy('a/none', 'b'), { code: 'model_not_found' }));
  t.ok(reads() - before < 40, `${reads() - before} readings for 80 requests`);
});

for (const [again, isKept] of [['pulled', true], ['imported', false]] as const) t.test(`a model of the store that is ${again} again is found at its new path`, async (t) => {
  const folder = t.testdir({
    hub: {}, 'models.json': JSON.stringify({ models: { chat: { model: 'a/b', context: 256 } } }),
  });
  const hub = join(folder, 'hub');
  setHub(t, hub);
  const entry = { repo: 'a/b', file: 'm.gguf', bytes: readFileSync(builtinPath) };
  const modelPath = put(hub, entry);
  const path = join(folder, 'models.json');
  const [alone, beside] = [await readModelsFile(path), await readModelsFile(path, path)];
  const all = await Promise.all([{ names: ['a/b'], file: undefined }, { names: [], file: alone }, { names: [], file: beside }].map((one) => severalModels({ config, ...one })));
  for (const { catalogue } of all) t.match(await catalogue.plan((await catalogue.list())[0]!), { options: { modelPath } });

  const { catalogue: old } = await severalModels({ ...none, names: [`a/b@${commitA}`, 'builtin'] });
  if (!isKept) rmSync(modelPath);
  const bytes = Buffer.concat([entry.bytes, Buffer.alloc(1)]);
  const now = put(hub, { ...entry, bytes, commit: commitB });
  for (const { catalogue, files } of all) {
    const [{ id } = { id: '' }] = await catalogue.list();
    t.match(await catalogue.plan(await catalogue.find(id)), { options: { modelPath: now } }, id);
    t.equal(await files.pathOf(id), now);
  }
  const one = old.plan(await old.find(''));
  if (isKept) t.match(await one, { options: { modelPath } }, 'what names a version means no other');
  else await t.rejects(one, { code: 'model_not_found' }, 'what names a version means no other');
  t.match(await all[2]!.catalogue.plan(await all[2]!.catalogue.find('a/b')), { options: { modelPath: now, contextSize: 256 } }, 'by any name with its settings');
});
