import t from 'tap';
import { mkdirSync, promises, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { addAlias } from '#recua/models/aliases.js';
import type { Places } from '#recua/models/places.js';
import { readInventory } from '#recua/models/lookup.js';
import { builtinPath, findModel, findRunnable, markUsed, runnableModels, scanStore } from '#recua/models/store.js';
import { commitA, commitB, folderOf, model, modelPart, partFile, put, putPartial } from './hub-layout.js';

function placesIn(folder: string): Places {
  return { hub: join(folder, 'hub'), sessions: join(folder, 'sessions'), state: join(folder, 'state'), tokenFile: join(folder, 'token') };
}

t.test('findModel() takes a path, absolute or relative, with or without its extension', async (t) => {
  const folder = t.testdir({ 'ñandú 7b.gguf': 'x' });
  const places = placesIn(folder);
  const path = join(folder, 'ñandú 7b.gguf');
  utimesSync(path, 1000, 1234);
  const expected = { path, id: 'ñandú 7b', key: path, aliases: ['ñandú 7b.gguf'], unlisted: [path], createdSeconds: 1234, fileBytes: 1, repo: undefined, file: undefined };
  t.strictSame(await findModel(path, { places }), expected);
  t.strictSame(await findModel('ñandú 7b.gguf', { folder, places }), { ...expected, unlisted: ['ñandú 7b.gguf', path] });
  t.strictSame(await findModel('ñandú 7b', { folder, places }), { ...expected, unlisted: ['ñandú 7b', path] });
});

t.test('findModel() names a split model without its part', async (t) => {
  const folder = t.testdir({ 'big-00001-of-00003.gguf': '' });
  t.equal((await findModel('big-00001-of-00003.gguf', { folder, places: placesIn(folder) })).id, 'big');
});

t.test('findModel() knows builtin as the built-in model, whatever the folder holds', async (t) => {
  const folder = t.testdir();
  writeFileSync(join(folder, 'builtin'), '');
  t.match(await findModel('builtin', { folder, places: placesIn(folder) }), { path: builtinPath, id: 'builtin' });
});

t.test('a file that is called like a name of Recua keeps its extension', async (t) => {
  const folder = t.testdir({ 'Default.gguf': model('default'), 'builtin.gguf': model('builtin'), 'default': model('default, too') });
  const places = placesIn(folder);
  t.match(await findModel('./Default.gguf', { folder, places }), { id: 'Default.gguf', aliases: [] });
  t.match(await findModel('./builtin.gguf', { folder, places }), { id: 'builtin.gguf', aliases: [] });
  t.match(await findModel('./default', { folder, places }), { id: 'default.gguf', aliases: [] });
  put(places.hub, { repo: 'own/d', file: 'default.gguf', bytes: model('d') });
  const { id, aliases } = await findModel('own/d', { places });
  t.strictSame([id, ...aliases], ['own/d', 'own/d/default.gguf', 'default.gguf']);
});

t.test('findModel() reports a missing model, and what was expected', async (t) => {
  const folder = t.testdir({ sub: {} });
  const places = placesIn(folder);
  await t.rejects(findModel('nope', { folder, places }), { code: 'model_not_found', message: /^There is no model nope, neither as a file nor in the store\. Expected .* builtin for the built-in model\. To find one to download: recua search nope$/ });
  await t.rejects(findModel('Tell me a joke', { folder, places }), { message: /builtin for the built-in model\. The model comes first: recua run <model> "<prompt>"$/ });
  for (const path of ['nope.gguf', 'my own model.gguf', 'my models/nope']) await t.rejects(findModel(path, { folder, places }), { message: /builtin for the built-in model\.$/ });
  await t.rejects(findModel('sub', { folder, places }), { code: 'file_unreadable', message: /is a folder/ });
  await t.rejects(findModel('', { places }), { code: 'model_not_found' });
  await t.rejects(findModel('a\0b', { folder, places }), { code: 'model_not_found' });
  await t.rejects(findModel('x'.repeat(5000), { folder, places }), { code: 'model_not_found' });
});

/** A store with one of everything. */
async function fill(folder: string): Promise<Places> {
  const places = placesIn(folder);
  const { hub } = places;
  put(hub, { repo: 'acme/solo-GGUF', file: 'solo-Q8_0.gguf', bytes: model('solo') });
  put(hub, { repo: 'acme/many-GGUF', file: 'many-Q4_K_M.gguf', bytes: model('m4') });
  put(hub, { repo: 'acme/many-GGUF', file: 'many-Q8_0.gguf', bytes: model('m8') });
  put(hub, { repo: 'acme/many-GGUF', file: 'mmproj-F16.gguf', bytes: model('eyes') });
  put(hub, { repo: 'acme/many-GGUF', file: 'README.md', bytes: '# many' });
  for (const part of [1, 2]) put(hub, { repo: 'acme/big', file: `Q6_K/${partFile('big-Q6_K', part, 2)}`, bytes: modelPart(part - 1, 2) });
  put(hub, { repo: 'acme/torn', file: partFile('torn', 1, 3), bytes: modelPart(0, 3) });
  put(hub, { repo: 'gpt2', file: 'gpt2.gguf', bytes: model('gpt2') });
  putPartial(hub, { repo: 'acme/half', file: 'half-Q5_K_M.gguf', etag: 'e'.repeat(64), sizeBytes: 1000, doneBytes: 437 });
  await addAlias(places, 'tiny', { repo: 'acme/many-GGUF', file: 'many-Q4_K_M.gguf' }, false);
  return places;
}

t.test('findModel() finds a model of the store by every name it has', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const find = async (name: string) => (await findModel(name, { folder: join(folder, 'empty'), places })).path;
  const snapshot = (repo: string, file: string) => join(folderOf(places.hub, repo), 'snapshots', commitA, file);
  const four = snapshot('acme/many-GGUF', 'many-Q4_K_M.gguf');
  for (const name of ['tiny', 'acme/many-GGUF:Q4_K_M', 'acme/many-GGUF:q4_k_m', 'hf:acme/many-GGUF:Q4_K_M', 'https://huggingface.co/acme/many-GGUF/blob/main/many-Q4_K_M.gguf',
    'hf.co/acme/many-GGUF/many-Q4_K_M.gguf', 'acme/many-GGUF/many-Q4_K_M.gguf', 'many-Q4_K_M.gguf', 'many-Q4_K_M', 'MANY-q4_k_m', 'ACME/Many-gguf:Q4_K_M', four]) {
    t.equal(await find(name), four, name);
  }
  const solo = snapshot('acme/solo-GGUF', 'solo-Q8_0.gguf');
  for (const name of ['acme/solo-GGUF', 'huggingface.co/acme/solo-GGUF', 'solo-Q8_0']) t.equal(await find(name), solo, name);
  const big = snapshot('acme/big', `Q6_K/${partFile('big-Q6_K', 1, 2)}`);
  for (const name of ['acme/big', 'acme/big:Q6_K', 'big-Q6_K', `acme/big/Q6_K/${partFile('big-Q6_K', 2, 2)}`, partFile('big-Q6_K', 1, 2)]) t.equal(await find(name), big, name);
  t.equal(await find('gpt2'), snapshot('gpt2', 'gpt2.gguf'));
});

