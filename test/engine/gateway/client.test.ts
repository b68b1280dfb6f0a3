import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import type { Delta } from '#recua/engine/protocol.js';
import type { Answer } from '#recua/engine/api.js';
import { startEngine, type ClientSettings } from '#recua/engine/gateway/client.js';
import { marks, type FakeOptions } from '../fake-addon.js';
import { chat, completion, options, sampling, say } from '../requests.js';

const entry = new URL('../fake-main.js', import.meta.url);

/** An engine in a real child process over the fake addon. */
function start(t: Test, fake: FakeOptions & { killFile?: string } = {}, more: Partial<typeof options> = {}, settings: ClientSettings = {}) {
  process.env.FAKE_ADDON = JSON.stringify(fake);
  const log: string[] = [];
  const engine = startEngine({ ...options, ...more }, {
    entry, log: (level, text) => log.push(`${level} ${text}`), ...settings, restart: { delayMs: 1, ...settings.restart },
  });
  t.teardown(() => engine.close(0));
  return { engine, log };
}

async function read(answer: Answer): Promise<string> {
  let content = '';
  for await (const delta of answer) content += delta.content ?? '';
  return content;
}

const code = async (promise: Promise<unknown>) => promise.then(() => 'none', (error: { code: string }) => error.code);
/** Resolves with the first delta, when the request surely runs. */
const begun = (answer: Answer) => answer[Symbol.asyncIterator]().next();
/** A dead orphan may stay a zombie if nobody reaps it; that counts as gone. */
const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return !existsSync('/proc/self/stat');
  }
};
const gone = async (pid: number) => {
  while (alive(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
};

t.test('an engine process loads, chats, embeds, tokenizes and closes with nothing left', async (t) => {
  const { engine } = start(t, { loadMs: 20 });
  t.match(engine.state, { state: 'loading' });
  t.equal(await code(engine.chat(chat('early')).finished), 'model_loading');
  const model = await engine.ready();
  t.match(model, { contextSize: 2000, parallel: 4, canGenerate: true, canEmbed: true, pooling: 'mean' });
  t.match(engine.state, { state: 'ready' });
  const answer = engine.chat(chat('hello', { constraint: say('good é day') }));
  t.same(await answer.accepted, { promptTokens: 22, position: 0 });
  t.equal(await read(answer), 'good é day');
  t.match(await answer.finished, { finishReason: 'stop', usage: { promptTokens: 22 }, warnings: [] });
  const { vectors, tokenCounts } = await engine.embed({ inputs: ['ab', 'abc'] });
  t.equal(vectors.length, 2);
  t.equal(vectors[1].length, 4);
  t.same([...tokenCounts], [3, 4]);
  t.same([...await engine.tokenize('ab', false, true)], [97, 98]);
  const pid = engine.pid!;
  await engine.close(1000);
  t.notOk(alive(pid));
  t.equal(engine.pid, undefined);
  t.match(engine.state, { state: 'closed' });
  t.equal(await code(engine.chat(chat('late')).finished), 'shutting_down');
  t.equal(engine.crashes, 0);
});

t.test('when a long request dies on trial, the others go on in the next process', async (t) => {
  const { engine } = start(t, { stepMs: 5 }, {}, { restart: { crashes: 9 } });
  await engine.ready();
  // Its text is dropped when it begins, so it cannot go on.
  const long = engine.chat(chat(marks.endless, { tools: `[${' '.repeat(5 * 2 ** 20)}]` }));
  const others = ['one', 'two'].map((name) => engine.chat(chat(name, { constraint: say(name) })));
  for (const death of [1, 2]) {
    process.kill(engine.pid!, 'SIGKILL');
    while (engine.crashes < death) await new Promise((resolve) => setTimeout(resolve, 1));
    await engine.ready();
  }
  await begun(long);
  process.kill(engine.pid!, 'SIGKILL');
  t.equal(await code(long.finished), 'model_crashed');
  t.same(await Promise.all(others.map(read)), ['one', 'two']);
});

t.test('an early error rejects accepted, finished and the iterator', async (t) => {
  const { engine } = start(t, {}, { contextSize: 10 });
  await engine.ready();
  const answer = engine.chat(chat('too long for this'));
  t.equal(await code(answer.accepted), 'context_length_exceeded');
  t.equal(await code(answer.finished), 'context_length_exceeded');
  t.equal(await code(read(answer)), 'context_length_exceeded');
});

t.test('a slow reader gets everything, merged', async (t) => {
  const { engine } = start(t);
  await engine.ready();
  const answer = engine.complete(completion('x', { constraint: say('one two three') }));
  await answer.finished;
  const deltas: Delta[] = [];
  for await (const delta of answer) deltas.push(delta);
  t.strictSame(deltas, [{ content: 'one two three' }]);
});

t.test('an abort cancels, before and during an answer, and so does leaving the loop', async (t) => {
  const { engine } = start(t, { stepMs: 1 });
  await engine.ready();
  t.equal(await code(engine.chat(chat('x'), AbortSignal.abort()).finished), 'cancelled');
  const controller = new AbortController();
  const answer = engine.complete(completion('~', { maxTokens: 1900 }), controller.signal);
  await begun(answer);
  controller.abort();
  t.equal(await code(answer.finished), 'cancelled');
  const left = engine.complete(completion('~', { maxTokens: 1900 }));
  for await (const _ of left) break;
  t.equal(await code(left.finished), 'cancelled');
  const aborted = new AbortController();
  const embedding = engine.embed({ inputs: Array.from({ length: 2000 }, () => 'x') }, aborted.signal);
  aborted.abort();
  t.equal(await code(embedding), 'cancelled');
  t.equal(await read(engine.complete(completion('x', { constraint: say('ok') }))), 'ok');
});

/** Everything about an answer, for comparison. */
const whole = async (answer: Answer) => {
  const content = await read(answer);
  const { finishReason, usage: { promptTokens, completionTokens }, seed } = await answer.finished;
  return { content, finishReason, promptTokens, completionTokens, seed };
};

t.test('kill -9 under load: every answer equals that of an engine that lives, and queued requests run', async (t) => {
  const fake = { stepMs: 1, loadMs: 5, mostTokens: 3, mostUntold: 3 };
  const requests = Array.from({ length: 9 }, (_, i) => completion(`${'xyz'[i % 3]}~`, {
    maxTokens: 150 + 40 * i, sampling: { ...sampling, temperature: 1, seed: i }, ...(i === 8 ? { constraint: { kind: 'grammar', grammar: `slow:${'words and '.repeat(30)}` } } : {}),
  }));
  const calm = start(t, fake, { parallel: 3 });
  await calm.engine.ready();
  const expected = await Promise.all(requests.map((request) => whole(calm.engine.complete(request))));
  const { engine, log } = start(t, fake, { parallel: 3 }, { restart: { crashes: 1000 } });
  await engine.ready();
  const answers = requests.map((request) => engine.complete(request));
  const texts = answers.map(whole);
  let done = 0;
  for (const text of texts) void text.then(() => done++, () => done++);
  // Each process gets much further than one with a killing request would.
  for (let read = 0; done < requests.length;) {
    const state = engine.state;
    if (state.state === 'ready' && state.status.tokens > 350 && engine.pid) {
      read++;
      process.kill(engine.pid, 'SIGKILL');
      while (engine.state.state === 'ready') await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (read > 100) throw new Error('no end');
  }
  t.strictSame(await Promise.all(texts), expected);
  t.ok(engine.crashes >= 2, `${engine.crashes} crashes`);
  t.ok(log.some((line) => /SIGKILL/.test(line)));
  t.ok(log.some((line) => /requests go on in the next engine process/.test(line)));
  t.equal(await read(engine.complete(completion('x', { constraint: say('next') }))), 'next');
});

t.test('after a kill, an answer that had begun goes on before requests that waited, though they came earlier', async (t) => {
  const { engine } = start(t, { stepMs: 1 }, { parallel: 1 });
  await engine.ready();
  const order: string[] = [];
  const ask = async (name: string, priority: number, maxTokens: number) => {
    const answer = engine.complete(completion('~', { maxTokens, asker: { client: 'one', priority } }));
    await answer.accepted;
    return { end: whole(answer).then(() => order.push(name)) };
  };
  const all = [await ask('first', 0, 200), await ask('waited', -1, 50), await ask('waited', -1, 50), await ask('began', 0, 300)];
  t.strictSame(order, []);
  while (engine.state.state !== 'ready' || engine.state.status.tokens < 220) await new Promise((resolve) => setTimeout(resolve, 1));
  process.kill(engine.pid!, 'SIGKILL');
  await Promise.all(all.map(({ end }) => end));
  t.strictSame(order, ['first', 'began', 'waited', 'waited']);
});

t.test('the text of a request is released once the engine works on it or its client left, and never twice', async (t) => {
  const { engine } = start(t, { stepMs: 1 }, { parallel: 1 });
  await engine.ready();
  const released: string[] = [];
  const release = (name: string) => (): void => void released.push(name);
  const long = engine.complete(completion('~', { maxTokens: 1900 }), undefined, release('long'));
  await begun(long);
  t.same(released, [], 'another process would have to go on with it');
  const huge = engine.complete(completion('x'.repeat(5_000_000)), undefined, release('huge'));
  t.equal(await code(huge.finished), 'context_length_exceeded');
  t.same(released, ['huge']);
  released.length = 0;
  const controller = new AbortController();
  const waiting = engine.complete(completion('x', { constraint: say('w') }), undefined, release('waiting'));
  const leaving = engine.complete(completion('x'), controller.signal, release('leaving'));
  await Promise.all([waiting.accepted, leaving.accepted]);
  t.same(released, [], 'a crash would send these again');
  controller.abort();
  t.equal(await code(leaving.finished), 'cancelled');
  process.kill(engine.pid!, 'SIGKILL');
  for await (const _ of long) if (engine.crashes > 0) break;
  t.equal(await code(long.finished), 'cancelled');
  t.equal(await read(waiting), 'w');
  t.equal(await code(engine.complete(completion('x'), AbortSignal.abort(), release('late')).finished), 'cancelled');
  await engine.embed({ inputs: ['a'] }, undefined, release('embed'));
  await engine.close();
  t.equal(await code(engine.complete(completion('x'), undefined, release('closed')).finished), 'shutting_down');
  t.same(released.sort(), ['closed', 'embed', 'late', 'leaving', 'long', 'waiting']);
});

t.test('text that a stuck process does not take counts as held until the process is gone, even if its clients left', async (t) => {
  const { engine } = start(t, {}, { parallel: 1 });
  await engine.ready();
  void engine.complete(completion(marks.stuckProcess)).finished.catch(() => {});
  const leaving = new AbortController();
  let released = 0;
  // More than a pipe holds.
  const requests = Array.from({ length: 20 }, () => engine.complete(completion('x'.repeat(1_000_000)), leaving.signal, () => released++));
  leaving.abort();
  t.same(await Promise.all(requests.map(({ finished }) => code(finished))), requests.map(() => 'cancelled'));
  t.ok(released < requests.length);
  process.kill(engine.pid!, 'SIGKILL');
  while (engine.crashes === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(released, requests.length);
});

t.test('a request that kills the engine twice fails alone, and is refused when it is sent again', async (t) => {
  const { engine } = start(t, {}, { parallel: 1 });
  await engine.ready();
  const killer = engine.complete(completion(`x${marks.kill}`));
  const other = engine.complete(completion('x', { constraint: say('fine') }));
  t.equal(await code(killer.finished), 'model_crashed');
  t.equal(await read(other), 'fine');
  const { crashes } = engine;
  t.ok(crashes === 2 || crashes === 3, 'three where both were being prepared at the first');
  t.equal(await code(engine.complete(completion(`x${marks.kill}`, { sampling: { ...sampling, seed: 7 } })).finished), 'request_set_aside');
  t.equal(await code(engine.complete(completion(`y${marks.kill}`)).finished), 'model_crashed');
  t.equal(engine.crashes, crashes + 2);
});

t.test('a text to embed that kills the engine is refused when another client sends it', async (t) => {
  const { engine } = start(t, { pooling: 'mean' }, { parallel: 1 });
  await engine.ready();
  const embed = (client: string) => code(engine.embed({ inputs: [marks.kill], asker: { client, priority: 0 } }));
  t.equal(await embed('one'), 'model_crashed');
  t.equal(await embed('other'), 'request_set_aside');
});

t.test('a text so long that it is not kept is refused, too, and what ran beside it is not', async (t) => {
  const { engine } = start(t, { pooling: 'mean', stepMs: 20 }, { parallel: 2 });
  await engine.ready();
  const long = () => code(engine.embed({ inputs: Array.from({ length: 50_000 }, () => marks.kill.padEnd(100, 'x')) }));
  const beside = () => engine.embed({ inputs: Array.from({ length: 20 }, () => 'some text') });
  for (let tries = 0; tries < 2; tries++) {
    const [other, killer] = await Promise.all([beside(), long()]);
    t.equal(other.vectors.length, 20);
    t.equal(killer, 'model_crashed');
  }
  t.equal(await long(), 'request_set_aside');
  t.equal((await beside()).vectors.length, 20);
});

t.test('requests that run beside a request that kills are unharmed', async (t) => {
  const { engine } = start(t, { stepMs: 1 }, { parallel: 4 });
  await engine.ready();
  const request = (i: number) => completion(`x${i}~`, { maxTokens: 300, sampling: { ...sampling, seed: i } });
  const expected = await Promise.all([1, 2, 3].map((i) => whole(engine.complete(request(i)))));
  const answers = [1, 2, 3].map((i) => engine.complete(request(i)));
  const texts = answers.map(whole);
  await Promise.all(answers.map(({ accepted }) => accepted));
  const killer = engine.complete(completion(`x${marks.kill}`));
  const late = whole(engine.complete(request(1)));
  t.equal(await code(killer.finished), 'model_crashed');
  t.strictSame(await Promise.all(texts), expected);
  t.strictSame(await late, expected[0]);
  t.ok(engine.crashes <= 3);
});

t.test('an answer that cannot resume is generated again, and fails if it comes out differently', async (t) => {
  const { engine } = start(t, { stepMs: 1 }, { parallel: 2 }, { restart: { crashes: 1000 } });
  await engine.ready();
  const request = completion('x~', { maxTokens: 300, sampling: { ...sampling, seed: 1 }, tells: { logprobs: 0 } });
  const expected = await whole(engine.complete(request));
  const answer = engine.complete(request);
  const text = whole(answer);
  while (engine.state.state !== 'ready' || engine.state.status.tokens < 350) await new Promise((resolve) => setTimeout(resolve, 1));
  process.kill(engine.pid!, 'SIGKILL');
  t.strictSame(await text, expected);
});

t.test('an embedding that a crash interrupts is computed again', async (t) => {
  const { engine } = start(t, {}, { parallel: 1 });
  await engine.ready();
  const embedding = engine.embed({ inputs: Array.from({ length: 500 }, () => 'some text') });
  process.kill(engine.pid!, 'SIGKILL');
  t.equal((await embedding).vectors.length, 500);
  t.equal(engine.crashes, 1);
});

t.test('tokens and prompts that a crash interrupts are asked for again', async (t) => {
  const { engine } = start(t, {}, { parallel: 1 });
  await engine.ready();
  const expected = [await engine.tokenize('some text', true, true), await engine.render(chat('Hello'))];
  const tokens = await engine.tokenize('text', false, false);
  const asked = [engine.tokenize('some text', true, true), engine.render(chat('Hello'))];
  const text = engine.detokenize(tokens, true);
  const pieces = engine.pieces(tokens);
  process.kill(engine.pid!, 'SIGKILL');
  t.strictSame(await Promise.all(asked), expected);
  t.equal(await text, 'text');
  t.equal(Buffer.concat(await pieces).toString(), 'text');
  t.equal(engine.crashes, 1);
});

t.test('a text whose tokens kill the engine twice is refused, and no other', async (t) => {
  const { engine } = start(t, { killsTokenizing: true }, { parallel: 1 });
  await engine.ready();
  const tokenize = (text: string) => code(engine.tokenize(text, false, false));
  t.equal(await tokenize(marks.kill), 'model_crashed');
  t.equal(await tokenize(marks.kill), 'request_set_aside');
  t.equal(await tokenize('other'), 'none');
});

t.test('after repeated crashes the engine is held off with a reason, and tried again after a pause', async (t) => {
  const { engine } = start(t, {}, {}, { restart: { crashes: 3, windowMs: 60_000, holdOffMs: 50 } });
  await engine.ready();
  for (let deaths = 1; deaths <= 3; deaths++) {
    await engine.ready();
    process.kill(engine.pid!, 'SIGKILL');
    while (engine.crashes < deaths) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  t.match(engine.state, { state: 'failed', error: { code: 'model_crashed', message: /3 times/ }, retryAtMs: Number });
  t.equal(await code(engine.complete(completion('x')).finished), 'model_crashed');
  while (engine.state.state === 'failed') await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(await read(engine.complete(completion('x', { constraint: say('back') }))), 'back');
});

t.test('many requests that kill the engine, each another, take the model from nobody', async (t) => {
  const { engine } = start(t, {}, {}, { restart: { crashes: 4, windowMs: 60_000, holdOffMs: 60_000 } });
  await engine.ready();
  for (let i = 0; i < 5; i++) t.equal(await code(engine.complete(completion(`${marks.kill}${i}`)).finished), 'model_crashed');
  t.equal(await read(engine.complete(completion('x', { constraint: say('fine') }))), 'fine');
});

t.test('nor from an answer that goes on beside them', async (t) => {
  const { engine } = start(t, { stepMs: 1 }, {}, { restart: { crashes: 2, windowMs: 1, holdOffMs: 60_000 } });
  await engine.ready();
  const answer = engine.complete(completion(marks.endless, { maxTokens: 1900 }));
  await begun(answer);
  for (let i = 0; i < 4; i++) t.equal(await code(engine.complete(completion(`${marks.kill}${i}`)).finished), 'model_crashed');
  t.match(await answer.finished, { finishReason: 'length' });
});

t.test('an engine that dies of all work is held off, whatever text it tokenizes in between', async (t) => {
  const { engine } = start(t, {}, {}, { restart: { crashes: 2, windowMs: 60_000, holdOffMs: 60_000 } });
  await engine.ready();
  for (let i = 0; i < 4; i++) {
    t.equal((await engine.tokenize('text', false, true)).length, 4);
    t.equal(await code(engine.complete(completion(`${marks.kill}${i}`)).finished), 'model_crashed');
  }
  t.match(engine.state, { state: 'failed', error: { code: 'model_crashed', message: /died of 4 different requests in a row/ } });
});

t.test('pauses after crashes do not get longer when the clock is set back', async (t) => {
  const real = [Date.now, performance.now.bind(performance)] as const;
  const aheadMs = [0, 0];
  t.intercept(Date, 'now', { value: () => real[0]() + aheadMs[0]! });
  t.intercept(performance, 'now', { value: () => real[1]() + aheadMs[1]! });
  const { engine } = start(t, {}, { parallel: 1 }, { restart: { crashes: 3, holdOffMs: 1e6 } });
  await engine.ready();
  const killer = async () => await code(engine.complete(completion(marks.kill)).finished);
  t.equal(await killer(), 'model_crashed');
  t.equal(await killer(), 'request_set_aside');
  aheadMs[0] = -86_400_000;
  aheadMs[1] = 11 * 60_000;
  t.equal(await killer(), 'model_crashed', 'the ten minutes of its refusal are over');
  t.not(engine.state.state, 'failed', 'the first two crashes are longer than a minute ago');
});

t.test('an engine that is closed when it reports its failure is not restarted', async (t) => {
  const states: string[] = [];
  const { engine } = start(t, {}, {}, {
    restart: { crashes: 1, holdOffMs: 1 },
    onState: ({ state }) => {
      states.push(state);
      if (state === 'failed') void engine.close(0);
    },
  });
  await engine.ready();
  t.equal(await code(engine.complete(completion(marks.kill)).finished), 'model_crashed');
  await engine.close(0);
  // By then its pause has ended, whatever happens.
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.strictSame(states.slice(-2), ['failed', 'closed']);
  t.match(engine.state, { state: 'closed' });
  t.equal(engine.pid, undefined);
});

t.test('a model that does not load fails with its own code', async (t) => {
  const { engine } = start(t, { loadError: { code: 'invalid_gguf', message: 'not a GGUF file' } });
  t.equal(await code(engine.ready()), 'invalid_gguf');
  t.match(engine.state, { state: 'failed', error: { code: 'invalid_gguf' } });
  t.equal(await code(engine.ready()), 'invalid_gguf');
  t.equal(await code(engine.chat(chat('x')).finished), 'invalid_gguf');
});

t.test('a process that dies while loading is tried once more, then the model is unusable', async (t) => {
  const killFile = join(t.testdir({}), 'kill');
  writeFileSync(killFile, '');
  const second = start(t, { killFile });
  await second.engine.ready();
  t.equal(second.engine.crashes, 1);
  const never = start(t, { killOnLoad: true });
  t.equal(await code(never.engine.ready()), 'model_unusable');
  t.match(never.engine.state, { state: 'failed' });
  // A load that takes longer than the window of the crashes, as of a large model.
  const slow = start(t, { killOnLoad: true }, {}, { restart: { windowMs: 0 } });
  t.equal(await code(slow.engine.ready()), 'model_unusable');
  t.equal(slow.engine.crashes, 2);
});

t.test('an engine of a Recua that was installed since is not used, and the error says so', async (t) => {
  const { engine } = start(t);
  await engine.ready();
  process.env.FAKE_GATEWAY_VERSION = '0.0.1';
  t.teardown(() => delete process.env.FAKE_GATEWAY_VERSION);
  process.kill(engine.pid!, 'SIGKILL');
  while (engine.state.state !== 'failed') await new Promise((resolve) => setTimeout(resolve, 1));
  t.match(engine.state.error, { code: 'model_unusable', message: /^Recua \d.* was installed while 0\.0\.1 runs, .*Restart the server or the program; recua chat --continue goes on with a chat\.$/ });
  t.equal(await code(engine.chat(chat('x')).finished), 'model_unusable');
});

t.test('loads that take long and die one after the other fail the requests that wait', async (t) => {
  const { engine } = start(t, {}, {}, { restart: { windowMs: 0 } });
  await engine.ready();
  process.env.FAKE_ADDON = JSON.stringify({ killOnLoad: true });
  process.kill(engine.pid!, 'SIGKILL');
  t.equal(await code(engine.complete(completion('x')).finished), 'model_crashed');
  t.match(engine.state, { state: 'failed', error: { message: /died 5 times in a row while loading/ } });
});

t.test('close() lets running answers end, and cancels them when the drain time is over', async (t) => {
  const drained = start(t, { stepMs: 1 });
  await drained.engine.ready();
  const short = drained.engine.complete(completion('x', { constraint: say('to the end') }));
  const closing = drained.engine.close(60_000);
  t.equal(await read(short), 'to the end');
  await closing;
  const cut = start(t, { stepMs: 1 });
  await cut.engine.ready();
  const long = cut.engine.complete(completion('~', { maxTokens: 1900 }));
  await begun(long);
  const pid = cut.engine.pid!;
  await cut.engine.close(20);
  t.equal(await code(long.finished), 'shutting_down');
  t.notOk(alive(pid));
});

t.test('close() while loading ends the process', async (t) => {
  const { engine } = start(t, { loadMs: 100_000 });
  const pid = engine.pid!;
  const ready = code(engine.ready());
  await engine.close(0);
  t.equal(await ready, 'shutting_down');
  t.notOk(alive(pid));
});

t.test('the engine process ignores Ctrl-C and the end of the terminal, and finishes its work on SIGTERM', async (t) => {
  const { engine } = start(t, { stepMs: 1 });
  await engine.ready();
  const answer = engine.complete(completion('x', { constraint: say('not cut by a signal') }));
  await begun(engine.complete(completion('~', { maxTokens: 5 })));
  process.kill(engine.pid!, 'SIGINT');
  process.kill(engine.pid!, 'SIGHUP');
  process.kill(engine.pid!, 'SIGTERM');
  t.equal(await read(answer), 'not cut by a signal');
  t.equal(engine.crashes, 0);
});

/** A program with an engine that is in the middle of a step. */
async function startParent(t: Test) {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 5 });
  const parent = spawn(process.execPath, [fileURLToPath(new URL('../parent.js', import.meta.url))], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await once(parent.stdout, 'data')) as [Buffer];
  const pid = Number(line.toString());
  t.teardown(() => {
    parent.kill('SIGKILL');
    if (alive(pid)) process.kill(pid, 'SIGKILL');
  });
  t.ok(alive(pid));
  return { parent, pid };
}

t.test('the engine process dies with its parent, even during a step', async (t) => {
  const { parent, pid } = await startParent(t);
  parent.kill('SIGKILL');
  await gone(pid);
  t.notOk(alive(pid));
});

t.test('an engine process that is stuck ends with the program', { skip: process.platform === 'win32' }, async (t) => {
  const { parent, pid } = await startParent(t);
  process.kill(pid, 'SIGSTOP');
  parent.stdin.end();
  await gone(pid);
  t.notOk(alive(pid));
});

t.test('what the process writes to stdout or stderr is logged, never printed', async (t) => {
  process.env.FAKE_NOISE = '1';
  const { engine, log } = start(t);
  await engine.ready();
  await engine.close();
  delete process.env.FAKE_NOISE;
  t.ok(log.includes('warn noise on stdout'));
});
