// Somebody else, such as earlyoom, ends an engine process by SIGTERM: it finishes what it has.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Answer, Engine } from '#recua/engine/api.js';
import { chat, options, sampling } from '../requests.js';

const skip = process.platform === 'win32';

/** An engine whose process ends as soon as its long answer is complete. */
async function ending(
  t: Test, more: { parallel: number; queueSize?: number }, stateFolder?: string,
): Promise<{ engine: Engine; long: Answer }> {
  const engine = startEngine({ ...options, contextSize: 4_000, ...more }, { restart: { delayMs: 0 }, stateFolder });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const long = engine.chat(chat('Hello', { maxTokens: 3_000, sampling: { ...sampling, ignoreEos: true } }));
  await long[Symbol.asyncIterator]().next();
  process.kill(engine.pid!, 'SIGTERM');
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { engine, long };
}

t.test('requests that come while the process ends run in the next one', { skip }, async (t) => {
  const { engine, long } = await ending(t, { parallel: 2 });
  const late = engine.chat(chat('Hello', { maxTokens: 4 }));
  t.equal((await late.finished).usage.completionTokens, 4);
  t.equal((await long.finished).usage.completionTokens, 3_000);
  t.equal(engine.crashes, 1);
});

t.test('states are restored in the next process, too, and saved if it has any', { skip }, async (t) => {
  const stateFolder = t.testdir();
  const path = join(stateFolder, 'chat.kv');
  const before = startEngine({ ...options, contextSize: 4_000, parallel: 2 }, { stateFolder });
  t.teardown(() => before.close(0));
  await before.ready();
  await before.chat(chat('Hello', { maxTokens: 4 })).finished;
  const { tokens } = await before.saveState(path);
  await before.close(0);
  const { engine, long } = await ending(t, { parallel: 2 }, stateFolder);
  t.match(await engine.saveState(`${path}.early`), { tokens: 0 });
  const restoring = engine.restoreState(path);
  const again = engine.saveState(`${path}.late`);
  t.match(await restoring, { tokens });
  t.match(await again, { tokens });
  t.equal((await long.finished).usage.completionTokens, 3_000);
  t.equal(engine.crashes, 1);
});

t.test('no more of them wait than the queue holds', { skip }, async (t) => {
  const { engine, long } = await ending(t, { parallel: 1, queueSize: 2 });
  const late = await Promise.allSettled(Array.from({ length: 6 }, async () => await engine.chat(chat('Hello', { maxTokens: 4 })).finished));
  const refused = late.filter((one) => one.status === 'rejected').map(({ reason }) => (reason as { code: string }).code);
  t.strictSame(refused, ['queue_full', 'queue_full', 'queue_full', 'queue_full']);
  t.equal((await long.finished).usage.completionTokens, 3_000);
});

t.test('a process that is ended often is started again each time', { skip }, async (t) => {
  const engine = startEngine({ ...options, parallel: 1 }, { restart: { delayMs: 0, crashes: 3 } });
  t.teardown(() => engine.close(0));
  for (let times = 0; times < 5; times++) {
    await engine.ready();
    const { pid } = engine;
    process.kill(pid!, 'SIGTERM');
    while (engine.pid === pid) await new Promise((resolve) => setTimeout(resolve, 10));
    t.equal((await engine.chat(chat('Hello', { maxTokens: 4 })).finished).usage.completionTokens, 4);
  }
});

t.test('questions to the model go on in the next process', { skip }, async (t) => {
  const engine = startEngine({ ...options, parallel: 1 }, { restart: { delayMs: 0 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const long = 'word '.repeat(20_000);
  for (let times = 0; times < 6; times++) {
    const { pid } = engine;
    const asked = Array.from({ length: 8 }, (_, i) => engine.tokenize(i % 2 === 0 ? 'Hello' : long, false, false));
    process.kill(pid!, 'SIGTERM');
    while (engine.pid === pid) {
      asked.push(engine.tokenize('Hello', false, false));
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    for (const { length } of await Promise.all(asked)) t.ok(length > 0);
    await engine.ready();
  }
});

t.test('a process that is ended several times during its first load is started again', { skip }, async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ loadMs: 400 });
  t.teardown(() => delete process.env.FAKE_ADDON);
  const engine = startEngine({ ...options, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url) });
  t.teardown(() => engine.close(0));
  for (let times = 0; times < 3; times++) {
    const { pid } = engine;
    process.kill(pid!, 'SIGTERM');
    while (engine.pid === pid) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await engine.ready();
  t.equal(engine.crashes, 3);
});