t.test('findModel() reads the header if no name states the quantization', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = placesIn(folder);
  put(places.hub, { repo: 'acme/plain', file: 'a.gguf', bytes: model('a') });
  put(places.hub, { repo: 'acme/plain', file: 'b-F16.gguf', bytes: model('b') });
  t.match(await findModel('acme/plain:f16', { folder, places }), { file: 'b-F16.gguf' }, 'what the name says counts first, though the header says Q8_0');
  await t.rejects(findModel('acme/plain:Q8_0', { folder, places }), { code: 'ambiguous_model' }, 'both headers say so');
  rmSync(join(folderOf(places.hub, 'acme/plain'), 'snapshots', commitA, 'b-F16.gguf'));
  const path = join(folderOf(places.hub, 'acme/plain'), 'snapshots', commitA, 'a.gguf');
  utimesSync(path, 1000, 1000);
  t.match(await findModel('acme/plain:q8_0', { folder, places }), { file: 'a.gguf' });
  writeFileSync(path, Buffer.alloc(model('a').length));
  utimesSync(path, 1000, 1000);
  t.match(await findModel('acme/plain:q8_0', { folder, places }), { file: 'a.gguf' }, 'what did not change is not read again');
  utimesSync(path, 1000, 2000);
  await t.rejects(findModel('acme/plain:q8_0', { folder, places }), { code: 'model_not_found' });
});

