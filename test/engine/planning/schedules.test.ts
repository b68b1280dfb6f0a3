// Schedules on machines that are not this one, beside those of a planner that knows the true costs.
import t from 'tap';
import { planStep } from '#recua/engine/planning/scheduler.js';
import { StepCosts, type Part } from '#recua/engine/planning/step-costs.js';
import { beginAt, loads, machines, simulate, stepMs, type Outcome, type Planner } from './machines.js';

const batchSize = 2048;
const maxStallMs = 250;

/** Where learned speeds give less than 0.97 of what the same planner does with the true ones. */
const less: Record<string, number> = {
  '64 prompts at once: two cores, 135m (docs/design/scheduling.md)': 0.94,
  'short prompts beside a long one: a slow laptop': 0.96,
};

for (const [name, machine] of Object.entries(machines)) {
  const trueMs = (parts: readonly Part[]) => stepMs(machine, parts);
  const knowing: Planner = { plan: (running, plan) => planStep(running, batchSize, { known: true, stepMs: trueMs, mostMs: trueMs }, maxStallMs, plan) };
  for (const [load, conversations] of Object.entries(loads)) {
    t.test(`${load}: ${name}`, async (t) => {
      const costs = new StepCosts();
      const learning: Planner = { plan: (running, plan) => planStep(running, batchSize, costs, maxStallMs, plan), took: (parts, ms) => costs.learn(parts, ms) };
      const best = simulate(machine, conversations, knowing);
      const found = simulate(machine, conversations, learning, 5, knowing);
      const late = found.steps.filter(({ beside, ms, leastMs }) => beside && ms > 1.5 * Math.max(maxStallMs, leastMs));
      t.same(late.map(({ ms, leastMs, parts }) => JSON.stringify({ ms, leastMs, parts })), [], 'gaps');
      const work = ({ steps }: Outcome) => steps.reduce((sum, { atMs, ms }) => sum + (atMs >= beginAt * machine.pass[0][1] ? ms : 0), 0);
      const throughput = work(best) / work(found);
      t.ok(throughput > (less[`${load}: ${name}`] ?? 0.97), `${throughput.toFixed(3)} of the best throughput`);
      if (!load.startsWith('a long prompt')) return;
      const first = found.firstTokenMs.at(-1)!.at(-1)! / best.firstTokenMs.at(-1)!.at(-1)!;
      t.ok(first < 1.25, `the long prompt's first token after ${first.toFixed(3)} of the least time`);
    });
  }
}
