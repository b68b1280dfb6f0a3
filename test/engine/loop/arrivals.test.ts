import t from 'tap';
import { Arrivals } from '#recua/engine/loop/arrivals.js';
import { Wakeup } from '#recua/engine/loop/wakeup.js';

function setup() {
  const wakeup = new Wakeup();
  return { wakeup, arrivals: new Arrivals(wakeup) };
}
/** Whether it resolves without a timer, that is, without waiting. */
async function atOnce(promise: Promise<void>): Promise<boolean> {
  const late = new Promise<boolean>((resolve) => { setImmediate(() => resolve(false)); });
  const done = await Promise.race([promise.then(() => true), late]);
  await promise;
  return done;
}

/** Runs everything that is ready, but no timer. */
async function settle() {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

t.test('no step waits if no request is coming', async (t) => {
  t.ok(await atOnce(setup().arrivals.gather(1000, 4)));
});

t.test('a step waits for requests on their way until they arrive, but not forever', async (t) => {
  const { wakeup, arrivals } = setup();
  arrivals.came();
  arrivals.came();
  let gathered = false;
  const gathering = arrivals.gather(0, 4).then(() => { gathered = true; });
  arrivals.prepared();
  wakeup.wake();
  await settle();
  t.notOk(gathered, 'one of two');
  arrivals.prepared();
  wakeup.wake();
  await gathering;

  arrivals.came();
  t.notOk(await atOnce(arrivals.gather(0, 4)));
  t.ok(await atOnce(arrivals.gather(0, 0)), 'there is no room for it');
});

t.test('a client that was just answered may come back, and the wait costs the others a small part of their time', async (t) => {
  const { wakeup, arrivals } = setup();
  arrivals.left(2);
  t.ok(await atOnce(arrivals.gather(0, 4)), 'nothing to be read');
  let gathered = false;
  const gathering = arrivals.gather(100_000, 4).then(() => { gathered = true; });
  arrivals.came();
  arrivals.prepared();
  wakeup.wake();
  await settle();
  t.notOk(gathered, 'one of two');
  arrivals.came();
  arrivals.prepared();
  wakeup.wake();
  await gathering;
  t.ok(await atOnce(arrivals.gather(100_000, 4)), 'both are back');
});

t.test('no step waits for a client that left long ago', async (t) => {
  const { arrivals } = setup();
  arrivals.left(2);
  await new Promise((resolve) => setTimeout(resolve, 40));
  t.ok(await atOnce(arrivals.gather(100_000, 4)));
});
