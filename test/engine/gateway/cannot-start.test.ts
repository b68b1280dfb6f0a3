// An engine process that the system cannot start for a while.
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { completion, options, say } from '../requests.js';

t.test('after a crash, an answer goes on once the system can start a process again', { skip: process.platform !== 'linux' && 'the limit is Linux\'s' }, async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const log: string[] = [];
  const engine = startEngine({ ...options, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url), log: (_, text) => log.push(text), restart: { delayMs: 200 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const text = 'word '.repeat(60);
  const answer = engine.complete(completion('runs', { constraint: say(text), maxTokens: 400 }));
  let content = (await answer[Symbol.asyncIterator]().next()).value?.content ?? '';
  // Not EMFILE, which would hit the test as well: no variable may be as long.
  process.env.FAKE_LENGTH = 'x'.repeat(200_000);
  process.kill(engine.pid!, 'SIGKILL');
  while (engine.crashes < 2 && engine.state.state !== 'failed') await new Promise((resolve) => setTimeout(resolve, 1));
  delete process.env.FAKE_LENGTH;
  for await (const delta of answer) content += delta.content ?? '';
  t.equal(content, text);
  t.ok(log.includes('the engine process died (could not start: E2BIG)'));
});

t.test('a model whose process cannot be started fails with the reason', { skip: process.platform !== 'linux' && 'the limit is Linux\'s' }, async (t) => {
  process.env.FAKE_LENGTH = 'x'.repeat(200_000);
  t.teardown(() => delete process.env.FAKE_LENGTH);
  const engine = startEngine(options, { entry: new URL('../fake-main.js', import.meta.url) });
  t.teardown(() => engine.close(0));
  await t.rejects(engine.ready(), { code: 'model_unusable', message: /could not start: E2BIG/ });
});
