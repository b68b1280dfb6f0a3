// Where responses are stored: the limits of the folder, and several servers that share it. Over the
// fake engine.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { everyone, ownerWith, type Owner } from '#recua/server/kept/owner.js';
import { ResponseStore, type WireResponse } from '#recua/server/responses/store.js';
import { ownIdentity } from '#recua/system/process-identity.js';
import { ownFolder, post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { FakeEngine, hang } from '../fake-engine.js';
import { deferred } from '../../deferred.js';

const serve = (t: Test, keepIn: string): Promise<AppUnderTest> => startApp(t, {}, new FakeEngine(), { keepIn });
const folderIn = (keepIn: string): string => join(keepIn, readKept(keepIn), 'responses');

async function get(app: AppUnderTest, id: string, method = 'GET', rest = ''): Promise<[number, any]> {
  const response = await fetch(`${app.url}/v1/responses/${id}${rest}`, { method });
  return [response.status, await response.json()];
}

/** The answer of an engine that ends when it is told. */
function held(app: AppUnderTest): () => void {
  const { promise: told, resolve: go } = deferred();
  app.engine.script = async function* () {
    yield { content: 'begun' };
    await told;
  };
  return go;
}

t.test('a response that a killed server was making has failed', async (t) => {
  const keepIn = ownFolder(t);
  const app = await serve(t, keepIn);
  const id = `resp_${'0'.repeat(48)}`;
  const file = join(folderIn(keepIn), `${id}.json`);
  const mark = join(folderIn(keepIn), `${id}.running`);
  const { machine } = await ownIdentity();
  /** A response of a process that is gone or not visible here, and touched its mark then. */
  const leave = (where: string | undefined, secondsAgo: number): void => {
    const response = { id, status: 'in_progress', background: true, output: [] };
    writeFileSync(file, `${JSON.stringify({ response })}\n[{"role":"user","content":"before"}]`);
    if (where === undefined) return;
    writeFileSync(mark, JSON.stringify({ pid: 2 ** 22 - 3, started: 'long ago', machine: where }));
    const then = Date.now() / 1_000 - secondsAgo;
    utimesSync(mark, then, then);
  };
  const failed = { status: 'failed', error: { code: 'shutting_down' } };
  const goOn = async (): Promise<number> => (await post(`${app.url}/v1/responses`, { input: 'go on', previous_response_id: id })).status;
  leave('nowhere', 30);
  t.match(await get(app, id), [200, { status: 'in_progress' }], 'it may live on another machine');
  t.match(await get(app, id, 'POST', '/cancel'), [200, { status: 'in_progress' }], 'which does not answer');
  t.equal(await goOn(), 400);
  leave('nowhere', 61);
  t.match(await get(app, id), [200, failed], 'nobody has touched the mark for a minute');
  t.strictSame(readdirSync(folderIn(keepIn)), [`${id}.cancel`, `${id}.json`]);
  t.match(JSON.parse(readFileSync(file, 'utf8').split('\n')[0]!), { response: failed });
  leave('nowhere', 61);
  t.match(await get(app, id, 'POST', '/cancel'), [200, failed]);
  leave('nowhere', 61);
  t.equal(await goOn(), 200);
  leave(machine, 0);
  t.match(await get(app, id), [200, failed], 'its process is gone');
  leave(undefined, 0);
  t.match(await get(app, id), [200, failed], 'nobody makes it');
});

t.test('while a server makes a response, others see that', async (t) => {
  const keepIn = ownFolder(t);
  const [one, other] = [await serve(t, keepIn), await serve(t, keepIn)];
  const go = held(one);
  const { id } = await (await post(`${one.url}/v1/responses`, { input: 'x', background: true })).json() as WireResponse;
  await until(() => one.engine.running.size === 1);
  t.match(await get(other, id), [200, { status: 'queued' }]);
  go();
  await until(() => !readdirSync(folderIn(keepIn)).includes(`${id}.running`));
  t.match(await get(other, id), [200, { status: 'completed' }]);
});

t.test('a response that is deleted on another server than makes it is gone for good', async (t) => {
  const keepIn = ownFolder(t);
  const [one, other] = [await serve(t, keepIn), await serve(t, keepIn)];
  for (const fails of [false, true]) {
    const go = held(one);
    if (fails) {
      const { script } = one.engine;
      one.engine.script = async function* (request, signal) {
        yield* script(request, signal);
        throw new Error('broken');
      };
    }
    const { id } = await (await post(`${one.url}/v1/responses`, { input: 'x', background: true })).json() as WireResponse;
    await until(() => one.engine.running.size === 1);
    t.match(await get(other, id, 'DELETE'), [200, { deleted: true }]);
    const stream = await fetch(`${one.url}/v1/responses/${id}?stream=true`);
    go();
    t.match(await stream.text(), fails ? /response.failed|response.incomplete/ : /The response is not stored: There is no response|response.incomplete/);
    for (const app of [one, other]) t.equal((await get(app, id))[0], 404);
    t.strictSame(readdirSync(folderIn(keepIn)), []);
  }
});

t.test('a response is cancelled or deleted on another server than makes it, which then stops', async (t) => {
  const keepIn = ownFolder(t);
  const [one, other] = [await serve(t, keepIn), await serve(t, keepIn)];
  one.engine.script = hang;
  for (const [method, path, status] of [['POST', '/cancel', 'cancelled'], ['DELETE', '', undefined]] as const) {
    const { id } = await (await post(`${one.url}/v1/responses`, { input: 'x', background: true })).json() as WireResponse;
    await until(() => one.engine.running.size === 1);
    t.match(await get(other, id, method, path), [200, status === undefined ? { deleted: true } : { id, status }]);
    await until(() => one.engine.running.size === 0);
    t.match(await get(one, id), status === undefined ? [404] : [200, { status }]);
    await until(() => readdirSync(folderIn(keepIn)).every((name) => name.endsWith('.json')));
  }
});

t.test('a response that another server has deleted is gone, also at the one that made it', async (t) => {
  const keepIn = ownFolder(t);
  const [one, other] = [await serve(t, keepIn), await serve(t, keepIn)];
  const { id } = await (await post(`${one.url}/v1/responses`, { input: 'x', background: true })).json() as WireResponse;
  await until(() => readdirSync(folderIn(keepIn)).join() === `${id}.json`);
  t.match(await get(other, id, 'DELETE'), [200, { deleted: true }]);
  for (const rest of ['', '/input_items', '?stream=true']) t.equal((await get(one, id, 'GET', rest))[0], 404, rest);
});

t.test('a deletion wins over a save that has begun', async (t) => {
  const keepIn = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(keepIn));
  const stored = { response: { id: `resp_${'0'.repeat(48)}`, status: 'queued' } as WireResponse, input: [] };
  const { id } = stored.response;
  const mark = await store.mark(id);
  await store.put(stored);
  const put = store.put.bind(store);
  store.put = async (late) => {
    await store.remove(id, everyone);
    await put(late);
  };
  await t.rejects(store.replace(stored, mark), { code: 'response_not_found' });
  t.strictSame(readdirSync(folderIn(keepIn)), [`${id}.cancel`], 'which its run removes');
});

