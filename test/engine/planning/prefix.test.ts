import t from 'tap';
import { displaces, type Placement } from '#recua/engine/planning/placement.js';
import { PrefixCache, type Memory } from '#recua/engine/planning/prefix.js';
import { StepCosts } from '#recua/engine/planning/step-costs.js';
import { nearlyBegins } from '#recua/engine/planning/stash-pool.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import { counted } from '../counted-tokens.js';

const plain: Memory = { partial: true, copies: true };
const words = (...parts: [fill: number, length: number][]) =>
  Int32Array.from(parts.flatMap(([fill, length]) => Array<number>(length).fill(fill)));
const sequenceOf = (tokens: Int32Array) => new Sequence(tokens, 10, 100_000);

/** Runs a prompt to its end; its KV stays. Returns its slot. */
function run(cache: PrefixCache, tokens: Int32Array): Placement {
  const sequence = sequenceOf(tokens);
  const placement = cache.place(sequence) as Placement;
  cache.take(placement, sequence);
  sequence.advance(sequence.pending);
  cache.release(sequence);
  return placement;
}

t.test('a prompt that continues a kept conversation takes its slot', async (t) => {
  const cache = new PrefixCache(3, { ...plain }, 0);
  const first = run(cache, words([1, 500]));
  run(cache, words([2, 50]));
  t.strictSame(run(cache, words([1, 500], [3, 20])), {
    slot: first.slot,
    source: first.slot,
    stash: 0,
    reused: 500,
    held: 500,
    keep: undefined,
  });
});

t.test('use tells running slots from kept ones', (t) => {
  const cache = new PrefixCache(3, { ...plain }, 0);
  t.strictSame(cache.use, { used: 0, kept: 0 });
  run(cache, words([1, 500]));
  t.strictSame(cache.use, { used: 0, kept: 500 });
  const next = sequenceOf(words([2, 50]));
  cache.take(cache.place(next) as Placement, next);
  next.advance(20);
  t.strictSame(cache.use, { used: 20, kept: 500 });
  t.end();
});

t.test('the last prompt token is always evaluated again', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 0);
  run(cache, words([1, 100]));
  t.match(run(cache, words([1, 100])), { reused: 99, held: 100 });
});

t.test('a slot that is overwritten keeps the part of the beginning it already holds', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 1e9);
  run(cache, words([1, 6], [2, 200]));
  const next = run(cache, words([1, 6], [3, 30]));
  t.match(next, { slot: 0, source: 0, reused: 6, held: 206 });
  t.equal(next.keep?.length, 206, 'the conversation is kept, for it is a loss');
  t.ok(displaces(next));
  t.notOk(displaces(run(cache, words([1, 6], [3, 30], [4, 5]))), 'but not by one that goes on');
  t.match(run(new PrefixCache(1, { partial: false, copies: true }, 0), words([1, 6], [3, 30])), { reused: 0 });
});

t.test('a conversation is stashed if reading it again takes longer than copying it out and back', async (t) => {
  // As measured on a GPU (1 billion parameters): 512 rows in 12 ms; 2,500 tokens leave it in 45 ms.
  for (const [copyMs, kept] of [[45, undefined], [5, 2500]] as const) {
    const costs = new StepCosts();
    for (let i = 0; i < 20; i++) costs.learn([{ slot: 0, depth: 0, rows: 512 }], 12);
    for (let i = 0; i < 2; i++) costs.stashes.measured(2500, copyMs);
    const cache = new PrefixCache(1, { ...plain }, 1e9, costs);
    run(cache, words([1, 2500]));
    t.equal(run(cache, words([2, 100])).keep?.length, kept, `${copyMs} ms`);
    for (let i = 0; i < 300; i++) run(cache, words([i, 2500]));
    t.ok(costs.stashes.ms(2500) < 45, 'a slow copy is tried again some day');
  }
});

t.test('a conversation that gives its slot to a restored one takes its checkpoints along', async (t) => {
  const cache = new PrefixCache(1, { partial: false, copies: true }, 1e9);
  t.equal(cache.displace(0), undefined, 'there is none');
  const sequence = sequenceOf(words([1, 500]));
  cache.take(cache.place(sequence) as Placement, sequence);
  sequence.advance(300);
  cache.addCheckpoint(sequence, 7, 1_000);
  sequence.advance(200);
  cache.release(sequence);
  t.match(cache.displace(0), { tokens: { length: 500 }, checkpoints: [{ id: 7, length: 300 }] });
  cache.adopt(0, words([2, 10]));
  t.strictSame(cache.dropped, [], 'they are not dropped with the slot');
});

