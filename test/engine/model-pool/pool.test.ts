import { setTimeout as wait } from 'node:timers/promises';
import { copyFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startPool, type PoolSettings } from '#recua/engine/model-pool/pool.js';
import type { Catalogue, CatalogueModel, LoadPlan } from '#recua/engine/model-pool/catalogue.js';
import type { Lease, PoolModel } from '#recua/engine/pool-api.js';
import { RecuaError } from '#recua/errors.js';
import { marks, type FakeOptions } from '../fake-addon.js';
import { builtinPath } from '#recua/models/store.js';
import { stashBudget } from '#recua/engine/stash-budget.js';
import { completion, options, say } from '../requests.js';

const entry = new URL('../fake-main.js', import.meta.url);
const mib = 2 ** 20;

interface FakeModel extends Partial<Omit<LoadPlan, 'fingerprint'>> {
  createdSeconds?: number;
  fingerprint?: string;
  fake?: FakeOptions;
  /** Why its file cannot be used. */
  unusable?: RecuaError;
}

/**
 * A pool over fake engines in real processes. The need of a model is in MiB beyond that of such a
 * process.
 */
function open(t: Test, models: Record<string, FakeModel>, settings: PoolSettings = {}) {
  const planned: string[] = [];
  const listed = (id: string): CatalogueModel => ({ id, key: id, aliases: [`${id}-alias`], createdSeconds: models[id]?.createdSeconds ?? 7 });
  const catalogue: Catalogue = {
    list: async () => Object.keys(models).map(listed),
    find: async (name = '') => {
      const id = name === '' || name === 'default' ? Object.keys(models)[0]! : name.replace('-alias', '');
      if (!models[id]) throw new RecuaError('model_not_found', `There is no ${name}.`);
      return listed(id);
    },
    changeOf: async (plan) => changes.get(plans.get(plan)!),
    plan: async ({ id }) => {
      planned.push(id);
      const { fake = {}, unusable, ...more } = models[id]!;
      if (unusable) throw unusable;
      // The next loaded model is forked with it.
      process.env.FAKE_ADDON = JSON.stringify(fake);
      const plan: LoadPlan = { options, needBytes: 600 * mib, fingerprint: '1', keepAliveMs: 600_000, pinned: false, ...more };
      plans.set(plan, id);
      return plan;
    },
  };
  // What happened to loaded files, by model id.
  const plans = new Map<LoadPlan, string>();
  const changes = new Map<string, 'changed' | 'gone'>();
  const log: string[] = [];
  const pool = startPool(catalogue, {
    maxMemoryBytes: 1000 * mib, freeBytes: () => Infinity, engines: { entry, restart: { delayMs: 1 } }, log: (level, text) => log.push(`${level} ${text}`), ...settings,
  });
  t.teardown(() => pool.close(0));
  return { pool, planned, log, catalogue, models, changes };
}

const failure = (promise: Promise<unknown>) => promise.then(() => ({ code: 'none' }), (error: unknown) => error as RecuaError);
const alive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

async function complete(lease: Lease, text: string): Promise<string> {
  const answer = lease.engine.complete(completion('x', { constraint: say(text) }));
  let content = '';
  for await (const delta of answer) content += delta.content ?? '';
  return content;
}

