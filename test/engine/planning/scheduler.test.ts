import t from 'tap';
import { PrefixCache } from '#recua/engine/planning/prefix.js';
import { Pace } from '#recua/engine/planning/pace.js';
import { isStreaming, joinFromQueue, Plan, planStep, stepsAhead, unread } from '#recua/engine/planning/scheduler.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import { random } from '../requests.js';

const prompt = (length: number, fill = 1) => new Int32Array(length).fill(fill);
function running(length: number, state: 'prefill' | 'decode' = 'prefill') {
  const sequence = new Sequence(prompt(length), 100, 10_000);
  sequence.join(0, 0);
  if (state === 'decode') {
    sequence.advance(length);
    sequence.accept(7, false);
  }
  return sequence;
}
const counts = (plan: Plan) => plan.sequences.map((sequence, i) => [sequence.state, plan.counts[i]]);

t.test('decoding sequences go first, one token each, and prompts get what is left and a row of that pass', async (t) => {
  const plan = new Plan();
  planStep([running(100), running(5, 'decode'), running(100), running(5, 'decode')], 64, 32, plan);
  t.strictSame(counts(plan), [['decode', 1], ['decode', 1], ['prefill', 33]]);
  t.equal(plan.rows, 35);
  planStep([running(100), running(5, 'decode')], 20, 32, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 19]], 'never more than the batch');
});

t.test('short prompts are read whole, a few in each step, not all in pieces', async (t) => {
  const plan = new Plan();
  const prompts = Array.from({ length: 7 }, () => running(29));
  planStep([...prompts, running(5, 'decode')], 512, 96, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 29], ['prefill', 29], ['prefill', 29]], 'the beginning of another is left');
  planStep([...prompts, running(5, 'decode')], 512, 110, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 29], ['prefill', 29], ['prefill', 29], ['prefill', 29]], 'the end of another is read, too');
});

t.test('rows come in the order of their slots, whatever came first', async (t) => {
  const plan = new Plan();
  const slots = [3, 0, 4, 1].map((slot, i) => {
    const sequence = running(5 + i, i === 2 ? 'prefill' : 'decode');
    sequence.slot = slot;
    return sequence;
  });
  planStep(slots, 64, 32, plan);
  t.strictSame(plan.sequences.map(({ slot }) => slot), [0, 1, 3, 4]);
  t.strictSame(counts(plan), [['decode', 1], ['decode', 1], ['decode', 1], ['prefill', 7]]);
});

t.test('steps follow each other while all decode, until the first limit', async (t) => {
  const plan = new Plan();
  const [one, two] = [running(5, 'decode'), running(5, 'decode')];
  planStep([one, two], 64, 32, plan);
  t.equal(stepsAhead(plan, [one, two]), 64);
  for (let i = 0; i < 90; i++) two.accept(7, false);
  t.equal(stepsAhead(plan, [one, two]), 9);
  planStep([one, running(50)], 64, 32, plan);
  t.equal(stepsAhead(plan, [one]), 1, 'a prompt is read beside it');
});

t.test('short prompts and a long one take turns', async (t) => {
  const plan = new Plan();
  const long = running(5000);
  const short = [running(10), running(20), running(300)];
  const next = () => {
    planStep([long, ...short].filter(({ state }) => state === 'prefill'), 512, 64, plan);
    const taken = plan.sequences.map((sequence, i) => [sequence.promptLength, plan.counts[i]]);
    for (const [i, sequence] of plan.sequences.entries()) {
      sequence.advance(plan.counts[i]!);
      if (sequence.pending === 0) sequence.accept(7, false);
    }
    return taken;
  };
  t.strictSame(next(), [[10, 10], [20, 20]]);
  t.strictSame(next(), [[5000, 64]]);
  t.strictSame(next(), [[300, 64]], 'of two long ones the oldest and the shortest');
  t.strictSame(next(), [[5000, 64]]);
  short.push(running(5));
  t.strictSame(next(), [[5, 5]]);
  t.strictSame(next(), [[300, 64]]);
});

t.test('a finished sequence gets nothing', async (t) => {
  const plan = new Plan();
  const cancelled = running(10);
  cancelled.finish();
  planStep([cancelled], 64, 64, plan);
  t.equal(plan.rows, 0);
});

