// A file of a model that changes while an engine process has loaded it.
import { chmodSync, copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { completion, options, say } from '../requests.js';
import { idsOf, unpack } from '#recua/engine/packed-tokens.js';

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

t.test('after a crash, an answer that the changed file ends sooner fails', async (t) => {
  const modelPath = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, modelPath);
  const engine = startEngine({ ...options, modelPath, parallel: 1 }, { restart: { delayMs: 1 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const request = completion('Once upon a time', { maxTokens: 300, tells: { tokens: true } });
  const tokens: number[] = [];
  for await (const delta of engine.complete(request)) tokens.push(...delta.tokens ? idsOf(unpack(delta.tokens)) : []);

  const bytes = readFileSync(modelPath);
  const key = 'tokenizer.ggml.eos_token_id';
  bytes.writeUInt32LE(tokens.find((token, at) => at > 4 && tokens.indexOf(token) === at)!, bytes.indexOf(key) + key.length + 4);
  writeFileSync(`${modelPath}.new`, bytes);
  const answer = engine.complete(request);
  let length = 0;
  const read = (async () => {
    for await (const delta of answer) {
      const before = length;
      length += delta.tokens?.count ?? 0;
      if (before > 9 || length < 10) continue;
      renameSync(`${modelPath}.new`, modelPath);
      process.kill(engine.pid!, 'SIGKILL');
    }
  })();
  await t.rejects(read, { code: 'model_crashed', message: /came out different/ });
  t.ok(length < tokens.length);
});

t.test('a file that is overwritten is loaded again for the next request, not its weights used with the old header', async (t) => {
  const modelPath = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, modelPath);
  const log: string[] = [];
  const engine = startEngine({ ...options, modelPath, parallel: 1 }, { log: (_, text) => log.push(text), restart: { delayMs: 1 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const request = completion('Once upon a time', { maxTokens: 300, tells: { tokens: true } });
  const read = async (): Promise<number[]> => {
    const tokens: number[] = [];
    for await (const delta of engine.complete(request)) tokens.push(...delta.tokens ? idsOf(unpack(delta.tokens)) : []);
    return tokens;
  };
  const tokens = await read();

  // Neither of these changes what is mapped.
  chmodSync(modelPath, 0o600);
  copyFileSync(modelPath, `${modelPath}.new`);
  renameSync(modelPath, `${modelPath}.old`);
  renameSync(`${modelPath}.new`, modelPath);
  t.same(await read(), tokens);
  renameSync(`${modelPath}.old`, modelPath);
  t.same(await read(), tokens);
  t.equal(engine.crashes, 0);

  const bytes = readFileSync(modelPath);
  const key = 'tokenizer.ggml.eos_token_id';
  const end = tokens.findIndex((token, at) => at > 4 && tokens.indexOf(token) === at);
  bytes.writeUInt32LE(tokens[end]!, bytes.indexOf(key) + key.length + 4);
  writeFileSync(modelPath, bytes);
  t.same(await read(), tokens.slice(0, end + 1));
  t.ok(log.includes('the file of the model was overwritten; it is loaded again'));
  t.ok(log.includes('the engine process runs again, with a file of the model that has changed; all answers begin anew'));
});
