// A file of a model that changes while an engine process has loaded it.
import { chmodSync, copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startEngine, type ClientSettings } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { marks } from '../fake-addon.js';
import { completion, options, say } from '../requests.js';
import { idsOf, unpack } from '#recua/engine/packed-tokens.js';

/** An engine that has loaded a file which the test may change. */
async function startOnCopy(t: Test, settings: Partial<ClientSettings> = {}) {
  const modelPath = join(t.testdir(), 'model.gguf');
  copyFileSync(builtinPath, modelPath);
  const log: string[] = [];
  const own: ClientSettings = { log: (_, text) => log.push(text), restart: { delayMs: 1 }, ...settings };
  const engine = startEngine({ ...options, modelPath, parallel: 1 }, own);
  t.teardown(() => engine.close(0));
  await engine.ready();
  return { engine, modelPath, log };
}

t.test('after a crash, no tokens of the file that was loaded go to the one that is there now', async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const { engine, modelPath, log } = await startOnCopy(t, { entry: new URL('../fake-main.js', import.meta.url) });
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

t.test('what killed the process is tried again with another file', async (t) => {
  const { engine, modelPath, log } = await startOnCopy(t, { entry: new URL('../fake-main.js', import.meta.url) });
  const killer = async (): Promise<unknown> => {
    const { finished } = engine.complete(completion(`x${marks.kill}`));
    return await finished.then(() => 'none', ({ code }: { code: string }) => code);
  };
  t.equal(await killer(), 'model_crashed');
  t.equal(await killer(), 'request_set_aside');
  copyFileSync(modelPath, `${modelPath}.new`);
  renameSync(`${modelPath}.new`, modelPath);
  while (engine.pid === undefined) await wait(5);
  process.kill(engine.pid, 'SIGKILL');
  while (!log.some((line) => line.includes('with a file of the model that has changed'))) await wait(5);
  t.equal(await killer(), 'model_crashed');
});

t.test('after a crash, an answer that the changed file ends sooner fails', async (t) => {
  const { engine, modelPath } = await startOnCopy(t);
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
  const { engine, modelPath, log } = await startOnCopy(t);
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

t.test('an answer waits for a file that is missing for a moment after a crash', async (t) => {
  const { engine, modelPath, log } = await startOnCopy(t);
  const ask = async (): Promise<string> => {
    let text = '';
    for await (const { content } of engine.complete(completion('Once upon a time', { maxTokens: 8 }))) text += content;
    return text;
  };
  const text = await ask();
  renameSync(modelPath, `${modelPath}.moved`);
  process.kill(engine.pid!, 'SIGKILL');
  const again = ask();
  while (!log.some((text) => /^the model cannot be loaded again, and is tried once more: There is no file/.test(text))) await wait(5);
  renameSync(`${modelPath}.moved`, modelPath);
  t.equal(await again, text);
});