t.test('every plan keeps within its bounds, moves all that decode, and soon the oldest prompt and the shortest', async (t) => {
  const next = random(3);
  const plan = new Plan();
  for (let round = 0; round < 2000; round++) {
    const sequences = Array.from({ length: 1 + Math.floor(next() * 8) }, () => running(1 + Math.floor(next() * 300), next() < 0.5 ? 'decode' : 'prefill'));
    const batchSize = 8 + Math.floor(next() * 200);
    const budget = 8 + Math.floor(next() * 200);
    const prompts = sequences.filter(({ state }) => state === 'prefill');
    const shortest = prompts.filter((one) => prompts.every(({ pending }) => pending >= one.pending));
    const room = batchSize - sequences.length;
    const moved = new Set<Sequence>();
    for (let step = 0; step < 12; step++) {
      const decoding = sequences.filter(({ state }) => state === 'decode').length;
      planStep(sequences, batchSize, budget, plan);
      const total = plan.counts.reduce((sum, count) => sum + count, 0);
      const fits = total === plan.rows && plan.rows <= batchSize && plan.rows - decoding <= (budget + 1) * 9 / 8
        && plan.sequences.every((sequence, i) => plan.counts[i]! >= 1 && plan.counts[i]! <= sequence.pending);
      const all = sequences.every((sequence) => sequence.state === 'prefill' || plan.sequences.includes(sequence));
      const some = room <= 0 || sequences.every(({ state }) => state === 'decode') || plan.rows > decoding;
      if (!fits || !all || !some || new Set(plan.sequences).size !== plan.sequences.length) t.fail(JSON.stringify({ batchSize, budget, counts: plan.counts }));
      for (const [i, sequence] of plan.sequences.entries()) {
        moved.add(sequence);
        sequence.advance(plan.counts[i]!);
        if (sequence.pending === 0) sequence.accept(7, false);
      }
    }
    const soon = prompts.length === 0 || room <= 0 || (moved.has(prompts[0]!) && shortest.some((one) => moved.has(one)));
    if (!soon) t.fail(JSON.stringify({ batchSize, budget, prompts: prompts.map(({ promptLength }) => promptLength) }));
  }
  t.end();
});

/** A pace after such a step: so many prompt tokens beside so many that decode, in milliseconds. */
function note(pace: Pace, tokens: number, decoding: number, ms: number, guesses = 0) {
  const plan = new Plan();
  planStep([...Array.from({ length: decoding }, () => running(5, 'decode')), ...(tokens > 0 ? [running(tokens)] : [])], 5000, 5000, plan);
  pace.note(plan, ms, guesses);
}
function paceOf(tokensPerMs: number) {
  const pace = new Pace();
  if (tokensPerMs > 0) note(pace, 1000, 0, 1000 / tokensPerMs);
  return pace;
}

t.test('the budget is the whole batch without streams, less with them, and follows the measured speed', async (t) => {
  t.equal(paceOf(0).budget(false, 2048, 150), 2048);
  t.equal(paceOf(0).budget(true, 2048, 150), 128);
  t.equal(paceOf(0).budget(true, 64, 150), 64);
  t.equal(paceOf(0.1).budget(true, 2048, 150), 32);
  t.equal(paceOf(1).budget(true, 2048, 150), 128);
  t.equal(paceOf(1).budget(true, 2048, 250), 192, 'whole tiles of 64, not powers of two only');
  t.equal(paceOf(0.2).budget(false, 2048, 150), 192);
  t.equal(paceOf(100).budget(true, 2048, 150), 2048);
  t.equal(paceOf(1).budget(true, 2048, 20), 32, 'fewer tokens would read the weights in vain');
  t.equal(paceOf(10).budget(true, 2048, 20), 192);
  t.equal(paceOf(1).budget(true, 2048, 60_000), 768, 'as without streams');
  t.ok(isStreaming([running(3), running(3, 'decode')]));
  const decided = running(3, 'decode');
  decided.defer(0);
  t.ok(isStreaming([running(3), decided]), 'its next token would wait for the step');
  t.notOk(isStreaming([running(3)]));
});

t.test('what decodes has its part of the time that a stream may wait', async (t) => {
  const pace = paceOf(1);
  note(pace, 0, 4, 100);
  t.equal(pace.decodeMs, 100);
  t.equal(pace.budget(true, 2048, 250), 128);
  note(pace, 128, 4, 228);
  t.equal(pace.tokensPerMs, 1, 'and is no part of the prompt\'s rate');
  note(pace, 0, 4, 900);
  t.equal(pace.budget(true, 2048, 250), 32);
});

t.test('a step with guesses tells nothing of a plain one', (t) => {
  const pace = paceOf(1);
  note(pace, 0, 4, 300, 7);
  t.equal(pace.decodeMs, 0);
  note(pace, 0, 4, 100);
  note(pace, 0, 4, 300, 7);
  t.equal(pace.decodeMs, 100);
  t.equal(pace.stepMs, 300);
  t.end();
});

/** A sequence that decodes, has given so many tokens and has so many to come. */
function ending(toCome: number, given = 1) {
  const sequence = new Sequence(prompt(5), toCome + given, 10_000);
  sequence.join(0, 0);
  sequence.advance(5);
  for (let i = 0; i < given; i++) sequence.accept(7, false);
  return sequence;
}

