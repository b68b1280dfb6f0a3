import t from 'tap';
import { PrefixCache } from '#recua/engine/planning/prefix.js';
import { isStreaming, joinFromQueue, Plan, planStep, stepsAhead, unread } from '#recua/engine/planning/scheduler.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import type { Costs, Part } from '#recua/engine/planning/step-costs.js';
import { random } from '../requests.js';

const prompt = (length: number, fill = 1) => new Int32Array(length).fill(fill);
function running(length: number, state: 'prefill' | 'decode' = 'prefill') {
  const sequence = new Sequence(prompt(length), 100, 10_000);
  sequence.join(0, 0);
  if (state === 'decode') {
    sequence.advance(length);
    for (let i = 0; i < 5; i++) sequence.accept(7, false);
    sequence.evaluated += 4;
  }
  return sequence;
}
/** Milliseconds of each row and of each step. */
function flat(rowMs: number, weightsMs = 0, known = true): Costs {
  const stepMs = (parts: readonly Part[]) => weightsMs + rowMs * parts.reduce((sum, { rows }) => sum + rows, 0);
  return { known, stepMs, mostMs: stepMs };
}
const counts = (plan: Plan) => plan.sequences.map((sequence, i) => [sequence.state, plan.counts[i]]);

t.test('decoding sequences go first, one token each, and prompts get the rest and a row of that pass', async (t) => {
  const plan = new Plan();
  planStep([running(100), running(5, 'decode'), running(100), running(5, 'decode')], 64, flat(1), 35, plan);
  t.strictSame(counts(plan), [['decode', 1], ['decode', 1], ['prefill', 33]]);
  t.equal(plan.rows, 35);
  planStep([running(100), running(5, 'decode')], 20, flat(1), 35, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 19]], 'never more than the batch');
});

t.test('short prompts are read whole, a few in each step, instead of all in pieces', async (t) => {
  const plan = new Plan();
  const prompts = Array.from({ length: 7 }, () => running(29));
  planStep([...prompts, running(5, 'decode')], 512, flat(1), 97, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 29], ['prefill', 29], ['prefill', 29]], 'the beginning of another is left');
  planStep([...prompts, running(5, 'decode')], 512, flat(1), 117, plan);
  t.strictSame(counts(plan), [['decode', 1], ['prefill', 29], ['prefill', 29], ['prefill', 29], ['prefill', 29]], 'whole ones only');
});

t.test('rows are in the order of their slots, whatever arrived first', async (t) => {
  const plan = new Plan();
  const slots = [3, 0, 4, 1].map((slot, i) => {
    const sequence = running(5 + i, i === 2 ? 'prefill' : 'decode');
    sequence.slot = slot;
    return sequence;
  });
  planStep(slots, 64, flat(1), 35, plan);
  t.strictSame(plan.sequences.map(({ slot }) => slot), [0, 1, 3, 4]);
  t.strictSame(counts(plan), [['decode', 1], ['decode', 1], ['decode', 1], ['prefill', 7]]);
});

t.test('steps follow each other while all sequences decode, until the first limit', async (t) => {
  const plan = new Plan();
  const [one, two] = [running(5, 'decode'), running(5, 'decode')];
  planStep([one, two], 64, flat(1), 35, plan);
  t.equal(stepsAhead(plan, [one, two]), 64);
  for (let i = 0; i < 86; i++) two.accept(7, false);
  t.equal(stepsAhead(plan, [one, two]), 9);
  planStep([one, running(50)], 64, flat(1), 35, plan);
  t.equal(stepsAhead(plan, [one]), 1, 'a prompt is read beside it');
});

