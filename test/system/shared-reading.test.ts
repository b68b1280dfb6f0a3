import t from 'tap';
import { SharedReading } from '#recua/system/shared-reading.js';

t.test('all who ask during a reading share the next one', async (t) => {
  const ends: ((error?: Error) => void)[] = [];
  const reading = new SharedReading(() => new Promise<number>((resolve, reject) => {
    const number = ends.length;
    ends.push((error) => (error ? reject(error) : resolve(number)));
  }));
  const first = reading.get();
  const others = [reading.get(), reading.get(), reading.get()];
  t.equal(ends.length, 1);
  ends[0]!();
  t.equal(await first, 0);
  await new Promise(setImmediate);
  t.equal(ends.length, 2);
  const late = reading.get();
  ends[1]!();
  t.strictSame(await Promise.all(others), [1, 1, 1]);
  await new Promise(setImmediate);
  ends[2]!();
  t.equal(await late, 2);
});

t.test('a reading that fails is an error of those who share it, and not of later ones', async (t) => {
  let isBroken = true;
  const reading = new SharedReading(async () => {
    await new Promise(setImmediate);
    if (isBroken) throw new Error('unplugged');
    return 1;
  });
  const first = reading.get();
  const second = reading.get();
  await t.rejects(first, { message: 'unplugged' });
  isBroken = false;
  t.equal(await second, 1);
  t.equal(await reading.get(), 1);
});
