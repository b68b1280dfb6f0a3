import t from 'tap';
import { rows, shorten } from '#recua/cli/terminal/rows.js';

t.test('a text is shortened in its middle, by its width on a screen', (t) => {
  t.equal(shorten('/a/short/path', 13), '/a/short/path');
  t.equal(shorten('/home/somebody/models/model.gguf', 16), '/home/s…del.gguf');
  t.equal(shorten('/家/模型/模型/模型.gguf', 16), '/家/模型…型.gguf');
  t.equal(shorten('0123456789abcdefgh', 1), '01234…cdefgh', 'but never to nothing');
  t.end();
});

t.test('a table may have any number of rows', (t) => {
  const count = 200_000;
  t.equal(rows(Array.from({ length: count }, (_, i) => [`m${i}`, 'x']), 80).split('\n').filter(Boolean).length, count);
  t.end();
});

t.test('the last column of a table shrinks on a screen, and nothing does elsewhere', (t) => {
  const cells = [['NAME', 'STATE'], ['owner/a-long-name', `link to /${'x'.repeat(100)}/m.gguf`], ['b', '']];
  const wide = rows(cells, 60).split('\n');
  t.equal(wide[1]!.length, 60);
  t.match(wide[1], /^owner\/a-long-name  link to .*….*m\.gguf$/);
  t.ok(rows(cells, Infinity).includes('x'.repeat(100)));
  t.ok(rows(cells, 10).includes('owner/a-long-name'), 'a name is never cut');
  t.end();
});

t.test('a text that fits is never cut, however little room others have', (t) => {
  t.equal(shorten('STATE', 3), 'STATE');
  t.equal(shorten('embedded', -20), 'embedded');
  const cells = [['NAME', 'SIZE', 'STATE'], ['owner/a-name-of-31-columns-in-all', '1 GiB', 'whole']];
  for (let columns = 1; columns < 60; columns++) t.notMatch(rows(cells, columns), /…/, `${columns} columns`);
  t.end();
});

t.test('a screen too narrow for a row shows its name on a line of its own, and omits empty columns', (t) => {
  const cells = [
    ['NAME', 'QUANTIZATION', 'SIZE', 'ALIAS', 'STATE'],
    ['builtin', 'F16', '2.5 MiB', '', 'embedded'],
    ['owner/a-repository-with-a-very-long-name:Q4_K_M', 'Q4_K_M', '760 MiB', '', ''],
  ];
  t.equal(rows(cells, 60), [
    'NAME',
    '  QUANTIZATION  SIZE     STATE',
    'builtin',
    '  F16           2.5 MiB  embedded',
    'owner/a-repository-with-a-very-long-name:Q4_K_M',
    '  Q4_K_M        760 MiB',
    '',
  ].join('\n'));
  t.match(rows(cells, 120), /ALIAS/, 'with room for it, all is there');
  t.end();
});

t.test('a screen too narrow for the rest of a row uses several lines, and cuts no cell that fits on one', (t) => {
  const cells = [
    ['NAME', 'QUANTIZATION', 'SIZE', 'LAST USED', 'ALIAS', 'STATE'],
    ['owner/gated', 'Q4_0', '0 bytes', 'never', '', '0 % downloaded'],
    ['owner/model', 'F16', '2.29 MiB', '3 minutes ago', 'tiny', ''],
  ];
  t.equal(rows(cells, 50), [
    'NAME',
    '  QUANTIZATION  SIZE      LAST USED      ALIAS',
    '  STATE',
    'owner/gated',
    '  Q4_0          0 bytes   never',
    '  0 % downloaded',
    'owner/model',
    '  F16           2.29 MiB  3 minutes ago  tiny',
    '',
  ].join('\n'));
  for (let columns = 16; columns < 70; columns++) {
    const lines = rows(cells, columns).split('\n');
    t.ok(lines.every((line) => line.length <= columns), `${columns} columns`);
    t.notMatch(lines.join(' '), /…/, `${columns} columns`);
  }
  t.end();
});
