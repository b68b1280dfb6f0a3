import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Pulse } from '#recua/engine/protocol.js';
import { Watch } from '#recua/engine/gateway/watch.js';
import { marks, type FakeOptions } from '../fake-addon.js';
import { chat, completion, options, say } from '../requests.js';

const code = async (promise: Promise<unknown>) => promise.then(() => 'none', (error: { code: string }) => error.code);

/** A watch without a clock; each pulse answers the previous probe. */
function watched(stuckLooks: number, more: { startMs?: number } = {}) {
  const told: string[] = [];
  let looks = 0;
  const watch = new Watch({ everyMs: 1_000, stuckMs: stuckLooks * 1_000, ...more }, () => looks++, (part, why) => told.push(`${part}: ${why}`));
  const answer = (parts: Partial<Pulse>): void => {
    watch.tick();
    const idle = { busy: false, done: 0 };
    watch.heard({ compute: idle, pool: { busy: true, done: looks }, ...parts });
  };
  return { watch, told, answer, looks: () => looks };
}

t.test('a part with work that makes progress is never stuck, however slow it is', (t) => {
  const { told, answer } = watched(3);
  // The backend polls within a very long step; one or two probes may fall between two polls.
  for (let look = 0; look < 100; look++)
    answer({ compute: { busy: true, done: Math.floor(look / 3) }, pool: { busy: true, done: Math.floor(look / 2) } });
  t.same(told, []);
  t.end();
});

t.test('a part without work need not make progress', (t) => {
  const { told, answer } = watched(3);
  for (let look = 0; look < 100; look++) answer({});
  // Work that arrived since the last probe has not been probed twice.
  for (let look = 0; look < 100; look++) answer({ compute: { busy: look % 2 === 0, done: 7 } });
  t.same(told, []);
  t.end();
});

for (const part of ['compute', 'pool'] as const) {
  t.test(`${part} with work and without a sign of life is reported as stuck, once`, (t) => {
    const { told, answer } = watched(3);
    for (let look = 0; look < 3; look++) answer({ [part]: { busy: true, done: 7 } });
    t.same(told, [], 'not before the time is up');
    answer({ [part]: { busy: true, done: 7 } });
    t.equal(told.length, 1);
    t.match(told[0], new RegExp(`^${part}: its .* makes no progress`));
    t.end();
  });
}

t.test('a process that never responded has not started', (t) => {
  const { watch, told } = watched(30, { startMs: 4_000 });
  for (let tick = 0; tick < 9; tick++) watch.tick();
  t.same(told, ['start: it gave no sign of life for 4 s']);
  const other = watched(30, { startMs: 4_000 });
  other.answer({});
  for (let tick = 0; tick < 20; tick++) other.watch.tick();
  t.same(other.told, [], 'once it has, it has more time');
  t.end();
});

t.test('a process that does not respond is stuck; one that responds late is not, and gets one probe at a time', (t) => {
  const { watch, told, answer, looks } = watched(3);
  answer({});
  watch.tick();
  watch.tick();
  t.equal(looks(), 2);
  answer({});
  t.same(told, []);
  for (let tick = 0; tick < 9; tick++) watch.tick();
  t.same(told, ['process: it does not answer for 3 s']);
  t.end();
});

/** An engine in a real process over the fake addon, probed often. */
function start(t: Test, fake: FakeOptions = {}, more: Partial<typeof options> = {}, stuckMs = 1_500) {
  process.env.FAKE_ADDON = JSON.stringify(fake);
  const log: string[] = [];
  const states: string[] = [];
  const engine = startEngine({ ...options, ...more }, {
    entry: new URL('../fake-main.js', import.meta.url), log: (level, text) => log.push(`${level} ${text}`),
    onState: ({ state }) => states.push(state), restart: { delayMs: 1 }, watch: { everyMs: 50, stuckMs, startMs: 60_000 },
  });
  t.teardown(() => engine.close(0));
  return { engine, log, states };
}

