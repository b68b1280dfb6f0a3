import t from 'tap';
import { PrefixCache, type Memory, type Placement } from '#recua/engine/prefix.js';
import { Sequence } from '#recua/engine/sequence.js';

const plain: Memory = { partial: true, copies: true };
const words = (...parts: [fill: number, length: number][]) => Int32Array.from(parts.flatMap(([fill, length]) => Array<number>(length).fill(fill)));
const sequenceOf = (tokens: Int32Array) => new Sequence(tokens, 10, 100_000);

/** Runs a prompt to its end; its KV stays. Returns where it was placed. */
function run(cache: PrefixCache, tokens: Int32Array): Placement {
  const sequence = sequenceOf(tokens);
  const placement = cache.place(sequence) as Placement;
  cache.take(placement, sequence);
  sequence.advance(sequence.pending);
  cache.release(sequence);
  return placement;
}

t.test('a prompt that continues a kept conversation takes its slot', async (t) => {
  const cache = new PrefixCache(3, { ...plain });
  const first = run(cache, words([1, 500]));
  run(cache, words([2, 50]));
  t.strictSame(run(cache, words([1, 500], [3, 20])), { slot: first.slot, source: first.slot, reused: 500, held: 500 });
});

t.test('the last prompt token is always evaluated anew', async (t) => {
  const cache = new PrefixCache(1, { ...plain });
  run(cache, words([1, 100]));
  t.match(run(cache, words([1, 100])), { reused: 99, held: 100 });
});

t.test('a short unrelated request leaves the long conversation alone while another slot is cheaper', async (t) => {
  const cache = new PrefixCache(2, { ...plain });
  const long = run(cache, words([1, 2000]));
  for (let i = 0; i < 20; i++) t.not(run(cache, words([10 + i, 30])).slot, long.slot);
  t.match(run(cache, words([1, 2000], [2, 5])), { slot: long.slot, reused: 2000 });
});

t.test('a long conversation that nobody goes on with is not kept for ever', async (t) => {
  const cache = new PrefixCache(2, { ...plain });
  const long = run(cache, words([1, 2000]));
  let evicted = false;
  for (let i = 0; i < 200 && !evicted; i++) evicted = run(cache, words([10 + i, 30])).slot === long.slot;
  t.ok(evicted);
});

t.test('a side request that shares a system prompt copies it and keeps the conversation', async (t) => {
  const cache = new PrefixCache(2, { ...plain });
  const conversation = run(cache, words([1, 300], [2, 1000]));
  const side = run(cache, words([1, 300], [3, 40]));
  t.match(side, { source: conversation.slot, reused: 300, held: 0 });
  t.not(side.slot, conversation.slot);
});

t.test('a running sequence gives what it has evaluated, and is never evicted', async (t) => {
  const cache = new PrefixCache(2, { ...plain });
  const runner = sequenceOf(words([1, 100], [2, 100]));
  cache.take(cache.place(runner) as Placement, runner);
  runner.advance(150);
  const placement = cache.place(sequenceOf(words([1, 100], [2, 20], [3, 10])));
  t.match(placement, { source: runner.slot, reused: 120 });
  t.not((placement as Placement).slot, runner.slot);
});

t.test('a few words in common are not worth a copy', async (t) => {
  const cache = new PrefixCache(2, { ...plain });
  run(cache, words([1, 10], [2, 300]));
  t.match(run(cache, words([1, 10], [3, 300])), { source: -1, reused: 0, held: 0 });
});

t.test('memory without copies reuses in place only, and not at the price of much more', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: false });
  const long = run(cache, words([1, 100], [2, 2000]));
  t.match(run(cache, words([1, 100], [3, 50])), { source: -1, reused: 0, held: 0 });
  t.match(run(cache, words([1, 100], [2, 2000], [4, 9])), { slot: long.slot, source: long.slot, reused: 2100 });
});

t.test('memory that holds one state goes on from a whole sequence or not at all', async (t) => {
  const cache = new PrefixCache(2, { partial: false, copies: true });
  const first = run(cache, words([1, 200]));
  t.match(run(cache, words([1, 199], [2, 50])), { reused: 0, source: -1 });
  t.match(run(cache, words([1, 200])), { reused: 0 });
  t.match(run(cache, words([1, 200], [2, 50])), { slot: first.slot, reused: 200 });
});

t.test('only the owner may release a slot', async (t) => {
  const cache = new PrefixCache(1, { ...plain });
  const sequence = sequenceOf(words([1, 20]));
  cache.take(cache.place(sequence) as Placement, sequence);
  cache.release(sequence);
  t.throws(() => cache.release(sequence), /does not own/);
});
