// A file of a model that changes while an engine process has loaded it.
import { copyFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { completion, options, say } from '../requests.js';

t.test('after a crash, no tokens of the file that was loaded go to the one that is there now', async (t) => {
  const modelPath = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, modelPath);
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const log: string[] = [];
  const engine = startEngine({ ...options, modelPath, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url), log: (_, text) => log.push(text), restart: { delayMs: 1 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const kill = async (): Promise<void> => {
    const text = 'word '.repeat(60);
    const answers = [engine.complete(completion('runs', { constraint: say(text), maxTokens: 400 })), engine.complete(completion('waits', { constraint: say('well') }))];
    await answers[0]![Symbol.asyncIterator]().next();
    await answers[1]!.accepted;
    process.kill(engine.pid!, 'SIGKILL');
    await Promise.all(answers.map(({ finished }) => finished));
  };
  await kill();
  t.ok(log.includes('the engine process runs again'));
  copyFileSync(modelPath, `${modelPath}.new`);
  renameSync(`${modelPath}.new`, modelPath);
  await kill();
  t.ok(log.includes('the engine process runs again, with a file of the model that has changed; all answers begin anew'));
});