t.test('a short unrelated request leaves the long conversation alone while another slot is cheaper', async (t) => {
  const cache = new PrefixCache(2, { ...plain }, 0);
  const long = run(cache, words([1, 2000]));
  for (let i = 0; i < 20; i++) t.not(run(cache, words([10 + i, 30])).slot, long.slot);
  t.match(run(cache, words([1, 2000], [2, 5])), { slot: long.slot, reused: 2000 });
});

t.test('a long conversation that is never continued is not kept forever', async (t) => {
  const cache = new PrefixCache(2, { ...plain }, 0);
  const long = run(cache, words([1, 2000]));
  let evicted = false;
  for (let i = 0; i < 200 && !evicted; i++) evicted = run(cache, words([10 + i, 30])).slot === long.slot;
  t.ok(evicted);
});

t.test('a side request that shares a system prompt copies it and keeps the conversation', async (t) => {
  const cache = new PrefixCache(2, { ...plain }, 0);
  const conversation = run(cache, words([1, 300], [2, 1000]));
  const side = run(cache, words([1, 300], [3, 40]));
  t.match(side, { source: conversation.slot, reused: 300, held: 0 });
  t.not(side.slot, conversation.slot);
});

t.test('a running sequence shares what it has evaluated, and is never evicted', async (t) => {
  const cache = new PrefixCache(2, { ...plain }, 0);
  const runner = sequenceOf(words([1, 100], [2, 100]));
  cache.take(cache.place(runner) as Placement, runner);
  runner.advance(150);
  const placement = cache.place(sequenceOf(words([1, 100], [2, 20], [3, 10])));
  t.match(placement, { source: runner.slot, reused: 120 });
  t.not((placement as Placement).slot, runner.slot);
});

t.test('a few common words are not worth a copy', async (t) => {
  const cache = new PrefixCache(2, { ...plain }, 0);
  run(cache, words([1, 10], [2, 300]));
  t.match(run(cache, words([1, 10], [3, 300])), { source: -1, reused: 0, held: 0 });
});

t.test('memory without copies reuses in place only, and not at a much higher cost', async (t) => {
  const cache = new PrefixCache(2, { partial: true, copies: false }, 0);
  const long = run(cache, words([1, 100], [2, 2000]));
  t.match(run(cache, words([1, 100], [3, 50])), { source: -1, reused: 0, held: 0 });
  t.match(run(cache, words([1, 100], [2, 2000], [4, 9])), { slot: long.slot, source: long.slot, reused: 2100 });
});

t.test('memory that holds one state continues from a whole sequence or not at all', async (t) => {
  const cache = new PrefixCache(2, { partial: false, copies: true }, 0);
  const first = run(cache, words([1, 200]));
  t.match(run(cache, words([1, 199], [2, 50])), { reused: 0, source: -1 });
  t.match(run(cache, words([1, 200])), { reused: 0 });
  t.match(run(cache, words([1, 200], [2, 50])), { slot: first.slot, reused: 200 });
});

t.test('only the owner may release a slot', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 0);
  const sequence = sequenceOf(words([1, 20]));
  cache.take(cache.place(sequence) as Placement, sequence);
  cache.release(sequence);
  t.throws(() => cache.release(sequence), /does not own/);
});

t.test('running sequences stay neighbors: gaps first, then the edges', async (t) => {
  const cache = new PrefixCache(6, { ...plain }, 0);
  const start = (fill: number) => {
    const sequence = sequenceOf(words([fill, 30]));
    cache.take(cache.place(sequence) as Placement, sequence);
    sequence.advance(30);
    return sequence;
  };
  const all = [1, 2, 3, 4].map(start);
  const slots = all.map(({ slot }) => slot).sort();
  t.equal(slots[3]! - slots[0]!, 3);
  const middle = all.find(({ slot }) => slot === slots[1])!;
  cache.release(middle);
  t.match(cache.straighten(), { to: slots[1], held: 30 });
  t.equal(start(5).slot, slots[1]);
  t.equal(cache.straighten(), undefined);
});

t.test('a gap is closed from the end that moves less, and its contents are stashed', async (t) => {
  const cache = new PrefixCache(3, { ...plain }, 1_000_000);
  const all = [[1, 300], [2, 200], [3, 100]].map(([fill, length]) => {
    const sequence = sequenceOf(words([fill!, length!]));
    cache.take(cache.place(sequence) as Placement, sequence);
    sequence.advance(length!);
    return sequence;
  });
  const [, middle, ...ends] = all.sort((a, b) => a.slot - b.slot);
  cache.release(middle!);
  const move = cache.straighten()!;
  t.equal(move.sequence.length, Math.min(all[0]!.length, ends[0]!.length));
  t.strictSame(move.keep, middle!.tokens.slice(0, middle!.evaluated));
  const from = move.sequence.slot;
  cache.moved(move);
  t.equal(move.sequence.slot, move.to);
  t.equal(cache.held(from), 0);
  t.equal(cache.straighten(), undefined);
});

