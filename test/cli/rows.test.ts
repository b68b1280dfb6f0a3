import t from 'tap';
import { rows, shorten } from '#recua/cli/rows.js';

t.test('a text is shortened in its middle, by what its letters take on a screen', (t) => {
  t.equal(shorten('/a/short/path', 13), '/a/short/path');
  t.equal(shorten('/home/somebody/models/model.gguf', 16), '/home/s…del.gguf');
  t.equal(shorten('/家/模型/模型/模型.gguf', 16), '/家/模型…型.gguf');
  t.equal(shorten('0123456789abcdefgh', 1), '01234…cdefgh', 'but never to nothing');
  t.end();
});

t.test('the last column of a table gives way on a screen, and nothing does elsewhere', (t) => {
  const cells = [['NAME', 'STATE'], ['owner/a-long-name', `link to /${'x'.repeat(100)}/m.gguf`], ['b', '']];
  const wide = rows(cells, 60).split('\n');
  t.equal(wide[1]!.length, 60);
  t.match(wide[1], /^owner\/a-long-name  link to .*….*m\.gguf$/);
  t.ok(rows(cells, Infinity).includes('x'.repeat(100)));
  t.ok(rows(cells, 10).includes('owner/a-long-name'), 'a name is never cut');
  t.end();
});