t.test('a model is loaded on demand, lent, kept and unloaded; its states are reported', async (t) => {
  const { pool, planned } = open(t, { a: {}, b: { keepAliveMs: 0 } }, { maxMemoryBytes: 2000 * mib });
  const heard: string[] = [];
  pool.onChange(({ id, state }) => heard.push(`${id} ${state.state}`));
  t.match((await pool.list()).map(({ id, state }) => [id, state.state]), [['a', 'unloaded'], ['b', 'unloaded']]);
  t.match(await failure(pool.lease('c')), { code: 'model_not_found' });
  t.match(await failure(pool.lease('a', { signal: AbortSignal.abort() })), { code: 'cancelled' });

  const waits: string[] = [];
  const [lease, other] = await Promise.all([pool.lease('', { onWait: ({ state }) => waits.push(state) }), pool.lease('a-alias')]);
  t.equal(lease.id, 'a');
  t.match(lease.model, { contextSize: 2000 });
  t.ok(waits.every((state) => state === 'loading') && waits.length > 0);
  t.equal(await complete(lease, 'good day'), 'good day');
  const found = await pool.find('default');
  t.match(found, { id: 'a', state: { state: 'loaded' }, leases: 2, pid: lease.engine.pid, expiresMs: undefined, createdSeconds: 7 });
  lease.release();
  lease.release();
  t.equal((await pool.find('a')).leases, 1);
  other.release();
  const idle = await pool.find('a');
  t.ok(idle.expiresMs! > Date.now() + 500_000);
  t.ok(idle.sizeBytes >= 600 * mib);
  t.equal(planned.filter((id) => id === 'a').length, 1, 'a file is looked at once for those who come together, and not while it is loaded');

  const short = await pool.lease('b');
  const { pid } = short.engine;
  t.match((await pool.list()).map(({ state }) => state.state), ['loaded', 'loaded'], 'both fit');
  const gone = new Promise<void>((resolve) => pool.onChange((model: PoolModel) => {
    if (model.id === 'b' && model.state.state === 'unloaded') resolve();
  }));
  short.release();
  await gone;
  t.notOk(alive(pid!), 'no keep-alive');
  t.match(await pool.find('b'), { known: { contextSize: 2000 }, pid: undefined });
  t.strictSame(heard.filter((one) => one.startsWith('b')).filter((one, i, all) => one !== all[i - 1]), ['b loading', 'b loaded', 'b unloading', 'b unloaded']);
});

t.test('a model that is not loaded is not described by a file that another has replaced', async (t) => {
  const models: Record<string, FakeModel> = { a: {} };
  const { pool } = open(t, models);
  (await pool.lease('a')).release();
  models['a'] = { createdSeconds: 8, fingerprint: '2', fake: { contextTrain: 1000 } };
  t.match(await pool.list(), [{ known: { contextSize: 2000 } }], 'while it is loaded, it is what it is');
  await pool.unload('a');
  t.match(await pool.list(), [{ createdSeconds: 8, known: undefined }]);
  t.match(await pool.find('a'), { known: undefined });
  const described: (number | undefined)[] = [];
  pool.onChange(({ known }) => described.push(known?.contextSize));
  (await pool.lease('a')).release();
  t.match(await pool.list(), [{ known: { contextSize: 1000 } }]);
  t.notOk(described.includes(2000), 'not even while the other is loaded');
  await pool.unload('a');
  t.match(await pool.list(), [{ known: { contextSize: 1000 } }], 'the same file');
});

t.test('200 alternating requests of two clients for two models with room for one: none fails, and swaps are few', async (t) => {
  const { pool } = open(t, { a: {}, b: {} });
  let loads = 0;
  pool.onChange(({ state }) => {
    if (state.state === 'loaded') loads++;
  });
  const client = async (id: string): Promise<void> => {
    for (let i = 0; i < 100; i++) {
      const lease = await pool.lease(id);
      try {
        if (lease.id !== id) throw new Error(`${id} asked, ${lease.id} given`);
        const said = await complete(lease, `${id} ${i}`);
        if (said !== `${id} ${i}`) throw new Error(`got ${said}`);
      } finally {
        lease.release();
      }
    }
  };
  await Promise.all([client('a'), client('b')]);
  t.ok(loads >= 2 && loads <= 40, `${loads} loads`);
  t.match((await pool.list()).filter(({ pid }) => pid !== undefined).length, 1);
});

t.test('a model that crashes comes back by itself, and the other notices nothing', async (t) => {
  const { pool } = open(t, { a: {}, b: {} }, { maxMemoryBytes: 2000 * mib });
  const [a, b] = await Promise.all([pool.lease('a'), pool.lease('b')]);
  const bPid = b.engine.pid;
  const running = b.engine.complete(completion('~', { maxTokens: 1500 }));
  const first = a.engine.complete(completion('~', { maxTokens: 1900 }));
  await first[Symbol.asyncIterator]().next();
  process.kill(a.engine.pid!, 'SIGKILL');
  t.match(await first.finished, { usage: { completionTokens: 1900 } }, 'its answer goes on');
  t.equal(await complete(a, 'back'), 'back', 'by the same lease');
  t.match(await running.finished, { usage: { completionTokens: 1500 } });
  t.equal(b.engine.pid, bPid);
  t.equal(b.engine.crashes, 0);
  t.match(await pool.list(), [{ loads: 2, crashes: 1 }, { loads: 1, crashes: 0 }]);
  a.release();
  b.release();
});

