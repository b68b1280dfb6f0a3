// What a person sees of an answer's Markdown on an emulated terminal: whole and in pieces, on small
// or resized screens, and from a hostile model.
import t from 'tap';
import fc from 'fast-check';
import stringWidth from 'string-width';
import { fenceOpening, readLine } from '#recua/cli/markdown/lines.js';
import { makeLooks } from '#recua/cli/markdown/looks.js';
import { rendered, Screen } from './screen.js';

const text = `# Title of *it*

A paragraph with **bold text**, *slanted*, \`code\`, ~~old~~ and a [link](https://example.org/a) that is longer than the line.
\\(x\\) is kept, 2*3*4 and snake_case_name too.

- one
- two with **more** and quite some more text to wrap it on the next line
  - nested
  1. first
- [ ] todo
- [x] done

> quoted text that goes on and on and on and on and on and on and on
> - item

| Name | Value | Note |
|------|------:|:----:|
| a | 1 | short |
| long name of it | 20000 | a longer note that does not fit into what there is |

\`\`\`python
def f(x):
    """doc
    string"""
    return x + 1  # comment
\`\`\`

***
a | b is no table
漢字かな交じり文は、幅が二つ分あるので、途中で折り返される。e\u0301motions 👩‍👩‍👧‍👧 too
end`;

const shown = [
  'Title of it', '', 'A paragraph with bold text, slanted, code, old and', 'a link (https://example.org/a) that is longer than', 'the line.',
  '\\(x\\) is kept, 2*3*4 and snake_case_name too.', '',
  '• one', '• two with more and quite some more text to wrap', '  it on the next line', '  • nested', '  1. first', '☐ todo', '☑ done', '',
  '│ quoted text that goes on and on and on and on', '│ and on and on and on', '│ • item', '',
  'Name            │ Value │           Note', '────────────────┼───────┼─────────────────────────', 'a               │     1 │          short',
  'long name of it │ 20000 │ a longer note that does', '                │       │ not fit into what there', '                │       │            is', '',
  `── python ${'─'.repeat(40)}`, 'def f(x):', '    """doc', '    string"""', '    return x + 1  # comment', '─'.repeat(50), '', '─'.repeat(50), 'a | b is no table',
  '漢字かな交じり文は、幅が二つ分あるので、途中で折り', '返される。e\u0301motions 👩‍👩‍👧‍👧 too', 'end',
];

t.test('Markdown is laid out the same wherever its pieces end', async (t) => {
  t.strictSame(await rendered(text, { columns: 50 }), shown);
  for (const size of [1, 2, 3, 5, 7, 20]) t.strictSame(await rendered(text, { columns: 50, size }), shown, `pieces of ${size}`);
});

t.test('a line of any length is classified in one pass', (t) => {
  const plainLooks = makeLooks(false);
  const count = 100_000;
  for (const line of [`${'~'.repeat(count)}\``, `\`${'\`'.repeat(count)} \``, `~~~${' '.repeat(count)}\``, `# ${' '.repeat(count)}x\u2028y`, `# x${' #'.repeat(count)}y`]) {
    const read = readLine(line, false, plainLooks);
    t.equal(read.kind, 'text');
    t.notOk(fenceOpening.test(line));
  }
  t.match(readLine('## A title  ##  ', false, plainLooks), { text: 'A title' });
  t.match(readLine('# ##', false, plainLooks), { text: '##' });
  t.strictSame([...fenceOpening.exec('  ~~~~ js extra')!].slice(1), ['  ', '~~~~', 'js']);
  t.end();
});

t.test('styles and colors match the kind of text', async (t) => {
  const screen = new Screen({ columns: 50 });
  screen.push(text, 3);
  screen.end();
  t.match(await screen.look('Title'), { bold: true, underline: true });
  t.match(await screen.look('bold text'), { bold: true, italic: false });
  t.match(await screen.look('slanted'), { bold: false, italic: true });
  t.match(await screen.look('old and'), { strike: true });
  t.match(await screen.look('link ('), { underline: true });
  t.match(await screen.look('(https'), { dim: true, underline: false });
  t.match(await screen.look('code, old'), { color: 6 });
  t.match(await screen.look('def f'), { color: 5 }, 'a keyword');
  t.match(await screen.look('string"""'), { color: 2 }, 'a string goes on over its lines');
  t.match(await screen.look('# comment'), { color: 8 });
  t.match(await screen.look('end'), { bold: false, italic: false, underline: false, dim: false, strike: false, color: -1 });
});