t.test('the store keeps to its limits of size and age', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder), { bytes: 1_400, ageMs: 60_000, writes: 1, rests: 0 });
  const idOf = (digit: string): string => `resp_${digit.repeat(48)}`;
  const place = join(folder, readKept(folder), 'responses');
  const put = async (digit: string, ageSeconds: number): Promise<void> => {
    await store.put({ response: { id: idOf(digit), status: 'completed', output: [{ text: 'x'.repeat(500) }] } as unknown as WireResponse, input: [] });
    const then = Date.now() / 1_000 - ageSeconds;
    utimesSync(join(place, `${idOf(digit)}.json`), then, then);
    await store.settled();
  };
  for (const [digit, age] of [['a', 50], ['b', 40], ['c', 30]] as const) await put(digit, age);
  await t.rejects(store.get(idOf('a'), everyone), { code: 'response_not_found' }, 'the oldest gave way');
  t.ok(await store.get(idOf('c'), everyone));
  const old = Date.now() / 1_000 - 61;
  utimesSync(join(place, `${idOf('b')}.json`), old, old);
  await t.rejects(store.get(idOf('b'), everyone), { code: 'response_not_found' }, 'too old, and not yet swept');
});

t.test('a damaged response is usable or not found, whatever has changed in its file', async (t) => {
  const keepIn = ownFolder(t);
  const app = await serve(t, keepIn);
  const { id } = await (await post(`${app.url}/v1/responses`, { input: 'Hello' })).json() as { id: string };
  const path = join(folderIn(keepIn), `${id}.json`);
  const sound = readFileSync(path, 'latin1');
  const [head] = sound.split('\n');
  const wrong = ['', '\n', 'null\n[]', '{}\n[]', '5\n[]', '{"response":5}\n[5]', head!, `${head}\n{}`, `${head}\n[null]`, sound.replaceAll(id, `resp_${'0'.repeat(48)}`), sound.replace('"output":[', '"output":[null,')];
  for (let at = 0; at < head!.length; at += 7)
    wrong.push(sound.slice(0, at) + String.fromCharCode(sound.charCodeAt(at) ^ 1) + sound.slice(at + 1));
  for (const key of ['response', 'id', 'status', 'output']) wrong.push(sound.replace(`"${key}":`, `"x${key}":`));
  const ask = async (): Promise<number[]> => [(await get(app, id))[0], (await get(app, id, 'GET', '/input_items'))[0], (await post(`${app.url}/v1/responses`, { input: 'go on', previous_response_id: id })).status];
  for (const text of wrong) {
    writeFileSync(path, text, 'latin1');
    t.strictSame((await ask()).filter((status) => ![200, 400, 404].includes(status)), [], text.slice(0, 60));
  }
  rmSync(path);
  mkdirSync(path);
  t.strictSame(await ask(), [404, 404, 404]);
  if (process.platform === 'win32') return;
  rmSync(path, { recursive: true });
  symlinkSync('/etc/passwd', path);
  t.strictSame(await ask(), [404, 404, 404]);
});

