// An engine process that the system cannot start for a while.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { completion, options, say } from '../requests.js';

t.test('after a crash, an answer goes on once the system can start a process again', { skip: process.platform !== 'linux' && 'the limit is Linux\'s' }, async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const log: string[] = [];
  const engine = startEngine({ ...options, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url), log: (_, text) => log.push(text), restart: { delayMs: 1 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const text = 'word '.repeat(60);
  const answer = engine.complete(completion('runs', { constraint: say(text), maxTokens: 400 }));
  let content = (await answer[Symbol.asyncIterator]().next()).value?.content ?? '';
  // Not EMFILE, which would hit the test as well: no variable may be as long.
  process.env.FAKE_LENGTH = 'x'.repeat(200_000);
  process.kill(engine.pid!, 'SIGKILL');
  // More often than a process may die.
  const failures = (): number => log.filter((line) => line === 'the engine process could not start: E2BIG').length;
  while (failures() < 8 && engine.state.state !== 'failed') await new Promise((resolve) => setTimeout(resolve, 1));
  delete process.env.FAKE_LENGTH;
  for await (const delta of answer) content += delta.content ?? '';
  t.equal(content, text);
  t.equal(engine.crashes, 1, 'the shortage is no crash');
});

t.test('if the system starts no process for long, requests fail with the reason until it does', { skip: process.platform !== 'linux' && 'the limit is Linux\'s' }, async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({});
  const engine = startEngine({ ...options, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url), restart: { delayMs: 1, unstartableMs: 20, mostDelayMs: 50 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  process.env.FAKE_LENGTH = 'x'.repeat(200_000);
  t.teardown(() => delete process.env.FAKE_LENGTH);
  process.kill(engine.pid!, 'SIGKILL');
  const until = async (state: string): Promise<void> => {
    while (engine.state.state !== state) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  await until('failed');
  delete process.env.FAKE_LENGTH;
  t.match(engine.state, { error: { code: 'model_crashed', message: /^For \d+ s, the engine process could not start: E2BIG; it is tried again in 0 s\.$/ } });
  await until('ready');
  t.match(await engine.tokenize('x', false, false), Int32Array);
});

t.test('a model whose process cannot be started fails with the reason', { skip: process.platform !== 'linux' && 'the limit is Linux\'s' }, async (t) => {
  process.env.FAKE_LENGTH = 'x'.repeat(200_000);
  t.teardown(() => delete process.env.FAKE_LENGTH);
  const engine = startEngine(options, { entry: new URL('../fake-main.js', import.meta.url) });
  t.teardown(() => engine.close(0));
  await t.rejects(engine.ready(), { code: 'model_crashed', message: /^For \d+ s, the engine process could not start: E2BIG\.$/ });
});

t.test('a process that hangs at its start is ended, and another one started', async (t) => {
  const hang = join(t.testdir({}), 'hang');
  process.env.FAKE_HANG = hang;
  t.teardown(() => delete process.env.FAKE_HANG);
  process.env.FAKE_ADDON = JSON.stringify({});
  const log: string[] = [];
  const watch = { everyMs: 200, stuckMs: 60_000, startMs: 6_000 };
  const engine = startEngine({ ...options, parallel: 1 }, { entry: new URL('../fake-main.js', import.meta.url), log: (_, text) => log.push(text), restart: { delayMs: 1 }, watch });
  t.teardown(() => engine.close(0));
  await engine.ready();
  writeFileSync(hang, '');
  process.kill(engine.pid!, 'SIGKILL');
  const tokens = engine.tokenize('x', false, false);
  while (!log.includes('the engine process could not start: it gave no sign of life for 6 s; the system may be short of threads or memory')) await new Promise((resolve) => setTimeout(resolve, 10));
  rmSync(hang);
  t.match(await tokens, Int32Array);
  t.equal(engine.crashes, 1, 'the shortage is no crash');
});
