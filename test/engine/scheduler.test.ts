import t from 'tap';
import { PrefixCache } from '#recua/engine/prefix.js';
import { isStreaming, joinFromQueue, Plan, planStep, prefillBudget, stepsAhead } from '#recua/engine/scheduler.js';
import { Sequence } from '#recua/engine/sequence.js';
import { random } from './requests.js';

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

t.test('decoding sequences go first, one token each, and prompts share what is left', async (t) => {
  const plan = new Plan();
  planStep([running(100), running(5, 'decode'), running(100), running(5, 'decode')], 64, 32, plan);
  t.strictSame(counts(plan), [['decode', 1], ['decode', 1], ['prefill', 24], ['prefill', 8]]);
  t.equal(plan.rows, 34);
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

t.test('a short prompt is not stuck behind a long one', async (t) => {
  const plan = new Plan();
  planStep([running(5000), running(10)], 512, 64, plan);
  t.strictSame(plan.counts, [54, 10]);
});

t.test('a finished sequence gets nothing', async (t) => {
  const plan = new Plan();
  const cancelled = running(10);
  cancelled.finish();
  planStep([cancelled], 64, 64, plan);
  t.equal(plan.rows, 0);
});

t.test('every plan keeps within its bounds and moves every sequence', async (t) => {
  const next = random(3);
  const plan = new Plan();
  for (let round = 0; round < 2000; round++) {
    const sequences = Array.from({ length: 1 + Math.floor(next() * 8) }, () => running(1 + Math.floor(next() * 300), next() < 0.5 ? 'decode' : 'prefill'));
    const batchSize = 8 + Math.floor(next() * 200);
    const budget = 8 + Math.floor(next() * 200);
    planStep(sequences, batchSize, budget, plan);
    const decoding = sequences.filter(({ state }) => state === 'decode').length;
    const total = plan.counts.reduce((sum, count) => sum + count, 0);
    const fits = total === plan.rows && plan.rows <= batchSize && plan.rows - decoding <= budget
      && plan.sequences.every((sequence, i) => plan.counts[i] >= 1 && plan.counts[i] <= sequence.pending);
    if (!fits || plan.sequences.length !== sequences.length) t.fail(JSON.stringify({ batchSize, budget, counts: plan.counts }));
  }
  t.end();
});

t.test('the budget is the whole batch without streams, less with them, and follows the measured speed', async (t) => {
  t.equal(prefillBudget(false, 0, 2048, 150), 2048);
  t.equal(prefillBudget(true, 0, 2048, 150), 256);
  t.equal(prefillBudget(true, 0, 64, 150), 64);
  t.equal(prefillBudget(true, 0.1, 2048, 150), 32);
  t.equal(prefillBudget(true, 1, 2048, 150), 128);
  t.equal(prefillBudget(false, 0.2, 2048, 150), 128);
  t.equal(prefillBudget(true, 100, 2048, 150), 2048);
  t.equal(prefillBudget(true, 1, 2048, 20), 32, 'fewer tokens would read the weights in vain');
  t.equal(prefillBudget(true, 10, 2048, 20), 128);
  t.equal(prefillBudget(true, 1, 2048, 60_000), 512, 'as without streams');
  t.ok(isStreaming([running(3), running(3, 'decode')]));
  t.notOk(isStreaming([running(3)]));
});

t.test('the queue is served in order, as far as slots are free', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: true }, 0);
  const waiting = [1, 2, 3].map((fill) => new Sequence(prompt(10, fill), 5, 100));
  const [first, second, third] = waiting;
  t.strictSame(joinFromQueue(waiting, cache).map(({ sequence }) => sequence), [first, second]);
  t.strictSame(waiting, [third]);
  t.strictSame([first.state, third.state], ['prefill', 'waiting']);
});

t.test('one that will share a running prefill waits for it, and others pass', async (t) => {
  const cache = new PrefixCache(3, { partial: true, copies: true }, 0);
  const make = (fill: number) => new Sequence(prompt(200, fill), 5, 1000);
  const [leader, follower, other] = [make(1), make(1), make(2)];
  const waiting = [leader, follower, other];
  t.strictSame(joinFromQueue(waiting, cache).map(({ sequence }) => sequence), [leader, other]);
  t.strictSame(waiting, [follower]);
  leader.advance(200);
  leader.accept(5, false);
  t.match(joinFromQueue(waiting, cache), [{ sequence: follower, placement: { source: leader.slot, reused: 199 } }]);
});

t.test('it waits for one leader only', async (t) => {
  const cache = new PrefixCache(3, { partial: true, copies: true }, 0);
  const make = () => new Sequence(prompt(200), 5, 1000);
  const waiting = [make(), make()];
  const [leader, follower] = waiting;
  joinFromQueue(waiting, cache);
  leader.finish();
  cache.release(leader);
  const second = make();
  waiting.unshift(second);
  t.strictSame(joinFromQueue(waiting, cache).map(({ sequence }) => sequence), [second, follower]);
});
