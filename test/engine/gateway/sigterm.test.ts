// Somebody else, such as earlyoom, ends an engine process by SIGTERM: it finishes what it has.
import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Answer, Engine } from '#recua/engine/api.js';
import { chat, options, sampling } from '../requests.js';

const skip = process.platform === 'win32';

/** An engine whose process ends as soon as its long answer is complete. */
async function ending(t: Test, more: { parallel: number; queueSize?: number }): Promise<{ engine: Engine; long: Answer }> {
  const engine = startEngine({ ...options, ...more }, { restart: { delayMs: 0 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const long = engine.chat(chat('Hello', { maxTokens: 1_500, sampling: { ...sampling, ignoreEos: true } }));
  await long[Symbol.asyncIterator]().next();
  process.kill(engine.pid!, 'SIGTERM');
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { engine, long };
}

t.test('requests that come while the process ends run in the next one', { skip }, async (t) => {
  const { engine, long } = await ending(t, { parallel: 2 });
  const late = engine.chat(chat('Hello', { maxTokens: 4 }));
  t.equal((await late.finished).usage.completionTokens, 4);
  t.equal((await long.finished).usage.completionTokens, 1_500);
  t.equal(engine.crashes, 1);
});

t.test('no more of them wait than the queue holds', { skip }, async (t) => {
  const { engine, long } = await ending(t, { parallel: 1, queueSize: 2 });
  const late = await Promise.allSettled(Array.from({ length: 6 }, async () => await engine.chat(chat('Hello', { maxTokens: 4 })).finished));
  const refused = late.filter((one) => one.status === 'rejected').map(({ reason }) => (reason as { code: string }).code);
  t.strictSame(refused, ['queue_full', 'queue_full', 'queue_full', 'queue_full']);
  t.equal((await long.finished).usage.completionTokens, 1_500);
});