t.test('a file wins over every name of the store, but not without its extension', async (t) => {
  const folder = t.testdir({ here: { tiny: 'x', 'acme': { 'big.gguf': 'y' } } });
  const places = await fill(folder);
  const here = join(folder, 'here');
  t.equal((await findModel('tiny', { folder: here, places })).path, join(here, 'tiny'));
  t.equal((await findModel('acme/big.gguf', { folder: here, places })).path, join(here, 'acme', 'big.gguf'));
  t.match(await findModel('acme/big', { folder: here, places }), { repo: 'acme/big' });
  mkdirSync(join(here, 'acme', 'solo-GGUF'));
  t.match(await findModel('acme/solo-GGUF', { folder: here, places }), { repo: 'acme/solo-GGUF' }, 'a folder of that name does not');
});

t.test('findModel() lists the candidates of an ambiguous name', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const options = { folder: join(folder, 'empty'), places };
  await t.rejects(findModel('acme/many-GGUF', options), { code: 'ambiguous_model', message: /2 models .*acme\/many-GGUF:Q4_K_M, acme\/many-GGUF:Q8_0\./ });
  put(places.hub, { repo: 'zeta/other', file: 'solo-Q8_0.gguf', bytes: model('other') });
  await t.rejects(findModel('solo-Q8_0', options), { code: 'ambiguous_model', message: /acme\/solo-GGUF, zeta\/other/ });
  for (let i = 0; i < 30; i++) put(places.hub, { repo: `many/r${i}`, file: 'same.gguf', bytes: model(`${i}`) });
  await t.rejects(findModel('same', options), { code: 'ambiguous_model', message: /^same means 30 models of the store; give one of them: many\/r0, .* and 10 others\.$/ });
});

t.test('findModel() says what is wrong with an incomplete model', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const options = { folder: join(folder, 'empty'), places };
  await t.rejects(findModel('acme/half', options), { code: 'model_not_found', message: /partly downloaded \(43 %\)\. Pull it again to go on: recua pull acme\/half --file \S+\.gguf$/ });
  await t.rejects(findModel('acme/torn', options), { code: 'model_not_found', message: /3 parts, of which parts 2, 3 are missing.*recua pull acme\/torn/ });
  rmSync(join(folderOf(places.hub, 'acme/solo-GGUF'), 'blobs'), { recursive: true });
  await t.rejects(findModel('acme/solo-GGUF', options), { code: 'model_not_found', message: /the file behind it is gone; recua list says which\. Pull it again/ });
  put(places.hub, { repo: 'acme/half', file: 'half-Q8_0.gguf', bytes: model('whole') });
  t.match(await findModel('acme/half', options), { file: 'half-Q8_0.gguf' }, 'the one that is whole is meant');
});

t.test('findModel() suggests near names, and pull for a name that the hub may have', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const options = { folder: join(folder, 'empty'), places };
  for (const name of ['tinny', 'TINY', 'tiny:latest']) await t.rejects(findModel(name, options), { message: /Did you mean tiny\?/ });
  await t.rejects(findModel('acme/solo-GUFF', options), { message: /Did you mean acme\/solo-GGUF\? To see its files and download one: recua pull acme\/solo-GUFF/ });
  await t.rejects(findModel('someone/else', options), { message: /To see its files and download one: recua pull someone\/else$/ });
  await t.rejects(findModel('someone/else:Q4_0', options), { message: /To download it: recua pull someone\/else:Q4_0$/ });
  await t.rejects(findModel('someone/else/f.gguf', options), { message: /recua pull someone\/else --file f\.gguf$/ });
  await t.rejects(findModel('acme/many-GGUF:Q2_K', options), { message: /The store has acme\/many-GGUF:Q4_K_M, acme\/many-GGUF:Q8_0\. To download it: recua pull acme\/many-GGUF:Q2_K/ });
  await t.rejects(findModel('acme/many-GGUF/mmproj-F16.gguf', options), { message: /goes with a model and cannot be run by itself/ });
  await addAlias(places, 'gone', { repo: 'acme/gone', file: 'x.gguf' }, false);
  await t.rejects(findModel('gone', options), { message: /The alias gone names acme\/gone\/x\.gguf, which is no longer in the store/ });
});