t.test('after a crash, a model is described as it was loaded then', async (t) => {
  const { pool, models } = open(t, { a: {} });
  const lease = await pool.lease('a');
  t.match(await pool.find('a'), { known: { contextSize: 2000 } });
  models.a!.fake = { contextTrain: 1000 };
  process.kill(lease.engine.pid!, 'SIGKILL');
  while ((await pool.find('a')).loads < 2) await new Promise(setImmediate);
  t.match(await pool.find('a'), { known: { contextSize: 1000 }, state: { model: { contextSize: 1000 } } });
  lease.release();
  const next = await pool.lease('a');
  t.equal(next.model.contextSize, 1000);
  next.release();
});

t.test('a model that crashes for good leaves and fails for a while, and a changed file is tried again', async (t) => {
  const { pool, models } = open(t, { a: {} }, { engines: { entry, restart: { delayMs: 1, crashes: 1 } }, policy: { retryMs: 0 } });
  const lease = await pool.lease('a');
  const running = lease.engine.complete(completion('~', { maxTokens: 1900 }));
  await running[Symbol.asyncIterator]().next();
  process.kill(lease.engine.pid!, 'SIGKILL');
  t.match(await failure(running.finished), { code: 'model_crashed' });
  t.match(await failure(pool.lease('a')), { code: 'model_crashed' }, 'its process would pause for longer than a load');
  t.match(await pool.find('a'), { state: { state: 'failed', error: { code: 'model_crashed' } }, pid: undefined });
  lease.release();
  await wait(600);
  t.match(await pool.find('a'), { state: { state: 'failed' } }, 'the same file was tried');
  models.a!.fingerprint = '2';
  // Lists look at the file now and then.
  while ((await pool.find('a')).state.state === 'failed') await wait(100);
  t.match(await pool.list(), [{ state: { state: 'unloaded' }, hasFailed: false }], 'another file was not');
  const again = await pool.lease('a');
  t.equal(await complete(again, 'again'), 'again');
  t.match(await pool.find('a'), { loads: 2, crashes: 1 }, 'counted beyond the life of an engine');
});

t.test('a request that kills a model is remembered while another model has its place', async (t) => {
  const { pool, models } = open(t, { a: {}, b: {} });
  const kill = async () => {
    const lease = await pool.lease('a');
    const { code } = await failure(lease.engine.complete(completion(marks.kill)).finished);
    lease.release();
    return code;
  };
  const swap = async () => {
    (await pool.lease('b')).release();
    t.match(await pool.find('a'), { state: { state: 'unloaded' } });
  };
  t.equal(await kill(), 'model_crashed');
  const { crashes } = await pool.find('a');
  await swap();
  t.equal(await kill(), 'request_set_aside');
  t.match(await pool.find('a'), { crashes });
  await swap();
  models.a!.fingerprint = '2';
  t.equal(await kill(), 'model_crashed', 'another file may do it');
});

t.test('a model whose file cannot be used any more has failed, until it can', async (t) => {
  const { pool, models } = open(t, { a: {}, b: {} });
  const unusable = new RecuaError('file_not_found', 'There is no a.gguf.');
  for (const before of ['never loaded', 'unloaded'] as const) {
    models.a!.unusable = unusable;
    t.match(await failure(pool.lease('a')), { code: 'file_not_found' });
    t.match(await pool.list(), [{ state: { state: 'failed', error: { code: 'file_not_found' } }, hasFailed: true }, { state: { state: 'unloaded' }, hasFailed: false }], before);
    delete models.a!.unusable;
    // The list looks again, now and then.
    while (before === 'never loaded' && (await pool.list())[0]!.state.state === 'failed') await new Promise((resolve) => setTimeout(resolve, 100));
    (await pool.lease('a')).release();
    t.match(await pool.find('a'), { state: { state: 'loaded' }, hasFailed: false });
    await pool.unload('a');
  }
});

