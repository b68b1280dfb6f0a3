// Requests that arrive together, and other work between them.
import t from 'tap';
import { Rounds } from '#recua/server/body/rounds.js';

t.test('one caller passes in each round of the event loop, in order', async (t) => {
  const rounds = new Rounds();
  const seen: (number | 'between')[] = [];
  let over = false;
  const between = (): void => {
    seen.push('between');
    if (!over) setImmediate(between);
  };
  t.equal(rounds.next(), undefined, 'who comes alone waits for nothing');
  setImmediate(between);
  await Promise.all([0, 1, 2, 3].map(async (i) => {
    await rounds.next();
    seen.push(i);
  }));
  over = true;
  t.strictSame(seen.filter((one) => one !== 'between'), [0, 1, 2, 3]);
  for (let i = 0; i < 3; i++) t.ok(seen.slice(seen.indexOf(i), seen.indexOf(i + 1)).includes('between'), `between ${i} and ${i + 1}`);
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(rounds.next(), undefined, 'nor who comes after all of them');
});