t.test('a folder among stored responses does not keep old ones from being swept', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder), { ageMs: 60_000, writes: 1, rests: 0 });
  const place = join(folder, readKept(folder), 'responses');
  mkdirSync(join(place, 'a.json'));
  const old = join(place, `resp_${'1'.repeat(48)}.json`);
  writeFileSync(old, '');
  for (const path of [old, join(place, 'a.json')]) utimesSync(path, 1, 1);
  await store.put({ response: { id: `resp_${'2'.repeat(48)}`, status: 'completed', output: [] } as unknown as WireResponse, input: [] });
  await store.settled();
  t.strictSame(readdirSync(place).sort(), ['a.json', `resp_${'2'.repeat(48)}.json`]);
});

t.test('the mark of a living process stays, even if the clock was set ahead', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder));
  const [running, left] = ['1', '2'].map((digit) => `resp_${digit.repeat(48)}`);
  const mark = await store.mark(running!);
  writeFileSync(join(folderIn(folder), `${left}.running`), 'of a killed process');
  for (const name of readdirSync(folderIn(folder))) utimesSync(join(folderIn(folder), name), 1, 1);
  await store.tidy();
  t.strictSame(readdirSync(folderIn(folder)), [`${running}.running`]);
  t.equal(await mark.isHeld(), true);
  await mark.release();
});

t.test('few large responses are swept as well', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder), { bytes: 3_000, sweepBytes: 1_000 });
  for (let index = 0; index < 12; index++) {
    await store.put({ response: { id: `resp_${String(index).padStart(48, '0')}`, status: 'completed', output: [] } as unknown as WireResponse, input: [{ text: 'x'.repeat(900) }] });
    await store.settled();
    t.ok(readdirSync(join(folder, readKept(folder), 'responses')).length <= 3);
  }
});