t.test('a stream is protected when it has begun, and those that begin together are read together', async (t) => {
  const pace = paceOf(0.5);
  note(pace, 0, 4, 50);
  const young = ending(90);
  const rows = () => pace.promptRows([young, running(400)], 2048, 250);
  for (let i = 1; i < 4; i++) young.accept(7, false);
  t.equal(young.generated, 4);
  t.equal(rows(), 400, 'as if nothing ran');
  t.equal(pace.promptRows([young, running(900)], 2048, 250), 384);
  t.equal(paceOf(0).promptRows([young, running(5000)], 2048, 250), 128, 'nobody knows how long more would take');
  young.accept(7, false);
  t.equal(rows(), 64);
});

t.test('prompts wait for the last tokens of what decodes where they lose nothing by it', async (t) => {
  const pace = paceOf(0.5);
  t.equal(pace.promptRows([ending(3, 20), running(600)], 2048, 250), 64, 'a step in which all decode was not seen yet');
  note(pace, 0, 4, 50);
  t.equal(pace.promptRows([ending(3, 20), running(600)], 2048, 250), 0, '150 ms, of 1,200 to read');
  t.equal(pace.promptRows([ending(1, 20), ending(9, 20), running(600)], 2048, 250), 64, 'the last of them takes too long');
  t.equal(pace.promptRows([ending(3, 20), running(200)], 2048, 250), 64, 'of 400 ms it is too much');
  t.equal(pace.promptRows([ending(6, 20), running(6000)], 2048, 250), 64, 'longer than a stream would wait for the prompt');
  t.equal(pace.promptRows([ending(1, 20), running(200)], 2048, 250), 0);
  t.equal(paceOf(0).promptRows([ending(1, 20), running(200)], 2048, 250), 128, 'as long as no speed is known');

  const plan = new Plan();
  planStep([ending(3, 20), running(600)], 2048, 0, plan);
  t.same(counts(plan), [['decode', 1]]);
  planStep([ending(3, 20), running(600)], 2048, 96, plan);
  t.equal(plan.rows, 98);
});

t.test('prompts alone are read to their end where that takes little longer than a step aims at', async (t) => {
  const pace = paceOf(0.5);
  t.equal(pace.promptRows([running(300), running(300)], 2048, 250), 600, '1,200 ms');
  t.equal(pace.promptRows([running(300), running(300)], 512, 250), 512, 'no more than a batch holds');
  t.equal(pace.promptRows([running(300), running(400)], 2048, 250), 384, 'a second of 1,400 ms');
  t.equal(paceOf(0).promptRows([running(3000)], 2048, 250), 2048);
  const read = running(50);
  read.advance(30);
  t.equal(unread([read, running(7), ending(3, 20), new Sequence(prompt(11), 5, 100)]), 20 + 7 + 11);
});

t.test('many short prompts are each behind their own tokens only', async (t) => {
  const pace = new Pace();
  for (const depth of [0, 1000, 2000, 3000]) {
    const prompt = running(depth + 128);
    prompt.advance(depth);
    const plan = new Plan();
    plan.add(prompt, 128);
    pace.note(plan, 128 + depth * 0.128);
  }
  const short = Array.from({ length: 20 }, () => running(50));
  t.ok(Math.abs(pace.unreadMs(short) - 1000) < 100, `${pace.unreadMs(short)} ms`);
  t.equal(pace.promptRows(short, 2048, 250), 1000, 'all at once: a second');
  t.equal(pace.promptRows([running(1000)], 2048, 250), 512, 'one as long takes longer');
});

t.test('less than a tile is read only where that is sooner done, which is tried again later', async (t) => {
  const pace = paceOf(0.2);
  const stream = running(5, 'decode');
  /** A step beside a stream: so many rows of a prompt behind so many. */
  const noteAt = (depth: number, rows: number, ms: number) => {
    const prompt = running(depth + rows);
    prompt.advance(depth);
    const plan = new Plan();
    plan.add(stream, 1);
    plan.add(prompt, rows + 1);
    pace.note(plan, ms);
  };
  note(pace, 0, 1, 10);
  const size = () => pace.budget(true, 2048, 150, 1000);
  noteAt(3000, 64, 660);
  t.equal(size(), 8, 'not known yet: a few rows do not take long');
  noteAt(1000, 8, 86);
  t.equal(size(), 16, 'in proportion');
  for (let i = 0; i < 8; i++) noteAt(1000, 16, 300);
  t.equal(size(), 64, 'a quarter of the rows takes nearly as long');
  let steps = 0;
  for (; size() === 64 && steps < 1000; steps++) noteAt(1000, 64, 400);
  t.ok(steps > 10 && steps < 100, `${steps} steps`);
  t.equal(size(), 8);
});

