// Requests of several clients that wait for an engine process to come back.
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Answer } from '#recua/engine/api.js';
import { completion, options, say } from '../requests.js';

t.test('while the engine process comes back, a client with many requests in the queue gives way', async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const engine = startEngine({ ...options, parallel: 1, queueSize: 4 }, { entry: new URL('../fake-main.js', import.meta.url), restart: { delayMs: 500 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const ends: Promise<string>[] = [];
  const ask = (client: string, maxTokens = 10): Answer => {
    const answer = engine.complete(completion(`${client} asks`, { constraint: say('x'.repeat(maxTokens)), maxTokens, asker: { client, priority: 0 } }));
    ends.push(answer.finished.then(() => `${client} done`, ({ code }: { code: string }) => `${client} ${code}`));
    return answer;
  };
  await ask('many', 500)[Symbol.asyncIterator]().next();
  process.kill(engine.pid!, 'SIGKILL');
  while (engine.state.state === 'ready') await new Promise((resolve) => setTimeout(resolve, 1));
  for (let i = 0; i < 5; i++) ask('many');
  for (let i = 0; i < 3; i++) ask('few');
  t.strictSame(await Promise.all(ends), [
    'many done',
    'many done', 'many done', 'many queue_full', 'many queue_full', 'many queue_full',
    'few done', 'few done', 'few queue_full',
  ]);
});
