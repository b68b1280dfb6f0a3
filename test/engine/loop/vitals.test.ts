import t from 'tap';
import { SleepFiles } from '#recua/engine/loop/sleep-files.js';
import type { EngineOptions } from '#recua/engine/protocol.js';
import { marks } from '../fake-addon.js';
import { completion, openEngine, turn } from '../requests.js';

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}

t.test('a probe of an idle engine sends a turn through the loop and the pool, which the next probe sees', async (t) => {
  const { engine, addon } = await openEngine();
  const first = engine.vitals.look();
  t.same(first, { compute: { busy: false, done: 0 }, pool: { busy: true, done: 0 } });
  await turns(20);
  const second = engine.vitals.look();
  t.ok(second.compute.done > 0);
  t.ok(second.pool.done > 0);
  await turns(20);
  await engine.close();
  t.same(addon.violations, []);
});

t.test('probes change no answer and keep no sequence', async (t) => {
  const plain = await openEngine();
  const before = (await plain.complete(completion('the same')).done).content;
  await plain.engine.close();
  const looked = await openEngine();
  const one = looked.complete(completion('the same'));
  for (let i = 0; i < 50; i++) {
    looked.engine.vitals.look();
    await turn();
  }
  t.equal((await one.done).content, before);
  looked.engine.vitals.look();
  t.equal((await looked.complete(completion('the same')).done).content, before);
  await looked.engine.close();
  t.same(looked.addon.violations, []);
});

t.test('polls of a step count as a sign of life; a stuck step gives none', async (t) => {
  for (const polling of [true, false]) {
    const { engine, complete } = await openEngine({ polling });
    complete(completion(marks.stuckStep));
    await turns(20);
    const [first, second] = [engine.vitals.look(), engine.vitals.look()];
    t.ok(first.compute.busy && second.compute.busy);
    t.equal(first.compute.done !== second.compute.done, polling);
  }
});

t.test('work on saved states may take any time', async (t) => {
  const { engine, outcomes } = await openEngine();
  outcomes.set(99, { content: '', deltas: 0, accepted: false, calls: [], end: undefined as never });
  let end = (): void => undefined;
  const held = new Promise<{ tokens: number; sizeBytes: number }>((resolve) => (end = () => resolve({ tokens: 0, sizeBytes: 0 })));
  engine.keep(99, () => held);
  await turns(5);
  t.equal(engine.vitals.look().compute.busy, false);
  end();
  await engine.close();
});

t.test('the files of kept conversations may take any time to be looked through', async (t) => {
  let end = (): void => undefined;
  const opened = new Promise<void>((resolve) => (end = resolve));
  t.intercept(SleepFiles.prototype, 'open', { value: () => opened });
  const { engine } = await openEngine({}, { sleep: { folder: t.testdir(), mostBytes: 1e6, lasts: true } as unknown as NonNullable<EngineOptions['sleep']> });
  for (let looks = 0; looks < 3; looks++) {
    t.equal(engine.vitals.look().compute.busy, false);
    await turns(5);
  }
  end();
  await engine.close();
});
