// What `recua cache` lists and clears.
import t from 'tap';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { clearKept, listKept } from '#recua/engine/sleep/kept.js';

t.test('clearing removes unfinished conversations too, and counts those that are finished', async (t) => {
  const root = t.testdir({ a: { model: 'one', '1.kv': 'x', '2.kv.draft': 'y' }, b: { model: 'two', '3.kv.draft': 'z' }, c: { '4.kv': 'no model’s' } });
  t.match(await listKept(root), { length: 1, 0: { id: 'one', conversations: 1 } });
  t.match(await clearKept(root), { length: 1, 0: { id: 'one' } });
  t.same(['a', 'b', 'c'].map((folder) => readdirSync(join(root, folder))), [['model'], ['model'], ['4.kv']]);
});