t.test('a model of the store can be requested by every one of its names', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const find = async (name: string) => await findModel(name, { folder: join(folder, 'empty'), places });
  const byAlias = await find('tiny');
  t.equal(byAlias.id, 'tiny');
  t.strictSame([...byAlias.aliases].sort(), ['acme/many-GGUF/many-Q4_K_M.gguf', 'acme/many-GGUF:Q4_K_M', 'many-Q4_K_M', 'many-Q4_K_M.gguf']);
  const alone = await find('acme/solo-GGUF');
  t.equal(alone.id, 'acme/solo-GGUF');
  t.strictSame([...alone.aliases].sort(), ['acme/solo-GGUF/solo-Q8_0.gguf', 'acme/solo-GGUF:Q8_0', 'solo-Q8_0', 'solo-Q8_0.gguf']);
  t.ok((await find(byAlias.path)).aliases.includes('tiny'), 'found by its path it keeps them');
  t.strictSame(byAlias.unlisted, ['tiny', byAlias.path]);
  put(places.hub, { repo: 'acme/blanks', file: 'two words-Q4_0.gguf', bytes: model('blanks') });
  t.equal((await find('acme/blanks/two words-Q4_0.gguf')).id, 'acme/blanks');
});

t.test('scanStore() lists all models by name, with what is known of each', async (t) => {
  const folder = t.testdir();
  const places = await fill(folder);
  put(places.hub, { repo: 'acme/plain', file: 'plain.gguf', bytes: model('plain'), plain: true });
  put(places.hub, { repo: 'acme/broken', file: 'broken-Q4_0.gguf', bytes: 'no model' });
  put(places.hub, { repo: 'acme/weights', file: 'model.safetensors', bytes: 'x' });
  mkdirSync(join(places.hub, 'datasets--acme--data', 'snapshots', commitA), { recursive: true });
  writeFileSync(join(places.hub, 'version.txt'), '1');
  const found = await scanStore(places);
  t.strictSame(found.map(({ name }) => name), [
    'acme/big', 'acme/broken', 'acme/half', 'acme/many-GGUF:Q4_K_M', 'acme/many-GGUF:Q8_0', 'acme/plain', 'acme/solo-GGUF', 'acme/torn', 'gpt2',
  ]);
  const byName = new Map(found.map((one) => [one.name, one]));
  t.match(byName.get('acme/big'), { totalParts: 2, parts: { length: 2 }, missingParts: [], sizeBytes: modelPart(0, 2).length + modelPart(1, 2).length });
  t.match(byName.get('acme/torn'), { missingParts: [2, 3] });
  t.match(byName.get('acme/broken'), { quantization: 'Q4_0' }, 'the name tells where the file does not');
  t.match(byName.get('acme/many-GGUF:Q4_K_M'), { quantization: 'Q8_0', aliases: ['tiny'], lastUsedMs: undefined }, 'the header counts');
  t.match(byName.get('acme/half'), { sizeBytes: 437, parts: [] });
});