t.test('a process whose decoding is stuck is restarted, and its queued requests run there', async (t) => {
  const { engine, log, states } = start(t, {}, { parallel: 1 });
  await engine.ready();
  const { pid } = engine;
  const stuck = engine.complete(completion(`x${marks.stuckStep}`));
  const waiting = engine.complete(completion('x', { constraint: say('fine') }));
  await waiting.accepted;
  t.equal(await code(stuck.finished), 'model_stuck');
  t.match(await waiting.finished, { finishReason: 'stop' });
  t.not(engine.pid, pid);
  t.equal(engine.crashes, 1);
  t.ok(log.some((line) => /^error .*is stuck: its computing makes no progress for 2 s; restarting it/.test(line)), log.join('\n'));
  const changes = states.filter((state, at) => state !== 'loading' && state !== states[at - 1]);
  t.same(changes, ['ready', 'restarting', 'ready'], 'not ready from the moment it was known');
});

t.test('a process whose JavaScript thread is stuck is ended', async (t) => {
  const { engine, log } = start(t);
  await engine.ready();
  t.equal(await code(engine.complete(completion(marks.stuckProcess)).finished), 'model_stuck');
  t.match(await engine.complete(completion('x', { constraint: say('back') })).finished, { finishReason: 'stop' });
  t.ok(log.some((line) => /is stuck: it does not answer/.test(line)));
});

t.test('a process whose load is stuck is ended; one whose first token takes long, but polls, is not', async (t) => {
  const stuck = start(t, { stuckOnLoad: true }, {}, 100);
  t.equal(await code(stuck.engine.ready()), 'model_unusable');
  t.match(stuck.engine.state, { state: 'failed', error: { message: /made no progress while loading/ } });
  t.equal(stuck.engine.crashes, 1);
  t.ok(stuck.log.some((line) => /is stuck: its computing makes no progress for 1 s; ending it/.test(line)), stuck.log.join('\n'));
  const again = start(t, {}, {}, 500);
  await again.engine.ready();
  process.env.FAKE_ADDON = JSON.stringify({ stuckOnLoad: true });
  process.kill(again.engine.pid!, 'SIGKILL');
  t.equal(await code(again.engine.complete(completion('x')).finished), 'model_stuck', 'nor does a request wait for five such loads');
  t.match(again.engine.state, { state: 'failed', error: { message: /made no progress while loading.* tried again in 60 s/ } });
  t.equal(again.engine.crashes, 2);
  const slow = start(t, { stepMs: 3_000, polling: true }, {}, 200);
  await slow.engine.ready();
  t.equal(slow.engine.crashes, 0);
});

t.test('a process that can no longer prepare requests is ended; those in preparation are tried alone', async (t) => {
  const { engine, log } = start(t, { stepMs: 1 });
  await engine.ready();
  const evil = engine.chat(chat(marks.stuckPool));
  const behind = engine.chat(chat('hello'));
  t.same(await Promise.all([evil, behind].map(({ finished }) => code(finished))), ['model_stuck', 'none']);
  t.equal(engine.crashes, 2);
  t.match(await engine.chat(chat('x', { constraint: say('back') })).finished, { finishReason: 'stop' });
  t.ok(log.some((line) => /is stuck: its preparation of requests/.test(line)));
});

t.test('a process whose embedding is stuck is ended', async (t) => {
  const { engine } = start(t);
  await engine.ready();
  t.equal(await code(engine.embed({ inputs: [`a${marks.stuckStep}`] })), 'model_stuck');
  t.equal((await engine.embed({ inputs: ['ab'] })).vectors.length, 1);
});

t.test('a step over the time limit is left alone while its backend computes; so are idle processes', async (t) => {
  const { engine } = start(t, { stepMs: 4_000, polling: true }, { parallel: 1 });
  await engine.ready();
  const slow = engine.complete(completion('x', { maxTokens: 1 }));
  const queued = engine.complete(completion('x', { maxTokens: 1 }));
  t.match(await slow.finished, { usage: { completionTokens: 1 } });
  t.match(await queued.finished, { usage: { completionTokens: 1 } });
  t.equal(engine.crashes, 0);
});
