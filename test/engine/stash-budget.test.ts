import t from 'tap';
import { shareOfStash, stashBudget } from '#recua/engine/stash-budget.js';

const mib = 2 ** 20;

t.test('a share is a part of the whole, at least an eighth, and no more than is left', (t) => {
  const share = (part: number, taken: number) => shareOfStash(part, taken, 800 * mib);
  t.equal(share(0.5, 0), 400);
  t.equal(share(0.01, 0), 100);
  t.equal(share(2, 0), 800);
  t.equal(share(0.5, 500), 300);
  t.equal(share(0.5, 800), 0);
  t.equal(share(0.5, 900), 0);
  t.end();
});

t.test('one engine gets its setting, or an eighth of the memory', (t) => {
  t.equal(stashBudget(3), 3 * mib);
  t.equal(stashBudget(0), 0);
  t.ok(stashBudget(-1) > 0 && stashBudget(-1) <= 8 * 1024 * mib);
  t.end();
});