t.test('after a sweep the next one waits, unless much was written', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder), { ageMs: 60_000, writes: 1, rests: 1_000_000, sweepBytes: 5_000 });
  const old = join(folder, readKept(folder), 'responses', `resp_${'f'.repeat(48)}.json`);
  const put = async (index: number, letters: number): Promise<boolean> => {
    writeFileSync(old, '');
    utimesSync(old, 1, 1);
    await store.put({ response: { id: `resp_${String(index).padStart(48, '0')}`, status: 'completed', output: [] } as unknown as WireResponse, input: [{ text: 'x'.repeat(letters) }] });
    await store.settled();
    return !existsSync(old);
  };
  t.strictSame(
    [await put(0, 0), await put(1, 0), await put(2, 0), await put(3, 5_000), await put(4, 0)],
    [true, false, false, true, false],
  );
});

t.test('a full store takes from the key that has the most', async (t) => {
  const folder = ownFolder(t);
  const store = new ResponseStore(new KeptFolder(folder), { bytes: 2_500, writes: 1, rests: 0 });
  const idOf = (index: number): string => `resp_${String(index).padStart(48, '0')}`;
  const owner = (name: string): Owner => ({ name, has: (by) => by === name });
  const put = async (index: number, by: string): Promise<void> => {
    await store.put({ response: { id: idOf(index), status: 'completed', output: [{ text: 'x'.repeat(300) }] } as unknown as WireResponse, input: [], by });
    const then = Date.now() / 1_000 - 100 + index;
    utimesSync(join(folder, readKept(folder), 'responses', `${idOf(index)}.json`), then, then);
    await store.settled();
  };
  await put(0, 'ann');
  for (let index = 1; index < 12; index++) await put(index, 'bob');
  t.ok(await store.get(idOf(0), owner('ann')), 'the oldest of all is kept');
  t.ok(await store.get(idOf(11), owner('bob')));
  await t.rejects(store.get(idOf(1), owner('bob')), { code: 'response_not_found' });
});

function readKept(folder: string): string {
  const name = process.getuid ? `kept-${process.getuid()}` : 'kept';
  mkdirSync(join(folder, name, 'responses'), { recursive: true, mode: 0o700 });
  return name;
}

t.test('a response that cannot be read for a moment is not said to be gone', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new ResponseStore(kept);
  const id = `resp_${'a'.repeat(48)}`;
  const ann = ownerWith({ name: 'ann', admin: false });
  await store.put({ response: { id, status: 'completed', output: [] as object[] } as unknown as WireResponse, input: [], by: 'ann' });
  await store.settled();
  const of = kept.of.bind(kept);
  const noFolder = join(ownFolder(t), 'file');
  writeFileSync(noFolder, '');
  // Not EMFILE, which would hit the test as well. The file is found, but cannot be opened.
  let calls = 0;
  kept.of = async (name) => (calls++ === 0 ? await of(name) : noFolder);
  await t.rejects(store.get(id, ann), { code: 'store_unwritable', message: /ENOTDIR/ });
  kept.of = of;
  t.match(await store.get(id, ann), { response: { id } });
});

t.test('nor one whose folder cannot be looked at', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new ResponseStore(kept);
  const id = `resp_${'b'.repeat(48)}`;
  await store.put({ response: { id, status: 'completed', output: [] as object[] } as unknown as WireResponse, input: [] });
  await store.settled();
  const of = kept.of.bind(kept);
  const noFolder = join(ownFolder(t), 'file');
  writeFileSync(noFolder, '');
  kept.of = () => Promise.resolve(noFolder);
  await t.rejects(store.get(id, everyone), { code: 'store_unwritable', message: /ENOTDIR/ });
  kept.of = of;
  t.match(await store.get(id, everyone), { response: { id } });
});