t.test('a conversation whose last tokens changed is still the beginning of its continuation', async (t) => {
  t.ok(nearlyBegins(words([1, 100], [2, 4]), words([1, 100], [3, 30])));
  t.notOk(nearlyBegins(words([1, 100], [2, 10]), words([1, 100], [3, 30])), 'more than a sixteenth');
  t.notOk(nearlyBegins(words([1, 2000], [2, 65]), words([1, 2000], [3, 99])), 'more than 64');
  t.notOk(nearlyBegins(words([1, 15]), words([1, 14])), 'a short one counts whole');
});

t.test('of several stashes, the one that holds most of the prompt is taken', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 1_000_000);
  cache.pool.add({ id: 1, tokens: words([1, 500], [2, 4]), sizeBytes: 1 });
  cache.pool.add({ id: 2, tokens: words([1, 500], [3, 12]), sizeBytes: 1 });
  t.match(cache.place(sequenceOf(words([1, 500], [3, 20]))), { stash: 2, reused: 512 });
  t.match(cache.place(sequenceOf(words([1, 500], [2, 20]))), { stash: 1, reused: 504 });
});

t.test('a prompt waits for a stash whose bytes are in a file, and takes it once they are read', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 1_000);
  const asleep = { id: 0, tokens: words([1, 200]), sizeBytes: 1e9, file: 'one.kv' };
  cache.pool.addFiles([asleep]);
  t.match(cache.place(sequenceOf(words([2, 200]))), { stash: 0, reused: 0 }, 'others do not');
  t.equal(cache.pool.wanted.size, 0);
  const prompt = sequenceOf(words([1, 200], [3, 5]));
  t.equal(cache.place(prompt), 'wait');
  t.strictSame([...cache.pool.wanted], [asleep]);
  asleep.id = 5;
  const placement = cache.place(prompt) as Placement;
  t.match(placement, { stash: 5, source: -1, reused: 200 });
  cache.take(placement, prompt);
  t.ok(cache.pool.leaveToFile(5));
  t.notOk(cache.pool.leaveToFile(5), 'only once');
  prompt.advance(5);
  cache.release(prompt);
  t.match(run(cache, words([1, 200], [3, 5], [4, 2])), { stash: 0, source: 0, reused: 205 }, 'the slot has it now');
  t.strictSame(cache.pool.add({ id: 6, tokens: words([7, 9]), sizeBytes: 900 }), [], 'files do not count as memory');
  t.match(cache.pool.add({ id: 7, tokens: words([8, 9]), sizeBytes: 900 }), [{ id: 6 }], 'and make no room there');
  t.match(cache.pool.add({ id: 8, tokens: words([1, 200], [3, 5]), sizeBytes: 900 }), [{ id: 7 }], 'what goes on from a file does not replace it yet');
  t.match(cache.pool.entries, [{ file: 'one.kv' }, { id: 8 }]);
});

t.test('a stash is found again, unless a slot gives as much', async (t) => {
  const cache = new PrefixCache(1, { ...plain }, 1_000_000);
  run(cache, words([1, 200]));
  const other = cache.place(sequenceOf(words([2, 90]))) as Placement;
  t.strictSame(other.keep, words([1, 200]));
  t.strictSame(cache.pool.add({ id: 7, tokens: other.keep!, sizeBytes: 200 * 1000 }), []);
  run(cache, words([2, 90]));
  t.match(cache.place(sequenceOf(words([1, 200], [3, 5]))), { stash: 7, source: -1, reused: 200, held: 90 });
  t.match(cache.place(sequenceOf(words([2, 90], [3, 5]))), { stash: 0, source: 0, reused: 90 });
  t.match(cache.pool.add({ id: 8, tokens: words([1, 200], [3, 5]), sizeBytes: 205 * 1000 }), [{ id: 7 }], 'its beginning is dropped');
  t.match(cache.pool.add({ id: 9, tokens: words([4, 900]), sizeBytes: 900 * 1000 }), [{ id: 8 }], 'the older one has to leave');
});