t.test('a failed load is reported to all its requests; a model that cannot fit is refused with what it needs', async (t) => {
  const { pool, planned, models } = open(t, {
    bad: { fake: { loadError: { code: 'model_unusable', message: 'Bad weights.' } } }, large: { needBytes: 3000 * mib },
  });
  const errors = await Promise.all([failure(pool.lease('bad')), failure(pool.lease('bad'))]);
  for (const error of errors) t.match(error, { code: 'model_unusable', message: /Bad weights/ });
  t.match(await failure(pool.lease('bad')), { code: 'model_unusable' });
  t.match(await pool.find('bad'), { hasFailed: true, state: { state: 'failed', error: { message: /Bad weights/ } } });
  t.equal((await pool.find('bad')).pid, undefined);
  models.bad!.fake = {};
  t.match(await pool.load('bad'), { hasFailed: false, state: { state: 'loaded' } }, 'an explicit load tries again');
  t.match(await failure(pool.lease('large')), { code: 'model_too_large', status: 507, message: /it needs 2\.9 GiB of memory, and models may have 1000 MiB/ });
  t.ok(planned.includes('large'));
});

t.test('a load without progress is given up and reported', async (t) => {
  const { pool, log } = open(t, { hangs: { fake: { loadMs: 3_600_000 } } }, { loadTimeoutMs: 500 });
  const waiting = failure(pool.lease('hangs'));
  while ((await pool.find('hangs')).pid === undefined) await new Promise(setImmediate);
  const pid = (await pool.find('hangs')).pid!;
  t.match(await waiting, { code: 'model_unusable', message: /no progress for 0\.5 s/ });
  t.match(log.join(), /error hangs made no progress/);
  t.match(await pool.unload('hangs'), { state: { state: 'failed' }, pid: undefined });
  t.notOk(alive(pid), 'its process is ended');
});