t.test('the names of thousands of models are found without comparing each with all others', async (t) => {
  const places = placesIn(t.testdir());
  const many = 1_000;
  const files = Array.from({ length: many }, (_, i) => ({
    file: `m${i}-Q${i}_0.gguf`, commit: commitA, path: `/m${i}`, kind: 'plain' as const, target: `/m${i}`, sizeBytes: 1, dangling: false, inode: `${i}`, changedMs: 0,
  }));
  const partials: [] = [];
  const repos = files.map((file, i) => ({ repo: `acme/r${i}`, folder: `/r${i}`, refs: new Map<string, string>(), files: [file], partials }));
  const aliases = new Map(files.map(({ file }, i) => [`alias-${i}`, { repo: `acme/r${i}`, file }]));
  const inventory = await readInventory(places, () => Promise.resolve(aliases), () => Promise.resolve(repos));
  let looked = 0;
  const watched = <Of extends object>(one: Of): Of => new Proxy(one, { get: (of, key) => (looked++, Reflect.get(of, key) as unknown) });
  const models = await runnableModels({
    ...inventory,
    models: inventory.models.map(watched),
    aliases: new Map([...aliases].map(([name, target]) => [name, watched(target)])),
  });
  t.equal(models.length, many + 1);
  t.match(models[7], { id: 'acme/r7', aliases: ['alias-7', 'acme/r7:Q7_0', 'acme/r7/m7-Q7_0.gguf', 'm7-Q7_0.gguf', 'm7-Q7_0'] });
  t.ok(looked < 100 * many, `${looked} looks`);
  looked = 0;
  const all = { ...inventory, models: inventory.models.map(watched) };
  const numbers = Array.from({ length: 200 }, (_, i) => i);
  const found = await Promise.all(numbers.map((i) => findRunnable(all, `M${i}-q${i}_0`)));
  t.strictSame(found.map((one) => one?.id), numbers.map((i) => `acme/r${i}`));
  t.equal(await findRunnable(all, 'm1'), undefined);
  t.ok(looked < 100 * many, `${looked} looks to find each`);
});

t.test('scanStore() has few files open at once', async (t) => {
  const places = placesIn(t.testdir());
  for (let i = 0; i < 60; i++) put(places.hub, { repo: `acme/r${i}`, file: `m${i}.gguf`, bytes: model(`${i}`) });
  const { open } = promises;
  let [now, most] = [0, 0];
  t.teardown(() => {
    promises.open = open;
    syncBuiltinESMExports();
  });
  promises.open = async (...args) => {
    most = Math.max(most, ++now);
    const file = await open(...args);
    const close = file.close.bind(file);
    file.close = () => close().finally(() => now--);
    return file;
  };
  syncBuiltinESMExports();
  t.equal((await scanStore(places)).length, 60);
  t.ok(most > 0 && most < 40, `${most} at once`);
});

t.test('of several snapshots the one of main is taken', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = placesIn(folder);
  put(places.hub, { repo: 'o/r', file: 'm.gguf', bytes: model('new'), commit: commitB, refs: ['main'] });
  put(places.hub, { repo: 'o/r', file: 'm.gguf', bytes: model('old, and longer'), commit: commitA, refs: ['v1'] });
  put(places.hub, { repo: 'o/r', file: 'only-old.gguf', bytes: model('3'), commit: commitA, refs: ['v1'] });
  t.match(await findModel('m', { folder, places }), { path: new RegExp(commitB) });
  t.match(await findModel('only-old', { folder, places }), { path: new RegExp(commitA) });
  t.match(await scanStore(places), [{ olderBytes: model('old, and longer').length, copies: { length: 2 } }, { olderBytes: 0 }]);
});

