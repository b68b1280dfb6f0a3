import t from 'tap';
import { appendFileSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LineCounts } from '#recua/server/batches/line-counts.js';
import { ownFolder } from '../app-under-test.js';

t.test('lines are counted as they are added, and none twice', async (t) => {
  const path = join(ownFolder(t), 'results');
  const counts = new LineCounts();
  t.equal(await counts.of(path), 0, 'nothing is written yet');
  writeFileSync(path, 'a\nb\nhalf');
  t.strictSame(await Promise.all([counts.of(path), counts.of(path)]), [2, 2]);
  appendFileSync(path, ' whole\n');
  t.equal(await counts.of(path), 3);
  appendFileSync(path, `${'x'.repeat(3 * 2 ** 20)}\n\n`);
  t.equal(await counts.of(path), 5);
  truncateSync(path, 2);
  t.equal(await counts.of(path), 1, 'it was cut off');
  rmSync(path);
  mkdirSync(path);
  t.equal(await counts.of(path), 0);
});

t.test('what was counted is not read again', async (t) => {
  const path = join(ownFolder(t), 'results');
  const counts = new LineCounts();
  writeFileSync(path, 'a\n');
  t.equal(await counts.of(path), 1);
  // The same bytes as far as anybody may tell from outside.
  writeFileSync(path, '\n\nb\n');
  t.equal(await counts.of(path), 2, 'the first two bytes count as one line');
});