t.test('a process that is stopped while it loads is killed and reported', async (t) => {
  const { pool } = open(t, { hangs: { fake: { loadMs: 3_600_000 } }, other: {} }, { loadTimeoutMs: 3_000, maxMemoryBytes: 2000 * mib });
  const other = await pool.lease('other');
  const waiting = failure(pool.lease('hangs'));
  while ((await pool.find('hangs')).pid === undefined) await new Promise(setImmediate);
  const pid = (await pool.find('hangs')).pid!;
  process.kill(pid, 'SIGSTOP');
  t.match(await waiting, { code: 'model_unusable', message: /hangs made no progress for 3 s/ });
  t.match(await failure(pool.lease('hangs')), { code: 'model_unusable' }, 'and not tried again at once');
  t.equal(await complete(other, 'fine'), 'fine', 'the other model notices nothing');
  while (alive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal((await pool.find('hangs')).pid, undefined);
});

t.test('memory is measured before each load: an idle model leaves, and what cannot fit is refused with the table', async (t) => {
  let free = Infinity;
  const { pool } = open(t, { a: {}, b: {}, c: {} }, { maxMemoryBytes: 5000 * mib, freeBytes: () => free });
  (await pool.lease('a')).release();
  free = 800 * mib;
  (await pool.lease('b')).release();
  t.match((await pool.list()).map(({ state }) => state.state), ['unloaded', 'loaded', 'unloaded'], 'the budget would have held both');
  free = 100 * mib;
  const refused = await failure(pool.lease('c'));
  t.match(refused, { code: 'model_too_large', status: 507, message: /it needs 600 MiB of memory, and this machine has \d+ MiB left now; other programs have the rest/ });
  t.match((await pool.find('b')).state, { state: 'loaded' }, 'nothing left in vain');
  free = Infinity;
  (await pool.lease('c')).release();
  t.match((await pool.list()).map(({ state }) => state.state), ['unloaded', 'loaded', 'loaded']);
});

t.test('only one model of a group is loaded at a time', async (t) => {
  const { pool } = open(t, { a: { group: 'one' }, b: { group: 'one' }, c: {} }, { maxMemoryBytes: 5000 * mib });
  for (const id of ['a', 'c', 'b']) (await pool.lease(id)).release();
  t.match((await pool.list()).map(({ state }) => state.state), ['unloaded', 'loaded', 'loaded']);
});

t.test('devices have their own memory, which is not RAM', async (t) => {
  const gpu = (bytes: number) => ({ needBytes: 100 * mib, deviceBytes: { CUDA0: bytes * mib } });
  const { pool } = open(
    t,
    { a: gpu(600), b: gpu(600), c: gpu(300), d: gpu(1200) },
    { maxMemoryBytes: 5000 * mib, maxDeviceBytes: { CUDA0: 1000 * mib } },
  );
  for (const id of ['a', 'c']) (await pool.lease(id)).release();
  t.match((await pool.list()).map(({ state }) => state.state), ['loaded', 'unloaded', 'loaded', 'unloaded']);
  (await pool.lease('b')).release();
  t.match((await pool.list()).map(({ state }) => state.state), ['unloaded', 'loaded', 'loaded', 'unloaded']);
  t.match(await failure(pool.lease('d')), { code: 'model_too_large', message: /it needs 1\.2 GiB of CUDA0, and models may have 1000 MiB/ });
});

t.test('models share the memory for conversations that a single one would have', async (t) => {
  const echo = new URL('../options-main.js', import.meta.url);
  const { pool } = open(
    t,
    { a: { options: { ...options, cacheRamMib: -1 } }, own: { options: { ...options, cacheRamMib: 7 } } },
    { engines: { entry: echo, restart: { delayMs: 1 } }, maxMemoryBytes: 1200 * mib },
  );
  const told = async (id: string) => Number(/cacheRamMib is (\d+)/.exec(((await failure(pool.lease(id))) as RecuaError).message)?.[1]);
  const whole = stashBudget(-1) / mib;
  t.equal(await told('a'), Math.floor(Math.floor(whole) / 2), 'its part of the models’ memory');
  t.equal(await told('own'), 7, 'what its settings say');
});

t.test('an unload waits for running answers; a later request loads the model again', async (t) => {
  const { pool } = open(t, { a: {} });
  const lease = await pool.lease('a');
  const running = lease.engine.complete(completion('~', { maxTokens: 500 }));
  let unloaded = false;
  const unload = pool.unload('a').then((model) => {
    unloaded = true;
    return model;
  });
  await new Promise(setImmediate);
  t.match((await pool.find('a')).state, { state: 'unloading' });
  const later = pool.lease('a');
  await running.finished;
  t.notOk(unloaded);
  const pid = lease.engine.pid!;
  lease.release();
  await unload;
  t.notOk(alive(pid));
  const again = await later;
  t.not(again.engine.pid, pid);
  again.release();
  t.match((await pool.unload('a')).state, { state: 'unloaded' });
  t.match((await pool.unload('a')).state, { state: 'unloaded' }, 'one that is not loaded');
});

t.test('a request that waits until a model has left gets the file and settings that are there then', async (t) => {
  const { pool, models, planned, log } = open(t, { a: {} });
  const lease = await pool.lease('a');
  const unload = pool.unload('a');
  models.a = { fingerprint: '2', needBytes: 800 * mib };
  const later = pool.lease('a');
  while ((await pool.find('a')).leases < 2) await new Promise(setImmediate);
  lease.release();
  await unload;
  (await later).release();
  t.strictSame(planned, ['a', 'a']);
  t.match(log.join(), /warn a: its file or its settings changed/);
  t.ok((await pool.find('a')).sizeBytes >= 800 * mib);
});

t.test('a client that gives up while waiting leaves nothing behind', async (t) => {
  const { pool } = open(t, { a: {}, b: {} });
  const a = await pool.lease('a');
  const controller = new AbortController();
  const waiting = pool.lease('b', { signal: controller.signal });
  while ((await pool.find('b')).leases === 0) await new Promise(setImmediate);
  t.match((await pool.find('b')).state, { state: 'loading', fraction: 0 });
  controller.abort();
  t.match(await failure(waiting), { code: 'cancelled' });
  t.match(await pool.find('b'), { leases: 0, state: { state: 'unloaded' } });
  t.match((await pool.find('a')).state, { state: 'loaded' });
  a.release();
});

t.test('a file that changed before a reload is reported; one that is gone is served until then', async (t) => {
  const { pool, models, log, changes } = open(t, { a: {}, b: {} }, { maxMemoryBytes: 2000 * mib });
  (await pool.lease('a')).release();
  t.equal((await pool.find('a')).fileChange, undefined);
  changes.set('a', 'changed');
  models.a!.fingerprint = '2';
  (await pool.lease('a')).release();
  t.notMatch(log.join(), /changed/);
  t.match(await pool.list(), [{ fileChange: 'changed' }, { fileChange: undefined }]);
  t.equal((await pool.find('a')).fileChange, 'changed');
  t.equal(log.filter((line) => /warn a: its file has changed; the loaded model keeps serving/.test(line)).length, 1, 'told once');
  changes.clear();
  await pool.unload('a');
  t.equal((await pool.find('a')).fileChange, undefined);
  (await pool.lease('a')).release();
  t.match(log.join(), /warn a: its file or its settings changed/);
  delete models.a;
  const lease = await pool.lease('A');
  t.equal(await complete(lease, 'still'), 'still');
  t.match((await pool.list()).map(({ id }) => id), ['b', 'a']);
  lease.release();
  await pool.unload('a');
  t.match(await failure(pool.lease('a')), { code: 'model_not_found' });
});

t.test('after a crash, a file that had changed is the one that is loaded', async (t) => {
  const modelPath = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, modelPath);
  const { pool, log, changes } = open(t, { a: { options: { ...options, modelPath } } });
  const lease = await pool.lease('a');
  changes.set('a', 'changed');
  t.equal((await pool.find('a')).fileChange, 'changed');
  copyFileSync(modelPath, `${modelPath}.new`);
  renameSync(`${modelPath}.new`, modelPath);
  process.kill(lease.engine.pid!, 'SIGKILL');
  while ((await pool.find('a')).loads < 2) await new Promise(setImmediate);
  t.equal((await pool.find('a')).fileChange, undefined);
  lease.release();
  await pool.unload('a');
  (await pool.lease('a')).release();
  t.notMatch(log.join(), /changed since it was loaded last/);
});

