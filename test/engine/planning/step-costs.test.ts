import t from 'tap';
import { StepCosts, type Part } from '#recua/engine/planning/step-costs.js';
import { random } from '../requests.js';
import { machines, stepMs } from './machines.js';

/** Typical steps: some sequences decode after some tokens, often beside a prompt. */
function* steps(count: number, seed: number): Generator<Part[]> {
  const next = random(seed);
  for (let i = 0; i < count; i++) {
    const decoding = Array.from({ length: Math.floor(next() * 9) }, (_, slot) => ({ slot, depth: Math.floor(next() * 3000), rows: 1 }));
    const rows = 2 + Math.floor(2 ** (2 + next() * 8));
    yield decoding.length === 0 || next() < 0.5
      ? [...decoding, { slot: decoding.length, depth: Math.floor(next() * 3000), rows }]
      : decoding;
  }
}

for (const [name, machine] of Object.entries(machines)) {
  t.test(`the time of any step is known after some steps, with noise and outliers: ${name}`, async (t) => {
    const costs = new StepCosts();
    const next = random(7);
    for (const parts of steps(400, 1)) costs.learn(parts, stepMs(machine, parts) * (0.9 + 0.2 * next()) * (next() < 0.01 ? 5 : 1));
    const off = [...steps(200, 2)].map((parts) => Math.abs(costs.stepMs(parts) / stepMs(machine, parts) - 1)).sort((a, b) => a - b);
    t.ok(off[100]! < 0.1, `half of all are off by less than ${off[100]}`);
    t.ok(off[180]! < 0.35, `nine in ten by less than ${off[180]}`);
  });
}

const decode = [{ slot: 0, depth: 100, rows: 1 }];
const prompt = (rows: number, slot = 1) => ({ slot, depth: 100, rows });

t.test('more rows take no less time except for tiles, every cost is positive, and one step sets the scale', async (t) => {
  const costs = new StepCosts();
  t.notOk(costs.known);
  costs.learn([prompt(300)], 3000);
  t.ok(costs.known);
  t.ok(Math.abs(costs.stepMs([prompt(300)]) - 3000) < 300, `${costs.stepMs([prompt(300)])} ms`);
  for (let i = 0; i < 50; i++) costs.learn([prompt(32)], 4000);
  for (let i = 0; i < 50; i++) costs.learn([prompt(64)], 10);
  let before = 0;
  for (let rows = 1; rows <= 2048; rows *= 2) {
    const ms = costs.stepMs([{ slot: 0, depth: 0, rows }]);
    t.ok(ms >= before * 0.95 && ms > 0, `${rows} rows: ${ms} ms`);
    before = ms;
  }
});

t.test('untried sizes count as expensive', async (t) => {
  const costs = new StepCosts();
  for (let i = 0; i < 20; i++) costs.learn(decode, 10);
  t.ok(costs.mostMs([prompt(512)]) > 1.3 * costs.stepMs([prompt(512)]));
  for (let i = 0; i < 20; i++) costs.learn([prompt(512)], 700);
  t.ok(costs.mostMs([prompt(512)]) < 1.1 * costs.stepMs([prompt(512)]));
});

t.test('a program that is busy for one step changes little, a machine that became slower changes all', async (t) => {
  const costs = new StepCosts();
  for (let i = 0; i < 50; i++) costs.learn(decode, 10);
  costs.learn(decode, 1000);
  t.ok(costs.stepMs(decode) < 13, `${costs.stepMs(decode)} ms`);
  for (let i = 0; i < 60; i++) costs.learn(decode, 20);
  t.ok(Math.abs(costs.stepMs(decode) - 20) < 2, `${costs.stepMs(decode)} ms`);
});

t.test('rows of neighbors go together, others apart', async (t) => {
  const costs = new StepCosts();
  for (let i = 0; i < 20; i++) costs.learn(decode, 10);
  const at = (...slots: number[]) => costs.stepMs(slots.map((slot) => ({ slot, depth: 0, rows: 1 })));
  t.ok(at(0, 2) > 1.5 * at(0, 1), `${at(0, 2)} and ${at(0, 1)} ms`);
  t.equal(at(2, 1, 3), at(1, 2, 3), 'in any order');
});

t.test('copies are learned from copies', async (t) => {
  const costs = new StepCosts();
  t.ok(costs.copies.ms(1000) < costs.readMs(1000));
  for (const ms of [0.01, 10, 1000]) {
    costs.learn([{ slot: 0, depth: 0, rows: 14 }], ms);
    t.ok(costs.copies.ms(1000) < costs.readMs(1000) / 8, 'before the first, on any machine');
  }
  const { copies } = new StepCosts();
  const guess = copies.ms(1000);
  copies.measured(100, 50_000);
  t.equal(copies.ms(1000), guess, 'a first one that had to wait does not make copies look useless');
  copies.measured(100, 50);
  copies.measured(0, 1);
  t.equal(copies.ms(1000), 500, 'two tell how slow they are here');
  copies.measured(100, 50_000);
  t.equal(copies.ms(1000), 500, 'one more that had to wait says nothing');
  for (let i = 0; i < 8; i++) copies.measured(100, 60);
  t.equal(copies.ms(1000), 600, 'several say that they are slower now');
  copies.measured(100, 5);
  t.equal(copies.ms(1000), 50, 'a faster one counts at once');
  for (let i = 0; i < 128; i++) copies.leftOut();
  t.ok(copies.ms(1000) < 25, 'after many that were left out, it is tried again');
});

for (const [name, of] of Object.entries({
  'as they come': () => [...steps(60, 3)],
  'of one kind': () => [decode],
  'of two kinds': () => [decode, [prompt(40)]],
})) {
  t.test(`a hundred thousand steps, ${name}, whose times vary by a factor of a hundred, leave it sound`, async (t) => {
    const costs = new StepCosts();
    const next = random(9);
    const kinds = of();
    const asked = [...steps(20, 4)];
    let unsound = '';
    for (let i = 0; i < 100_000 && !unsound; i++) {
      const parts = kinds[i % kinds.length]!;
      const rows = parts.reduce((sum, part) => sum + part.rows, 0);
      costs.learn(parts, (2 + rows) * 10 ** (2 * next() - 1));
      if (i % 100 > 0) continue;
      for (const one of asked) {
        const [ms, most] = [costs.stepMs(one), costs.mostMs(one)];
        if (!(ms > 0 && most >= ms && most < 1e6)) unsound = `after ${i}: ${ms}, at most ${most} ms, of ${JSON.stringify(one)}`;
      }
    }
    t.equal(unsound, '');
  });
}