t.test('the queue is served in order, as far as slots are free', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: true }, 0);
  const waiting = [1, 2, 3].map((fill) => new Sequence(prompt(10, fill), 5, 100));
  const [first, second, third] = waiting;
  t.strictSame([...joinFromQueue(waiting, cache)].map(({ sequence }) => sequence), [first, second]);
  t.strictSame(waiting, [third]);
  t.strictSame([first.state, third.state], ['prefill', 'waiting']);
});

t.test('one that will share a running prefill waits for it, and others pass', async (t) => {
  const cache = new PrefixCache(3, { partial: true, copies: true }, 0);
  const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
  const [leader, follower, other] = [make(1), make(1), make(2)];
  const waiting = [leader, follower, other];
  t.strictSame([...joinFromQueue(waiting, cache)].map(({ sequence }) => sequence), [leader, other]);
  t.strictSame(waiting, [follower]);
  leader.advance(200);
  leader.accept(5, false);
  t.match([...joinFromQueue(waiting, cache)], [{ sequence: follower, placement: { source: leader.slot, reused: 199 } }]);
});

t.test('a prompt that others wait for is read up to what they share, then all ends together', async (t) => {
  const cache = new PrefixCache(4, { partial: true, copies: true }, 0);
  const make = (shared: number, own: number) => {
    const tokens = prompt(shared + 30);
    tokens.fill(own, shared);
    return new Sequence(tokens, 5, 1000);
  };
  const running: Sequence[] = [];
  const plan = new Plan();
  const step = () => {
    for (const { sequence } of joinFromQueue(waiting, cache)) running.push(sequence);
    planStep(running, 2048, 2048, plan);
    for (const [i, sequence] of plan.sequences.entries()) sequence.advance(plan.counts[i]!);
    return plan.sequences.map((sequence, i) => [running.indexOf(sequence), plan.counts[i]]);
  };
  const waiting = [make(300, 2), make(300, 3), make(200, 4)];
  t.strictSame(step(), [[0, 200]], 'the nearest end first');
  t.strictSame(step(), [[0, 100], [1, 30]], 'one joins there, the other still waits');
  t.strictSame(step(), [[0, 30], [2, 30]]);
  t.strictSame(running.map(({ pending }) => pending), [0, 0, 0]);
});

t.test('it waits for one leader only', async (t) => {
  const cache = new PrefixCache(3, { partial: true, copies: true }, 0);
  const make = () => new Sequence(prompt(200), 5, 1000);
  const waiting = [make(), make()];
  const [leader, follower] = waiting;
  for (const joined of joinFromQueue(waiting, cache)) void joined;
  leader.finish();
  cache.release(leader);
  const second = make();
  waiting.unshift(second);
  t.strictSame([...joinFromQueue(waiting, cache)].map(({ sequence }) => sequence), [second, follower]);
});

t.test('conversations that come back together each find their own place', async (t) => {
  const others = (n: number) => [0, 1, 2, 3].filter((i) => i !== n);
  for (const order of [[0, 1, 2, 3], [2, 0, 1, 3], [3, 0, 2, 1], [1, 3, 0, 2], ...[0, 1, 2, 3].map((n) => [n, ...others(n)])]) {
    const cache = new PrefixCache(4, { partial: true, copies: true }, 0);
    const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
    const before = [0, 1, 2, 3].map(make);
    const begun = [...joinFromQueue([...before], cache)].map(({ sequence }) => sequence);
    for (const sequence of begun) {
      sequence.advance(200);
      sequence.finish();
      cache.release(sequence);
    }
    // The first comes alone; the others while it runs.
    const again = order.map(make);
    const joined = [...joinFromQueue(again.splice(0, 1), cache), ...joinFromQueue(again, cache)];
    t.strictSame(joined.map(({ placement: { slot, source, reused } }) => [slot === source, reused]), order.map(() => [true, 199]), order.join());
  }
});

t.test('what a sequence displaces can be put away before the next is placed', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: true }, 1 << 20);
  const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
  for (const { sequence } of joinFromQueue([make(1), make(2)], cache)) {
    sequence.advance(200);
    sequence.finish();
    cache.release(sequence);
  }
  // Three wait for two places, so the first two go in their order: the new one displaces what the
  // second needs.
  const waiting = [make(3), make(1), make(2)];
  let id = 0;
  const reused: number[] = [];
  for (const { placement } of joinFromQueue(waiting, cache)) {
    reused.push(placement.reused);
    if (placement.keep) cache.pool.add({ id: ++id, tokens: placement.keep, sizeBytes: 100 });
  }
  t.strictSame(reused, [0, 199]);
  t.equal(id, 2, 'each displaces what a slot held');
});
