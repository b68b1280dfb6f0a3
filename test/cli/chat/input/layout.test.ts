import t from 'tap';
import stringWidth from 'string-width';
import { layOut, windowOf } from '#recua/cli/chat/input/layout.js';

t.test('rows hold what fits, and never split a wide character', async (t) => {
  t.same(layOut('> ', 'abcdef', 6, 5), { rows: ['> abc', 'def'], cursorRow: 1, cursorColumn: 3 });
  t.same(layOut('> ', 'ab日本', 2, 5), { rows: ['> ab', '日本'], cursorRow: 0, cursorColumn: 4 });
  t.same(layOut('> ', 'a\nb', 2, 5), { rows: ['> a', '  b'], cursorRow: 1, cursorColumn: 2 });
  t.same(layOut('> ', 'a\tb', 3, 20).rows, ['> a    b']);
  const mixed = layOut('> ', 'é👩‍👩‍👧日本'.repeat(20), 0, 7);
  t.ok(mixed.rows.every((row) => stringWidth(row) <= 7));
});

t.test('the cursor after a full row is in the next row', async (t) => {
  t.same(layOut('> ', 'abc', 3, 5), { rows: ['> abc', ''], cursorRow: 1, cursorColumn: 0 });
  t.match(layOut('> ', 'abcd', 3, 5), { rows: ['> abc', 'd'], cursorRow: 1, cursorColumn: 0 });
});

t.test('if there are more rows than the screen has, those around the cursor are shown', async (t) => {
  const layout = layOut('> ', Array.from({ length: 10 }, (_, i) => String(i)).join('\n'), 0, 10);
  t.match(windowOf(layout, 3), { rows: ['> 0', '  1', '  2'], cursorRow: 0 });
  t.match(windowOf({ ...layout, cursorRow: 9 }, 3), { rows: ['  7', '  8', '  9'], cursorRow: 2 });
  t.equal(windowOf(layout, 10), layout);
});
