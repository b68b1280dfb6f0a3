import t from 'tap';
import { writeFileSync } from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { FileStore } from '#recua/server/files/file-store.js';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { everyone } from '#recua/server/kept/owner.js';
import { ownFolder } from '../app-under-test.js';

/** Counts how often what is stored is looked at. */
class WatchedFolder extends KeptFolder {
  looks = 0;

  override async of(name: string): Promise<string> {
    if (name === 'batches') this.looks++;
    return await super.of(name);
  }
}

t.test('many uploads at once do not wait until the files were counted for each of them', async (t) => {
  const kept = new WatchedFolder(ownFolder(t));
  const store = new FileStore(kept, { files: 40, bytes: 2_000, fileBytes: 100 });
  (await store.room('ann', 1)).release();
  const one = kept.looks;
  kept.looks = 0;
  const rooms = await Promise.allSettled(Array.from({ length: 50 }, (_, index) => store.room(index % 2 === 0 ? 'ann' : 'bob', 1)));
  t.ok(kept.looks <= 2 * one, `${kept.looks} looks, ${one} for one upload`);
  const given = rooms.flatMap((room) => (room.status === 'fulfilled' ? [room.value] : []));
  t.equal(given.length, 40, 'and no two get the same room');
  for (const room of given) room.release();
  t.equal((await store.room('ann', 1)).bytes, 100);
});

t.test('an upload reads the descriptions of new files only, and counts what other servers add, delete and let expire', async (t) => {
  const folder = ownFolder(t);
  const store = new FileStore(new KeptFolder(folder), { files: 40, bytes: 20_000, fileBytes: 20_000 });
  const other = new FileStore(new KeptFolder(folder));
  const add = async (more: { expires_at?: number } = {}) => {
    const draft = await other.draft();
    writeFileSync(draft.path, 'x'.repeat(100));
    return await other.publish(draft, { filename: 'a', purpose: 'batch', by: 'ann', ...more });
  };
  const { open } = fs;
  let opened = 0;
  fs.open = async (...given) => {
    opened++;
    return await open(...given);
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
  const left = async (): Promise<[number, number]> => {
    opened = 0;
    const room = await store.room('ann');
    room.release();
    return [room.bytes, opened];
  };
  const files = [await add(), await add(), await add({ expires_at: Math.floor(Date.now() / 1_000) + 1_000 })];
  t.strictSame(await left(), [9_700, 3]);
  t.strictSame(await left(), [9_700, 0]);
  await add();
  t.strictSame(await left(), [9_600, 1], 'added by another');
  await other.remove(files[0]!.id, everyone);
  t.strictSame(await left(), [9_700, 0], 'deleted by another');
  const { now } = Date;
  Date.now = () => now() + 2_000_000;
  t.teardown(() => { Date.now = now; });
  t.equal((await left())[0], 9_800, 'expired');
});

t.test('what cannot be counted is an error of all that wait, and not of later ones', async (t) => {
  const kept = new WatchedFolder(ownFolder(t));
  const store = new FileStore(kept);
  let isBroken = true;
  const { of } = kept;
  kept.of = async (name) => {
    if (isBroken) throw new Error('unplugged');
    return await of.call(kept, name);
  };
  const rooms = await Promise.allSettled([store.room('ann'), store.room(undefined), store.room('bob')]);
  t.strictSame(rooms.map(({ status }) => status), ['rejected', 'rejected', 'rejected']);
  isBroken = false;
  await store.room('ann');
});

t.test('many requests for the list of files share one reading, and see what was stored before they came', async (t) => {
  const folder = ownFolder(t);
  let reads = 0;
  const kept = new (class extends KeptFolder {
    override async of(name: string): Promise<string> {
      if (name === 'files') reads++;
      return await super.of(name);
    }
  })(folder);
  const store = new FileStore(kept);
  const add = async (filename: string): Promise<void> => {
    const draft = await store.draft();
    writeFileSync(draft.path, 'x');
    await store.publish(draft, { filename, purpose: 'batch', by: undefined });
  };
  await add('a');
  const first = store.list(everyone);
  await add('b');
  reads = 0;
  const lists = await Promise.all(Array.from({ length: 50 }, () => store.list(everyone)));
  t.ok(reads <= 2, `${reads} readings`);
  t.ok((await first).length >= 1);
  for (const list of lists) t.equal(list.length, 2);
  await add('c');
  t.equal((await store.list(everyone)).length, 3);
});
