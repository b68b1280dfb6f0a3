import t from 'tap';
import type { NativeContext } from '#recua/addon/addon.js';
import { Admission } from '#recua/engine/loop/admission.js';
import type { Placement } from '#recua/engine/planning/placement.js';
import { PrefixCache } from '#recua/engine/planning/prefix.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import { StepCosts } from '#recua/engine/planning/step-costs.js';

t.test('a checkpoint that alone exceeds the room for all takes the place of none', async (t) => {
  const sizes = [900, 1_100, 100];
  const dropped: number[] = [];
  let made = 0;
  const context = {
    checkpointSequence: async (_sequence: number, mostBytes = Infinity) => {
      const sizeBytes = sizes.shift()!;
      return { id: sizeBytes > mostBytes ? 0 : ++made, sizeBytes };
    },
    dropStash: async (id: number) => dropped.push(id) > 0,
  } as unknown as NativeContext;
  const cache = new PrefixCache(3, { partial: false, copies: true }, 4_000);
  t.equal(cache.checkpointBytes, 1_000);
  const admission = new Admission(context, cache, new StepCosts(), () => {});
  for (let word = 1; word <= 3; word++) {
    const sequence = new Sequence(new Int32Array(500).fill(word), 10, 100_000, false);
    cache.take(cache.place(sequence) as Placement, sequence);
    sequence.advance(sequence.checkpointAt);
    await admission.takeCheckpoints([sequence]);
  }
  t.equal(made, 2);
  t.strictSame(dropped, []);
});
