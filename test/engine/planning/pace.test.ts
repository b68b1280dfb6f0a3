// The pace on machines that are not this one: what a step takes is computed, as llama.cpp on a
// processor goes about it.
import t from 'tap';
import { Pace } from '#recua/engine/planning/pace.js';
import { Plan, planStep } from '#recua/engine/planning/scheduler.js';
import { Sequence } from '#recua/engine/planning/sequence.js';

/**
 * Milliseconds: of a pass over the weights, of a row, and of a row's attention to one earlier
 * token, row by row and in tiles of 64.
 */
interface Machine {
  weights: number;
  row: number;
  byRow: number;
  byTile: number;
}
const machines: Record<string, Machine> = {
  'row by row is ten times as slow as by tiles': { weights: 5, row: 0.7, byRow: 0.0196, byTile: 0.0015 },
  'row by row is hardly slower than by tiles': { weights: 5, row: 0.7, byRow: 0.0045, byTile: 0.0018 },
  'no tiles': { weights: 5, row: 0.7, byRow: 0.002, byTile: 0.002 },
  'a large model': { weights: 100, row: 6, byRow: 0.05, byTile: 0.005 },
  'a graphics card': { weights: 4, row: 0.02, byRow: 0.00002, byTile: 0.00002 },
};

/**
 * Rows of several sequences go in one pass as far as all of them have some: the rest of the longer
 * ones is passes of their own.
 */
function stepMs({ weights, row, byRow, byTile }: Machine, plan: Plan): number {
  let ms = 0;
  let left = plan.sequences.map((sequence, i) => ({ rows: plan.counts[i]!, depth: sequence.evaluated }));
  while (left.length > 0) {
    const rows = Math.min(512, ...left.map((part) => part.rows));
    ms += weights;
    for (const part of left) {
      const attention = rows < 64 ? rows * byRow : Math.ceil(rows / 64) * 64 * byTile;
      ms += rows * row + attention * (part.depth + rows / 2);
      part.rows -= rows;
      part.depth += rows;
    }
    left = left.filter((part) => part.rows > 0);
  }
  return ms;
}

const sequence = (prompt: number, slot: number, toCome = 5000): Sequence => {
  const made = new Sequence(new Int32Array(prompt).fill(1), toCome, 100_000);
  made.join(slot, 0);
  return made;
};

/**
 * Reads prompts beside a stream; gives each step's milliseconds, with what a step of one tile would
 * take there.
 */
function readBeside(machine: Machine, prompts: number[], maxStallMs: number) {
  const pace = new Pace();
  const plan = new Plan();
  const stream = sequence(10, 0);
  const steps: { ms: number; tileMs: number; counts: number[]; ends: boolean }[] = [];
  const running = [stream];
  const step = (): void => {
    planStep(running, 2048, pace.promptRows(running, 2048, maxStallMs), plan, (one, most) => pace.part(one, most, maxStallMs));
    const ms = stepMs(machine, plan);
    pace.note(plan, ms);
    const [deepest] = plan.sequences.filter((one) => one !== stream).sort((a, b) => b.evaluated - a.evaluated);
    const tile = new Plan();
    tile.add(stream, 1);
    if (deepest) tile.add(deepest, 65);
    steps.push({ ms, tileMs: stepMs(machine, tile), counts: [...plan.counts], ends: plan.sequences.some(({ pending }, i) => pending > 1 && pending === plan.counts[i]) });
    for (const [i, one] of plan.sequences.entries()) {
      one.advance(plan.counts[i]!);
      if (one.pending === 0) one.accept(7, false);
    }
  };
  for (let i = 0; i < 20; i++) step();
  running.push(...prompts.map((length, i) => sequence(length, i + 1)));
  steps.length = 0;
  while (running.some(({ state }) => state === 'prefill')) step();
  return steps;
}

for (const [name, machine] of Object.entries(machines)) {
  for (const prompts of [[3000], [2100], [2500, 2600], [4000, 900, 40]]) {
    for (const maxStallMs of [100, 250, 1000]) {
      t.test(`a stream beside ${prompts.join(' and ')} tokens waits no longer than ${maxStallMs} ms, or a tile: ${name}`, (t) => {
        const steps = readBeside(machine, prompts, maxStallMs);
        // The first ones are where the speed becomes known.
        // Two tiles at a prompt's end, where less would be left.
        const late = steps.slice(2).filter(({ ms, tileMs, ends }) => ms > 1.4 * Math.max(maxStallMs, ends ? 2 * tileMs : tileMs));
        t.same(late.map((one) => JSON.stringify(one)), []);
        const whole = new Plan();
        for (const [i, length] of prompts.entries()) whole.add(sequence(length, i + 1), length);
        const all = steps.reduce((sum, { ms }) => sum + ms, 0);
        const own = steps.length * machine.weights * 2;
        t.ok(all - own < 2 * stepMs(machine, whole), `${Math.round(all)} ms, of which ${Math.round(own)} read the weights; with nothing beside it ${Math.round(stepMs(machine, whole))}`);
        t.end();
      });
    }
  }
}

t.test('a prompt is read beside answers whose next token is decided apart, in steps that they can wait for', async (t) => {
  const machine = machines['a large model']!;
  const pace = new Pace();
  const known = sequence(2000, 0);
  const plan = new Plan();
  planStep([known], 2048, 512, plan);
  pace.note(plan, stepMs(machine, plan));
  const decided = sequence(10, 1, 20);
  decided.advance(10);
  for (let i = 0; i < 5; i++) decided.acceptAll(Int32Array.of(1), new Uint8Array(10));
  planStep([decided], 2048, 512, plan);
  pace.note(plan, stepMs(machine, plan));
  decided.defer(1);
  const long = sequence(4000, 2);
  const alone = pace.promptRows([long], 2048, 250);
  const beside = pace.promptRows([decided, long], 2048, 250);
  t.ok(beside > 0 && beside < alone, `${beside} of ${alone} rows`);
});
