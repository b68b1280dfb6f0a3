import t from 'tap';
import { lastWithin, nextCheckpoint, superfluous, type Checkpoint } from '#recua/engine/planning/checkpoints.js';

const at = (...lengths: number[]): Checkpoint[] => lengths.map((length, i) => ({ id: i + 1, length, sizeBytes: 1 }));

t.test('a checkpoint is taken before the end of a prompt if the last one is far', async (t) => {
  t.equal(nextCheckpoint(1000, 0, []), 984);
  t.equal(nextCheckpoint(140, 0, []), 0, 'a short prompt is read again');
  t.equal(nextCheckpoint(144, 0, []), 128);
  t.equal(nextCheckpoint(1100, 1000, at(984)), 0, 'the last is near');
  t.equal(nextCheckpoint(1128, 1000, at(984)), 1112);
  t.equal(nextCheckpoint(1128, 1112, []), 0, 'evaluated already');
});

t.test('the last checkpoint within the common beginning is used', async (t) => {
  t.equal(lastWithin(at(10, 20, 30), 29)!.length, 20);
  t.equal(lastWithin(at(10, 20, 30), 30)!.length, 30);
  t.equal(lastWithin(at(10), 9), undefined);
});

t.test('of too many checkpoints the one between near neighbors goes, never the last', async (t) => {
  t.equal(superfluous(at(1, 2, 3, 4, 5, 6, 7, 8)), undefined);
  t.equal(superfluous(at(100, 200, 300, 310, 320, 500, 600, 700, 800))!.length, 310);
  t.equal(superfluous(at(100, 200, 300, 400, 500, 600, 700, 800, 801))!.length, 800);
  t.equal(superfluous(at(10, 20, 300, 400, 500, 600, 700, 800, 900))!.length, 10);
});