t.test('code is colored under each name of its language; a word that is none stays plain', async (t) => {
  const keywords = { js: 'let', jsx: 'let', mjs: 'let', cjs: 'let', JavaScript: 'let', ts: 'let', py: 'def', 'c#': 'class', console: 'if', golang: 'func' };
  for (const [name, keyword] of Object.entries(keywords)) {
    const screen = new Screen();
    screen.push(`\`\`\`${name}\n${keyword} xs\n\`\`\`\n`);
    screen.end();
    t.match(await screen.look(`${keyword} xs`), { color: 5 }, name);
  }
  for (const name of ['constructor', 'toString', '__proto__', 'madeup']) {
    const screen = new Screen();
    screen.push(`\`\`\`${name}\nlet xs\n\`\`\`\n`);
    screen.end();
    t.match(await screen.look('let xs'), { color: -1 }, name);
  }
});

t.test('without styles the Markdown marks stay, and no escape sequence changes the look', async (t) => {
  const screen = new Screen({ styles: false });
  screen.push('## Big *one*\n\nA **bold** and `coded` ~~word~~, [here](http://a.b).\n```js\nlet a;\n```\n', 4);
  screen.end();
  t.strictSame(await screen.lines(), ['## Big *one*', '', 'A **bold** and `coded` ~~word~~, here (http://a.b).', `── js ${'─'.repeat(66)}`, 'let a;', '─'.repeat(72)]);
  t.notMatch(screen.bytes, /\x1b\[[\d;]*m/);
});

t.test('text appears as soon as it arrives, styled from the first letter on', async (t) => {
  const screen = new Screen();
  screen.push('Some **bol');
  t.strictSame(await screen.lines(), ['Some bol']);
  t.match(await screen.look('bol'), { bold: true });
  screen.push('d** and `co');
  t.strictSame(await screen.lines(), ['Some bold and co']);
  screen.push('de` and [a link](http://exam');
  t.strictSame(await screen.lines(), ['Some bold and code and a link (http://exam)']);
  screen.push('ple.org).\n\n| a | b |\n|---|---|\n| 1 | tw');
  t.strictSame((await screen.lines()).slice(2), ['a │ b', '──┼───', '1 │ tw']);
  screen.push('o |\n```sh\nls -');
  t.strictSame((await screen.lines()).slice(6), ['ls -']);
});

t.test('a line that only grows is only appended to: nothing is drawn twice', async (t) => {
  const screen = new Screen({ columns: 40 });
  screen.push('a plain line of words without any marks that is broken twice or so, by its words', 1);
  screen.end();
  t.notMatch(screen.bytes, /\x1b\[\d*[AJ]/, 'no row above is touched');
  t.ok(screen.bytes.length < 200, `${screen.bytes.length} bytes`);
});

t.test('a table without leading bars is one in any pieces', async (t) => {
  const table = 'Name | Age\n---|---\nAnna Maria | 30\nBo | 41\nno more';
  const whole = await rendered(table, { columns: 40 });
  t.strictSame(whole, ['Name       │ Age', '───────────┼────', 'Anna Maria │ 30', 'Bo         │ 41', 'no more']);
  for (const piece of [1, 3, 6]) {
    const screen = new Screen({ columns: 40 });
    screen.push(table, piece);
    screen.end();
    t.strictSame(await screen.lines(), whole, `pieces of ${piece}`);
  }
});

t.test('text that has scrolled away is never redrawn', async (t) => {
  const rows = Array.from({ length: 60 }, (_, at) => `| ${at} | ${'x'.repeat(at % 7 + 1)} |`).join('\n');
  const screen = new Screen({ columns: 30, rows: 10 });
  screen.push(`| n | text |\n|---|---|\n${rows}\n\n${'word '.repeat(200)}**bold** end`, 5);
  screen.end();
  const lines = await screen.lines();
  const numbers = lines.filter((line) => /^\d+ +│/.test(line)).map((line) => Number.parseInt(line, 10));
  t.strictSame(numbers, Array.from({ length: 60 }, (_, at) => at), 'each row once');
  t.equal(lines.join(' ').match(/\bword\b/g)!.length, 200, 'each word once');
  t.match(lines.at(-1), /bold end$/);
  for (const [, up] of screen.bytes.matchAll(/\x1b\[(\d+)A/g)) t.ok(Number(up) < 10, 'the cursor stays on the screen');
});

t.test('a table wider than the screen is narrowed, and one with many columns becomes a list', async (t) => {
  const wide = `| a | b |\n|---|---|\n| ${'long '.repeat(30)}| ${'words '.repeat(30)}|`;
  const lines = await rendered(wide, { columns: 40 });
  t.ok(lines.every((line) => stringWidth(line) <= 40), lines.join('\n'));
  t.equal(lines.join(' ').match(/long/g)!.length, 30);
  const many = `|${' h |'.repeat(12)}\n|${'---|'.repeat(12)}\n|${' value of it |'.repeat(12)}`;
  t.strictSame(await rendered(many, { columns: 20, size: 3 }), Array.from({ length: 12 }, () => 'h: value of it'));
  t.strictSame(await rendered('| a | b |\n|---|\n| 1 | 2 |', { size: 2 }), ['| a | b |', '|---|', '| 1 | 2 |'], 'what is no table is text');
});

t.test('a short row of many columns takes no lines for what it lacks', async (t) => {
  const names = Array.from({ length: 100 }, (_, at) => `n${at}`);
  const table = `${names.join('|')}\n${'-|'.repeat(100)}\n${'x|y\n'.repeat(30)}`;
  t.strictSame((await rendered(table, { columns: 80, size: 3 })).slice(0, 5), ['n0: x', 'n1: y', '', 'n0: x', 'n1: y']);
});

t.test('a table of many cells keeps its widths, however tall the screen is', async (t) => {
  const row = (last: string) => `${'x|'.repeat(24)}${last}\n`;
  const table = `${row('n')}${'-|'.repeat(25)}\n${row('x').repeat(79)}${row('eight letters')}`;
  const lines = await rendered(table, { columns: 300, rows: 200 });
  t.match(lines[80], /x {3} │ x$/);
  t.match(lines.slice(-4), [/│ eigh$/, /│ t$/, /│ lett$/, /│ ers$/]);
});

t.test('a table row taller than the screen is shown whole', async (t) => {
  const words = Array.from({ length: 40 }, (_, at) => `word${at}`).join(' ');
  const lines = await rendered(`| a | b |\n|---|---|\n| ${words} | x |\n| y | ${words} |\n`, { columns: 20, rows: 6, size: 3 });
  const found = lines.map((line) => line.split('│')[0]!.trim()).join(' ');
  t.match(found, new RegExp(words.replaceAll(' ', '\\s+')));
});

t.test('resizing the window during an answer loses no word, and touches nothing above', async (t) => {
  const words = Array.from({ length: 120 }, (_, at) => `word${at}`);
  for (const [first, second] of [[80, 30], [30, 80], [80, 20]]) {
    const screen = new Screen({ columns: first });
    screen.push('before\n\n');
    screen.push(words.slice(0, 40).join(' '), 3);
    await screen.resize(second!, 24);
    const { length } = screen.bytes;
    screen.push(` ${words.slice(40).join(' ')}\n\nafter **it**\n\n| a |\n|---|\n| b`, 3);
    await screen.resize(first!, 24);
    screen.push('c |\nend', 3);
    screen.end();
    const all = (await screen.lines()).join('\n');
    t.equal(all.match(/before/g)!.length, 1);
    // Text that a terminal may have cut off is shown again.
    const found = all.replaceAll(/\s/g, '');
    for (const word of words) t.ok(found.includes(word), word);
    t.ok(found.length < words.join('').length + 120, 'no more than part of a row twice');
    t.match(all, /after it[^]*end$/);
    t.notMatch(screen.bytes.slice(length, length + 40), /\x1b\[\d*A/);
  }
});

t.test('no row is wider than a screen of 20 columns, in any script', async (t) => {
  const screen = new Screen({ columns: 20 });
  screen.push(text.replaceAll('end', '🎉'.repeat(15)), 2);
  screen.end();
  t.notOk(await screen.breaks(), 'the terminal itself broke no row');
});

t.test('letters that terminals show in different widths leave no traces when a row is redrawn', async (t) => {
  const screen = new Screen({ columns: 30 });
  for (const piece of ['👩‍👩‍👧‍👧 and ❤️ [a link](htt', 'p://a.b) end', ' of it\n| 🇩🇪 | b |\n|--', '-|---|\n| x | a longer cell |']) screen.push(piece, 2);
  screen.end();
  t.strictSame((await screen.lines()).map((line) => line.replaceAll(/ {2,}/g, ' ')), ['👩‍👩‍👧‍👧 and ❤️ a link', '(http://a.b) end of it', '🇩🇪 │ b', '───┼──────────────', 'x │ a longer cell']);
});

t.test('a message during an answer gets its own row, and the answer continues below', async (t) => {
  const screen = new Screen({ columns: 30 });
  screen.push('some words **and mo', 2);
  screen.say('a warning');
  screen.push('re** of them\nend', 2);
  screen.end();
  t.strictSame(await screen.lines(), ['some words and mo', 'a warning', 're of them', 'end']);
});

t.test('an unclosed code block ends with the answer; one in a quote or an item stays in it', async (t) => {
  t.strictSame(await rendered('```js\nlet a = **b**', { columns: 10 }), ['── js ────', 'let a = **', 'b**', '──────────']);
  t.strictSame((await rendered('- x\n  ```\n  a\n    b\n  ```\n- y', { size: 1 })).filter((line) => !line.startsWith('─')), ['• x', 'a', '  b', '• y']);
  t.strictSame((await rendered('> ```\n> a\nb', { size: 1 })).filter((line) => !line.startsWith('─')), ['a', 'b']);
  t.strictSame((await rendered('````\n```\n````\nb', { size: 1 })).filter((line) => !line.startsWith('─')), ['```', 'b'], 'a longer fence holds a shorter one');
});

t.test('a long answer of any shape costs no more per letter than a short one', async (t) => {
  const shapes = {
    'one line': 'lorem ipsum **dolor** sit ', stars: '*', 'open emphasis': '**a ', brackets: '[a](', links: '[a](b) ', backquotes: '`', letters: 'x', 'wide letters': '漢',
    lines: 'a line of *text*\n', code: '```js\nconst a = "text"; // comment\n```\n', quotes: '> ', pipes: '|',
  };
  const time = (text: string, head = '') => {
    const screen = new Screen({ columns: 100 });
    const begun = performance.now();
    screen.push(head + text, 1_000);
    screen.end();
    t.ok(screen.bytes.length < 12 * text.length + 10_000, `${head}${text.slice(0, 10)}: ${screen.bytes.length} bytes`);
    return performance.now() - begun;
  };
  for (const [shape, unit] of Object.entries(shapes)) {
    const ms = time(unit.repeat(60_000 / unit.length));
    t.ok(ms < 20_000, `${shape}: ${Math.round(ms)} ms`);
  }
  t.ok(time('| 1 | **2** |\n'.repeat(2_000), '| a | b |\n|---|---|\n') < 20_000, 'rows of a table');
  t.ok(time('const a = "text"; // comment\n'.repeat(2_000), '```js\n') < 20_000, 'an endless block of code');
});

t.test('any text in any pieces throws nothing, and shows every word once', async (t) => {
  const part = fc.constantFrom('word1 ', '**', '*', '_', '`', '```', '\n', '\n\n', '| ', '|---|\n', '# ', '- ', '> ', '1. ', '  ', '[a](b', ')', '~~', '\\', '漢字', '👩‍👩‍👧‍👧', '<br>', '&amp;', '---\n', '\t');
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 2, max: 60 }),
      async (parts, size, columns) => {
        const whole = parts.join('');
        const screen = new Screen({ columns, rows: 12 });
        screen.push(whole, size);
        screen.end();
        if (columns < 12) return;
        const seen = (await screen.lines()).join('');
        const count = (given: string) => given.match(/word1/g)?.length ?? 0;
        // The name of a language is shortened; a table omits cells without a column head.
        if (!/[`|]/.test(whole)) t.equal(count(seen.replaceAll(/[\s│]/g, '')), count(whole), JSON.stringify(whole));
      },
    ),
    { numRuns: 300 },
  );
});