t.test('a loaded model has only the names that it has now, and all of them once it is gone', async (t) => {
  const { pool, catalogue, models } = open(t, { a: {} });
  const { find } = catalogue;
  (await pool.lease('a-alias')).release();
  catalogue.find = async (name) => {
    if (name === 'a-alias') throw new RecuaError('model_not_found', `There is no ${name}.`);
    return await find(name);
  };
  for (const asked of [pool.find('a-alias'), pool.lease('a-alias')]) t.match(await failure(asked), { code: 'model_not_found' });
  (await pool.lease('a')).release();
  delete models.a;
  (await pool.lease('a-alias')).release();
});

t.test('close ends all processes, lets answers end and refuses waiting requests', async (t) => {
  const { pool } = open(t, { a: {}, b: {}, c: {} }, { maxMemoryBytes: 1500 * mib });
  const [a, b] = await Promise.all([pool.lease('a'), pool.lease('b')]);
  const pids = [a.engine.pid!, b.engine.pid!];
  const waiting = failure(pool.lease('c'));
  while ((await pool.find('c')).leases === 0) await new Promise(setImmediate);
  const running = a.engine.complete(completion('~', { maxTokens: 500 }));
  await running.accepted;
  await pool.close(600_000);
  t.match(await running.finished, { usage: { completionTokens: 500 } });
  t.match(await waiting, { code: 'shutting_down' });
  for (const pid of pids) t.notOk(alive(pid));
  t.match(await failure(pool.lease('a')), { code: 'shutting_down' });
  await pool.close();
});