t.test('short prompts and a long one take turns', async (t) => {
  const plan = new Plan();
  const long = running(5000);
  const short = [running(10), running(20), running(300)];
  const next = () => {
    planStep([long, ...short].filter(({ state }) => state === 'prefill'), 512, flat(19), 250, plan);
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
  planStep([cancelled], 64, flat(1), 35, plan);
  t.equal(plan.rows, 0);
});

t.test('every plan keeps within its bounds, moves all decoding sequences, and soon the oldest and the shortest prompt', async (t) => {
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
      const begun = sequences.some(({ generated }) => generated > 4);
      planStep(sequences, batchSize, flat(1, 3), budget, plan);
      const total = plan.counts.reduce((sum, count) => sum + count, 0);
      const fits = total === plan.rows && plan.rows <= batchSize && plan.rows - decoding <= (begun ? Math.max(budget, 129) : batchSize)
        && plan.sequences.every((sequence, i) => plan.counts[i]! >= 1 && plan.counts[i]! <= sequence.pending);
      const all = sequences.every((sequence) => sequence.state === 'prefill' || plan.sequences.includes(sequence));
      const some = room <= 0 || sequences.every(({ state }) => state === 'decode') || plan.rows > decoding;
      if (!fits || !all || !some || new Set(plan.sequences).size !== plan.sequences.length)
        t.fail(JSON.stringify({ batchSize, budget, counts: plan.counts }));
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

/** How many prompt rows the next step reads. */
function promptRows(running: readonly Sequence[], costs: Costs, maxStallMs = 250, batchSize = 2048) {
  const plan = new Plan();
  planStep(running, batchSize, costs, maxStallMs, plan);
  return plan.rows - plan.sequences.filter(({ state }) => state === 'decode').length;
}

t.test('beside streams a step reads as much as they can wait for, alone as much as a cancel can', async (t) => {
  const beside = (rowMs: number, weightsMs = 0, maxStallMs = 250) => promptRows([running(5, 'decode'), running(9000)], flat(rowMs, weightsMs), maxStallMs);
  t.equal(beside(1), 193, 'few sizes, and a row of the pass that decodes');
  t.equal(beside(0.99), 193, 'no bound moves with a small change');
  t.equal(beside(0.01), 2047);
  t.equal(beside(1, 100), 129);
  t.equal(beside(6, 100), 65, 'where all is too slow, the least that does not read the weights in vain');
  t.equal(beside(1, 0, 60_000), 1025, 'no longer than alone');
  t.equal(promptRows([running(9000)], flat(1)), 1024);
  t.equal(promptRows([running(600), running(600)], flat(1)), 1200, 'all at once');
  t.equal(promptRows([running(600), running(600)], flat(1), 250, 700), 600, 'no more than a batch holds');
});

t.test('before costs are known, little is read beside streams, and everything without them', async (t) => {
  const unknown = flat(1, 0, false);
  t.equal(promptRows([running(5, 'decode'), running(9000)], unknown, 1000), 128);
  t.equal(promptRows([running(1200)], unknown), 1200);
});

t.test('answers whose next token is decided apart count as streams', async (t) => {
  const decided = running(3, 'decode');
  decided.defer(0);
  t.ok(isStreaming([running(3), decided]), 'its next token would wait for the step');
  t.notOk(isStreaming([running(3)]));
  t.equal(promptRows([decided, running(9000)], flat(1)), 192);
});

/** A decoding sequence with this many tokens generated and this many to come. */
function ending(toCome: number, given = 20) {
  const sequence = new Sequence(prompt(5), toCome + given, 10_000);
  sequence.join(0, 0);
  sequence.advance(5);
  for (let i = 0; i < given; i++) sequence.accept(7, false);
  return sequence;
}

t.test('a stream is protected once it has begun, and streams that begin together are read together', async (t) => {
  t.equal(promptRows([ending(90, 4), running(900)], flat(1)), 900, 'as if nothing ran');
  t.equal(promptRows([ending(90, 5), running(900)], flat(1)), 193);
});

t.test('prompts wait for the last tokens of decoding sequences that end before the prompts could be read', async (t) => {
  const costs = flat(2, 40);
  t.equal(promptRows([ending(3), running(600)], costs), 0, 'three steps, of ten or so');
  t.equal(promptRows([ending(9), running(600)], costs), 97, 'longer than a stream would wait');
  t.equal(promptRows([ending(3), running(60)], costs), 60, 'it joins them sooner');
  t.equal(promptRows([ending(1), running(600)], flat(2, 40, false), 1000), 128, 'as long as no speed is known');
  const read = running(50);
  read.advance(30);
  t.equal(unread([read, running(7), ending(3), new Sequence(prompt(11), 5, 100)]), 20 + 7 + 11);
});

t.test('the queue is served in order, as far as slots are free', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: true }, 0);
  const waiting = [1, 2, 3].map((fill) => new Sequence(prompt(10, fill), 5, 100));
  const [first, second, third] = waiting;
  t.strictSame([...joinFromQueue(waiting, cache)].map(({ sequence }) => sequence), [first, second]);
  t.strictSame(waiting, [third]);
  t.strictSame([first.state, third.state], ['prefill', 'waiting']);
});

t.test('a prompt that will share a running prefill waits for it, and others pass', async (t) => {
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

t.test('others pass however many prompts wait for a running prefill', async (t) => {
  const cache = new PrefixCache(3, { partial: true, copies: true }, 0);
  const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
  const [leader, other] = [make(1), make(2)];
  const waiting = [leader, ...Array.from({ length: 40 }, () => make(1)), other];
  const join = () => [...joinFromQueue(waiting, cache)].map(({ sequence }) => sequence);
  t.strictSame([join(), join(), join()].flat(), [leader, other]);
  leader.advance(200);
  leader.accept(5, false);
  const [next] = waiting;
  t.strictSame(join(), [next], 'they join once they can');
  t.equal(waiting.length, 39);
});

t.test('a prompt that others wait for is read up to the shared part, then all ends together', async (t) => {
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
    planStep(running, 2048, flat(0.1), 250, plan);
    for (const [i, sequence] of plan.sequences.entries()) sequence.advance(plan.counts[i]!);
    return plan.sequences.map((sequence, i) => [running.indexOf(sequence), plan.counts[i]]);
  };
  const waiting = [make(300, 2), make(300, 3), make(200, 4)];
  t.strictSame(step(), [[0, 200]], 'the nearest end first');
  t.strictSame(step(), [[0, 100], [1, 30]], 'one joins there, the other still waits');
  t.strictSame(step(), [[0, 30], [2, 30]]);
  t.strictSame(running.map(({ pending }) => pending), [0, 0, 0]);
});

t.test('a prompt waits for one leader only', async (t) => {
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

t.test('conversations that return together each find their own place', async (t) => {
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
    // The first arrives alone, the others while it runs.
    const again = order.map(make);
    const joined = [...joinFromQueue(again.splice(0, 1), cache), ...joinFromQueue(again, cache)];
    t.strictSame(
      joined.map(({ placement: { slot, source, reused } }) => [slot === source, reused]),
      order.map(() => [true, 199]),
      order.join(),
    );
  }
});

t.test('the contents that a sequence displaces can be put away before the next is placed', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: true }, 1 << 20);
  const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
  for (const { sequence } of joinFromQueue([make(1), make(2)], cache)) {
    sequence.advance(200);
    sequence.finish();
    cache.release(sequence);
  }
  // Three prompts wait for two slots, so the first two go in order: the new one displaces what the
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