t.test('a revision after the name is a branch, a tag or the beginning of a commit', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = placesIn(folder);
  put(places.hub, { repo: 'o/r', file: 'm-Q4_0.gguf', bytes: model('new'), commit: commitB, refs: ['main'] });
  put(places.hub, { repo: 'o/r', file: 'm-Q4_0.gguf', bytes: model('old'), commit: commitA, refs: ['v1', 'refs/pr/1'] });
  put(places.hub, { repo: 'o/r', file: 'only-old-Q8_0.gguf', bytes: model('3'), commit: commitA, refs: ['v1'] });
  const find = async (name: string) => await findModel(name, { folder, places });
  for (const name of ['o/r@main', 'O/R@main', `o/r@${commitB}`, 'o/r@bbbb', 'o/r@main:Q4_0', 'https://huggingface.co/o/r/blob/main/m-Q4_0.gguf']) t.match(await find(name), { path: new RegExp(commitB), file: 'm-Q4_0.gguf' }, name);
  for (const name of ['o/r@v1:Q4_0', 'o/r@refs/pr/1:q4_0', 'o/r@AAAA:m-Q4_0', 'https://huggingface.co/o/r/resolve/v1/m-Q4_0.gguf']) t.match(await find(name), { path: new RegExp(commitA), file: 'm-Q4_0.gguf' }, name);
  t.match(await find('o/r@v1:Q4_0'), { id: 'o/r@v1:Q4_0', aliases: [] }, 'no other name of it means this file');
  t.match(await find('o/r@main'), { id: 'o/r@main', aliases: ['o/r:Q4_0', 'o/r/m-Q4_0.gguf', 'm-Q4_0.gguf', 'm-Q4_0'] });
  await t.rejects(find('o/r@v1'), { code: 'ambiguous_model', message: /o\/r@v1:Q4_0, o\/r@v1:Q8_0/ });
  await t.rejects(find('o/r@v2'), { code: 'model_not_found', message: /store has no revision v2, only .*v1.* To see its files and download one: recua pull o\/r@v2$/ });
  await t.rejects(find('o/r@main:Q2_K'), { code: 'model_not_found' });
  await t.rejects(find('o/r@aaa'), { code: 'model_not_found' }, 'too short to be a commit');
});

t.test('scanStore() tolerates broken entries', async (t) => {
  const folder = t.testdir({ hub: {} });
  const places = placesIn(folder);
  const { hub } = places;
  t.strictSame(await scanStore(placesIn(join(folder, 'nowhere'))), []);
  const path = put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model() });
  symlinkSync('m.gguf.loop', join(dirname(path), 'm.gguf.loop'));
  symlinkSync('../../blobs/none', join(dirname(path), 'dangling.gguf'));
  symlinkSync('/', join(dirname(path), 'root'));
  symlinkSync(folder, join(dirname(path), 'folder.gguf'));
  putPartial(hub, { repo: 'o/r', file: '', etag: '1'.repeat(64), sizeBytes: 10, doneBytes: 5, journal: '{"file":' });
  putPartial(hub, { repo: 'o/r', file: '', etag: '2'.repeat(64), sizeBytes: 10, doneBytes: 5, journal: '{"file":7,"size_bytes":-1,"done_bytes":"x"}' });
  putPartial(hub, { repo: 'o/r', file: '', etag: '3'.repeat(64), sizeBytes: 10, doneBytes: 5, journal: '[]' });
  writeFileSync(join(folderOf(hub, 'o/r'), 'blobs', `${'4'.repeat(64)}.incomplete`), model('python').subarray(0, 100));
  writeFileSync(join(folderOf(hub, 'o/r'), 'blobs', `${'5'.repeat(64)}.incomplete`), 'something else');
  mkdirSync(join(hub, 'models--empty--repo'));
  writeFileSync(join(hub, 'models--a--file'), '');
  const names = (await scanStore(places)).map(({ name, parts }) => [name, parts[0]?.dangling]);
  t.strictSame(names, [
    ['o/r (111111111111…)', undefined], ['o/r (222222222222…)', undefined], ['o/r (333333333333…)', undefined], ['o/r (444444444444…)', undefined],
    ['o/r/dangling.gguf', true], ['o/r/m.gguf', false],
  ]);
});

t.test('markUsed() is seen by scanStore(), and never fails', async (t) => {
  const folder = t.testdir({ empty: {} });
  const places = await fill(folder);
  const tiny = await findModel('tiny', { folder: join(folder, 'empty'), places });
  await markUsed(tiny, places);
  await markUsed(tiny, places);
  const used = (await scanStore(places)).filter(({ lastUsedMs }) => lastUsedMs !== undefined).map(({ name }) => name);
  t.strictSame(used, ['acme/many-GGUF:Q4_K_M']);
  writeFileSync(join(folder, 'file'), '');
  await markUsed(tiny, { ...places, state: join(folder, 'file', 'state') });
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), '');
});