t.test('two real models behind one pool chat in turns', async (t) => {
  const { pool } = open(t, { a: {}, b: {} }, { engines: {}, maxModels: 1, maxMemoryBytes: 4000 * mib });
  for (const id of ['a', 'b', 'a']) {
    const lease = await pool.lease(id);
    const { usage } = await lease.engine.complete(completion('Once upon', { maxTokens: 4 })).finished;
    t.ok(usage.completionTokens > 0);
    t.ok((await pool.find(id)).sizeBytes >= 600 * mib);
    lease.release();
    t.equal((await pool.list()).filter(({ pid }) => pid !== undefined).length, 1);
  }
});

const busy: Record<string, FakeModel> = { a: { fake: { stepMs: 50 } }, b: {} };
const hasty = { policy: { turnMs: 100, leastLingerMs: 1, mostLingerMs: 1 } };

/** Answers of two seconds that wait in the queue of a, far longer than a turn, until `leave`. */
function crowd(pool: ReturnType<typeof open>['pool'], done: string[]): { leave(): void; all: Promise<unknown> } {
  const leaving = new AbortController();
  const all = Promise.all(Array.from({ length: 100 }, async () => {
    const lease = await pool.lease('a', { mayMove: true, client: 'crowd', signal: leaving.signal });
    const answer = lease.engine.complete(completion('x', { constraint: say('z'.repeat(40)) }), leaving.signal);
    await answer.finished.then(() => done.push('a')).finally(lease.release);
  }).map((one) => failure(one)));
  return { leave: () => leaving.abort(), all };
}

t.test('requests that only wait in the queue of a model do not keep it from leaving for another', async (t) => {
  const { pool } = open(t, busy, hasty);
  const done: string[] = [];
  const ask = async (model: string, text: string): Promise<string> => {
    const lease = await pool.lease(model, { mayMove: true });
    return await complete(lease, text).finally(lease.release);
  };
  const others = crowd(pool, done);
  const texts = Array.from({ length: 5 }, (_, at) => `whole ${at}`);
  while ((await pool.find('a')).activity.waiting < 90) await new Promise((resolve) => setTimeout(resolve, 5));
  const whole = texts.map(async (text) => await ask('a', text));
  t.equal(await ask('b', 'short'), 'short');
  t.ok(done.length < 90, `after ${done.length} of 100`);
  others.leave();
  t.strictSame(await Promise.all(whole), texts);
  await others.all;
  t.equal((await pool.find('a')).leases, 0);
});

