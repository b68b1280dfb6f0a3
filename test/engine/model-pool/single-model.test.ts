import t from 'tap';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import type { EngineState } from '#recua/engine/api.js';
import type { PoolModel } from '#recua/engine/pool-api.js';
import { RecuaError } from '#recua/errors.js';
import { FakeEngine, description } from '../../server/fake-engine.js';

const failure = (promise: Promise<unknown>) => promise.then(() => new Error('nothing was thrown'), (error: unknown) => error as RecuaError);

function open() {
  const engine = new FakeEngine();
  const pool = singleModel(engine, { id: 'Tiny', aliases: ['tiny-chat'], unlisted: ['/models/tiny.gguf'], createdSeconds: 7 });
  return { engine, pool };
}

t.test('a single model is found by its names in any case, by no name and by default, never by another', async (t) => {
  const { pool } = open();
  for (const name of [undefined, '', 'default', 'Default', 'TINY', 'tiny-chat', '/models/tiny.gguf']) t.equal((await pool.find(name)).id, 'Tiny', String(name));
  for (const name of ['other', 'x'.repeat(50), '/models/Tiny.gguf']) {
    t.match(await failure(pool.find(name)), { code: 'model_not_found', param: 'model' });
    t.match(await failure(pool.lease(name)), { code: 'model_not_found' });
    t.match(await failure(pool.unload(name)), { code: 'model_not_found' });
  }
  t.match(await failure(pool.find('other')), { message: 'The model "other" does not exist here. This server has only "Tiny", "tiny-chat".' });
});

t.test('a lease of a single model succeeds or is refused at once, with the error of the engine\'s state', async (t) => {
  const { engine, pool } = open();
  const lease = await pool.lease('tiny');
  t.match(lease, { id: 'Tiny', model: description });
  t.equal(lease.engine, engine);
  t.equal((await pool.find('')).leases, 1);
  lease.release();
  lease.release();
  t.equal((await pool.find('')).leases, 0);

  t.match(await failure(pool.lease('tiny', { signal: AbortSignal.abort() })), { code: 'cancelled' });
  const broken = new RecuaError('model_unusable', 'Bad weights.');
  const cases: [EngineState, string, RegExp][] = [
    [{ state: 'loading', fraction: 0.42 }, 'model_loading', /loading \(42 %\)/],
    [{ state: 'failed', error: broken }, 'model_unusable', /Bad weights/],
    [{ state: 'closed' }, 'shutting_down', /stopping/],
  ];
  for (const [state, code, message] of cases) {
    engine.state = state;
    t.match(await failure(pool.lease(undefined)), { code, message });
  }
  engine.state = { state: 'ready', model: description, status: { running: 0, waiting: 0, tokens: 0 } };
  const asked = singleModel(engine, { id: 'Tiny', aliases: [], createdSeconds: 7 });
  engine.state = { state: 'restarting', fraction: 0 };
  t.match(await asked.lease(undefined), { model: description }, 'nobody has asked for it yet');
  t.match(await failure(singleModel(engine, { id: 'Tiny', aliases: [], createdSeconds: 7 }).lease(undefined)), { code: 'model_loading' }, 'it was never there');
  await t.rejects(pool.lease(undefined, { hasReplicas: true }), { code: 'model_loading' });
  const waiting = await pool.lease(undefined);
  t.match(waiting, { engine, model: description }, 'requests wait for the next process');
  waiting.release();
  t.equal((await pool.find('')).leases, 0);
});

t.test('the state of a single model follows its engine, and listeners are told', async (t) => {
  const engine = new FakeEngine();
  engine.state = { state: 'loading', fraction: 0 };
  const pool = singleModel(engine, { id: 'Tiny', aliases: [], createdSeconds: 7 });
  const heard: PoolModel[] = [];
  const stop = pool.onChange((model) => heard.push(model));
  const turn = (state: EngineState) => {
    engine.state = state;
    pool.stateChanged();
  };
  turn({ state: 'loading', fraction: 0.5 });
  t.match(heard.at(-1), { id: 'Tiny', createdSeconds: 7, pinned: true, state: { state: 'loading', fraction: 0.5 }, known: undefined, sizeBytes: 0 });
  turn({ state: 'ready', model: description, status: { running: 0, waiting: 0, tokens: 0 } });
  t.strictSame(heard.at(-1)!.state, { state: 'loaded', model: description });
  turn({ state: 'restarting', fraction: 0 });
  t.match(heard.at(-1), { state: { state: 'loading' }, known: description, sizeBytes: description.sizeBytes });
  turn({ state: 'failed', error: new RecuaError('model_crashed', 'Again.') });
  t.match(heard.at(-1), { state: { state: 'failed', error: { code: 'model_crashed', message: 'Again.' } } });
  t.match(heard.at(-1), { loads: 1 });
  turn({ state: 'ready', model: description, status: { running: 0, waiting: 0, tokens: 0 } });
  t.match((await pool.list()), [{ loads: 2, activity: { kv: undefined } }]);
  turn({ state: 'closed' });
  t.match((await pool.list()).map(({ state }) => state), [{ state: 'unloaded' }]);
  stop();
  turn({ state: 'loading', fraction: 0 });
  t.equal(heard.length, 6);
});

t.test('a single model stays loaded, and closing its pool leaves its engine', async (t) => {
  const { engine, pool } = open();
  t.match(await pool.load('tiny'), { id: 'Tiny', state: { state: 'loaded' } }, 'what is loaded can be loaded again');
  t.match(await failure(pool.load('other')), { code: 'model_not_found' });
  t.match(await failure(pool.unload('tiny')), { code: 'model_fixed', message: /as long as it runs/ });
  await pool.close();
  t.match(await failure(pool.lease('tiny')), { code: 'shutting_down' });
  t.match(engine.state, { state: 'ready' });
});
