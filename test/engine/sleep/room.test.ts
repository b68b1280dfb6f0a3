import t, { type Test } from 'tap';
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeRoom } from '#recua/engine/sleep/room.js';

/** Files of 100 bytes each, last used in the order of their numbers. */
function files(t: Test) {
  const root = t.testdir({ a: {}, b: {}, owner: 'not counted'.repeat(100) });
  for (const [i, name] of ['a/1.kv', 'b/2.kv', 'a/3.kv', 'b/4.kv'].entries()) {
    writeFileSync(join(root, name), Buffer.alloc(100));
    utimesSync(join(root, name), 1_000 + i, 1_000 + i);
  }
  return { root, names: () => ['a', 'b'].flatMap((folder) => readdirSync(join(root, folder))).sort() };
}

t.test('the oldest files of all models go first, and no more than needed', async (t) => {
  const { root, names } = files(t);
  t.equal(await makeRoom(root, 100, 500), true);
  t.equal(names().length, 4, 'it fits');
  t.equal(await makeRoom(root, 150, 450), true);
  t.strictSame(names(), ['2.kv', '3.kv', '4.kv']);
  t.equal(await makeRoom(root, 0, 199), true);
  t.strictSame(names(), ['4.kv']);
});

t.test('nothing is removed for a file that does not fit, nor files used later', async (t) => {
  const { root, names } = files(t);
  t.equal(await makeRoom(root, 501, 500), false);
  t.equal(await makeRoom(root, 300, 400, 1_002_000), false, 'two are older');
  t.equal(names().length, 4);
  t.equal(await makeRoom(root, 200, 400, 1_002_000), true);
  t.strictSame(names(), ['3.kv', '4.kv']);
});

t.test('the names of models and folders stay, and do not count', async (t) => {
  const { root, names } = files(t);
  writeFileSync(join(root, 'a', 'model'), 'm'.repeat(1000));
  utimesSync(join(root, 'a', 'model'), 1, 1);
  mkdirSync(join(root, 'a', 'folder.kv'));
  utimesSync(join(root, 'a', 'folder.kv'), 1, 1);
  t.equal(await makeRoom(root, 0, 100), true);
  t.strictSame(names(), ['4.kv', 'folder.kv', 'model']);
});