t.test('a prompt is compared with few of thousands of conversations that begin like it', (t) => {
  const cache = new PrefixCache(2, { ...plain }, 1e9);
  const reads = { count: 0 };
  cache.pool.addFiles(Array.from({ length: 1000 }, (_, i) => (
    { id: 0, tokens: counted(new Int32Array(10_100).fill(1).fill(i + 5, 10_000), reads), sizeBytes: 1e6, file: `${i}` }
  )));
  t.equal(cache.place(sequenceOf(words([1, 10_000], [900, 100], [4, 100]))), 'wait');
  t.ok(cache.pool.wanted.has(cache.pool.entries[895]!), 'for the one that it continues');
  cache.adopt(0, words([1, 10_000], [2, 100]));
  cache.adopt(1, words([1, 10_000], [3, 100]));
  reads.count = 0;
  t.match(cache.place(sequenceOf(words([1, 10_000], [4, 100]))), { stash: 0, reused: 10_000 });
  t.ok(reads.count < 100_000, `${reads.count} tokens were looked at`);
  t.end();
});

t.test('a salted prefix is shared under the same salt only, and kept nowhere else', (t) => {
  const salted = (tokens: Int32Array, salt: string) => new Sequence(tokens, 10, 100_000, false, salt);
  const through = (cache: PrefixCache, sequence: Sequence): Placement => {
    const placement = cache.place(sequence) as Placement;
    cache.take(placement, sequence);
    sequence.advance(sequence.pending);
    cache.release(sequence);
    return placement;
  };
  const prompt = words([1, 500]);
  const longer = words([1, 500], [3, 20]);
  for (const [first, second, reused] of [['ann', 'ann', 500], ['ann', '', 0], ['', 'ann', 0], ['ann', 'bob', 0], ['', '', 500]] as const) {
    const cache = new PrefixCache(3, { ...plain }, 1e9);
    through(cache, salted(prompt, first));
    t.equal(through(cache, salted(longer, second)).reused, reused, `"${first}" and "${second}" one after the other`);
    const only = new PrefixCache(1, { ...plain }, 1e9);
    through(only, salted(prompt, first));
    const { keep, reused: inPlace } = through(only, salted(longer, second));
    t.equal(inPlace, reused, 'also in the only slot');
    t.equal(keep?.length, first === '' && second !== '' ? 500 : undefined, 'what has a salt goes to no stash');
    const busy = new PrefixCache(3, { ...plain }, 1e9);
    const running = salted(prompt, first);
    busy.take(busy.place(running) as Placement, running);
    running.advance(100);
    t.equal(busy.place(salted(longer, second)) === 'wait', reused > 0, 'while the first is read');
  }
  const cache = new PrefixCache(2, { ...plain }, 1e9);
  through(cache, salted(prompt, 'ann'));
  t.strictSame([cache.latestFree(), cache.freeByUse(), cache.freeWithTokens().length], [-1, [], 1], 'nor to a file, and it can be forgotten');
  cache.pool.add({ id: 7, tokens: words([2, 500]), sizeBytes: 500 });
  t.match(cache.place(salted(words([2, 500], [3, 9]), 'ann')), { reused: 0, stash: 0 });
  t.match(cache.place(salted(words([2, 500], [3, 9]), '')), { reused: 500, stash: 7 });
  t.end();
});

t.test('one slow copy does not end sharing with running sequences', (t) => {
  const costs = new StepCosts();
  for (let i = 0; i < 20; i++) costs.learn([{ slot: 0, depth: 0, rows: 512 }], 60);
  const cache = new PrefixCache(2, { ...plain }, 0, costs);
  const running = sequenceOf(words([1, 500], [2, 20]));
  cache.take(cache.place(running) as Placement, running);
  running.advance(running.pending);
  // Another program had the processor.
  costs.copies.measured(500, 300);
  const shares = (): boolean => {
    const { source } = run(cache, words([1, 500], [3, 20]));
    cache.adopt(1, new Int32Array(0));
    return source === 0;
  };
  t.ok(shares(), 'nor does the first one');
  for (let i = 0; i < 8; i++) costs.copies.measured(500, 300);
  t.notOk(shares(), 'many do');
  let prompts = 1;
  while (prompts < 1_000 && !shares()) prompts++;
  t.ok(prompts < 300, `${prompts} prompts were read`);
  costs.copies.measured(500, 300);
  const known = costs.copies.ms(500);
  for (let i = 0; i < 100; i++) run(cache, words([1, 20], [i + 5, 300]));
  t.equal(costs.copies.ms(500), known, 'prompts that share little are no reason to copy');
  t.end();
});
