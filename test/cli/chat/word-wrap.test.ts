import t from 'tap';
import xterm from '@xterm/headless';
import stringWidth from 'string-width';
import { WordWrap } from '#recua/cli/chat/word-wrap.js';

const columns = 20;
const text = [
  'A sentence of plain words that is longer than two lines of it.',
  '  indented, with  two spaces\tand a tab',
  'averylongwordthatdoesnotfitonanylineatall and more',
  'exactly twenty chars then exactly twenty char',
  '漢字かな交じり文は幅が二つ分 mixed with words, and e\u0301motions 👩‍👩‍👧‍👧 too',
  '', 'end',
].join('\n');

/** The lines of a screen that showed the pieces as they arrived. */
async function screen(pieces: readonly string[]): Promise<string[]> {
  const terminal = new xterm.Terminal({ cols: columns, rows: 60, allowProposedApi: true });
  const wrap = new WordWrap(() => columns);
  for (const piece of pieces) await new Promise<void>((done) => terminal.write(wrap.push(piece).replaceAll('\n', '\r\n'), done));
  const buffer = terminal.buffer.active;
  const lines = Array.from({ length: buffer.length }, (_, row) => buffer.getLine(row)!);
  t.notOk(lines.some(({ isWrapped }) => isWrapped), 'the terminal itself broke no line');
  terminal.dispose();
  return lines.map((line) => line.translateToString(true).trimEnd());
}

t.test('text breaks between words, wherever its pieces end', async (t) => {
  const whole = await screen([text]);
  t.strictSame(whole.slice(0, 12), [
    'A sentence of plain', 'words that is longer', 'than two lines of', 'it.',
    '  indented, with', 'two spaces      and', 'a tab',
    'averylongwordthatdoe', 'snotfitonanylineatal', 'l and more',
    'exactly twenty chars', 'then exactly twenty',
  ]);
  for (const line of whole) t.ok(stringWidth(line) <= columns, line);
  for (const size of [1, 2, 3, 5, 7, 19, 20, 21]) {
    const letters = [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);
    const pieces = Array.from({ length: Math.ceil(letters.length / size) }, (_, at) => letters.slice(at * size, (at + 1) * size).join(''));
    t.strictSame(await screen(pieces), whole, `pieces of ${size}`);
  }
});

t.test('without a width nothing is added', (t) => {
  const wrap = new WordWrap(() => Infinity);
  t.equal(wrap.push(text) + wrap.push(text), text + text);
  t.end();
});