t.test('what has begun of a request ends before its model leaves, and the rest of it moves', async (t) => {
  const { pool } = open(t, busy, hasty);
  const done: string[] = [];
  const lease = await pool.lease('a', { mayMove: true });
  const begun = complete(lease, 'y'.repeat(30)).then((text) => { done.push('begun'); return text; });
  while ((await pool.find('a')).activity.running === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const others = crowd(pool, done);
  while ((await pool.find('a')).activity.waiting < 90) await new Promise((resolve) => setTimeout(resolve, 5));
  const rest = [complete(lease, 'second'), complete(lease, 'third')].map(async (one) => { done.push(await one); });
  const other = pool.lease('b');
  while ((await pool.find('a')).state.state !== 'unloading') await new Promise((resolve) => setTimeout(resolve, 5));
  const tokens = lease.engine.tokenize('abc', false, false).then((ids) => { done.push('tokens'); return ids.length; });
  (await other).release();
  t.ok(done.includes('begun'), 'before the model left');
  t.notOk(done.some((text) => ['second', 'third', 'tokens'].includes(text)), 'these have not begun');
  t.ok(done.length < 90, `${done.length} of 100`);
  others.leave();
  t.equal(await begun, 'y'.repeat(30));
  t.equal(await tokens, 3);
  await Promise.all([...rest, others.all]);
  lease.release();
  t.equal((await pool.find('a')).leases, 0);
});

t.test('if the other model is no longer wanted, the rest of a request goes on at once', async (t) => {
  const { pool } = open(t, { a: { fake: { stepMs: 50 } }, b: {} }, hasty);
  const lease = await pool.lease('a', { mayMove: true });
  const ending = new AbortController();
  const long = ['x', 'y'].map((letter) => failure(lease.engine.complete(completion('x', { constraint: say(letter.repeat(1_000)), maxTokens: 1_000 }), ending.signal).finished));
  while ((await pool.find('a')).activity.running < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  const leaving = new AbortController();
  const other = failure(pool.lease('b', { signal: leaving.signal }));
  while ((await pool.find('a')).state.state !== 'unloading') await new Promise((resolve) => setTimeout(resolve, 5));
  // Asked for while the model has to leave, so it waits for the two long answers.
  let isHere = false;
  const late = complete(lease, 'late').finally(() => { isHere = true; });
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.notOk(isHere);
  leaving.abort();
  t.match(await other, { code: 'cancelled' });
  t.equal(await late, 'late');
  t.match(await pool.find('a'), { loads: 1, activity: { running: 2 } }, 'before the long ones end');
  ending.abort();
  await Promise.all(long);
  lease.release();
});

t.test('the rest of a request stays with the loaded model if its file has gone meanwhile', async (t) => {
  const { pool, catalogue, changes } = open(t, { a: { fake: { stepMs: 50 } }, b: {} }, hasty);
  const lease = await pool.lease('a', { mayMove: true });
  const ending = new AbortController();
  const long = failure(lease.engine.complete(completion('x', { constraint: say('x'.repeat(1_000)), maxTokens: 1_000 }), ending.signal).finished);
  while ((await pool.find('a')).activity.running < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  const other = pool.lease('b');
  while ((await pool.find('a')).state.state !== 'unloading') await new Promise((resolve) => setTimeout(resolve, 5));
  const late = complete(lease, 'late');
  lose(catalogue, changes);
  ending.abort();
  t.equal(await late, 'late');
  lease.release();
  await long;
  (await other).release();
});

t.test('a question without an answer moves', async (t) => {
  const { pool } = open(t, { a: {}, b: {} }, hasty);
  const lease = await pool.lease('a', { mayMove: true });
  process.kill((await pool.find('a')).pid!, 'SIGSTOP');
  const tokens = lease.engine.tokenize('abc', false, false);
  (await pool.lease('b')).release();
  t.equal((await tokens).length, 3);
  lease.release();
  t.match(await pool.find('a'), { loads: 2, crashes: 0 });
});

/** The file of a is gone. */
function lose(catalogue: Catalogue, changes: Map<string, 'changed' | 'gone'>): void {
  changes.set('a', 'gone');
  const { plan } = catalogue;
  catalogue.plan = async (model) => {
    if (model.id === 'a') throw new RecuaError('model_not_found', 'There is no file a.');
    return await plan(model);
  };
}

t.test('what waits for a model whose file is gone is done before the model leaves', async (t) => {
  const { pool, catalogue, changes, log } = open(t, { a: { fake: { stepMs: 30 } }, b: {} }, hasty);
  const all = Promise.all(Array.from({ length: 30 }, async (_, at) => {
    const lease = await pool.lease('a', { mayMove: true });
    return await complete(lease, `answer ${at} ${'z'.repeat(9)}`).finally(lease.release);
  }));
  while ((await pool.find('a')).activity.waiting < 20) await new Promise((resolve) => setTimeout(resolve, 5));
  // Nobody has asked for the list of models since.
  lose(catalogue, changes);
  const other = await pool.lease('b');
  t.equal((await all).length, 30, 'all answers come');
  other.release();
  t.ok(log.some((line) => /^warn a: its file is gone; the loaded model keeps serving/.test(line)));
});

t.test('a file that changes while it is loaded is loaded anew, three times at most', async (t) => {
  const refused = { fake: { loadError: { code: 'file_unreadable', message: 'It cannot be opened.' } } };
  const { pool, catalogue, models, changes, planned, log } = open(t, { a: refused });
  changes.set('a', 'changed');
  t.match(await failure(pool.lease('a')), { code: 'file_unreadable' });
  t.equal(planned.length, 4);
  const { plan } = catalogue;
  let plans = 0;
  catalogue.plan = async (model) => {
    models['a'] = { ...++plans > 1 ? {} : refused, fingerprint: '2' };
    return await plan(model);
  };
  const lease = await pool.lease('a');
  t.equal(await complete(lease, 'good day'), 'good day');
  lease.release();
  t.equal(log.filter((line) => /a: its file changed while it was loaded/.test(line)).length, 4);
});
