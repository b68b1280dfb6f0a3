// Rows of text in columns, without borders or escape codes; wide characters count for what they take on a terminal.
import Table from 'cli-table3';
import stringWidth from 'string-width';
import { plain } from './wording.js';

/** Narrower than that a cell says too little to be worth its line. */
const leastRoom = 12;

/** A text without its middle, where it takes more columns than there are: ends tell paths apart. */
export function shorten(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  const letters = [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);
  const room = Math.max(leastRoom, columns) - 1;
  let [head, tail] = ['', ''];
  for (let atEnd = true; letters.length > 0; atEnd = !atEnd) {
    const letter = atEnd ? letters.pop()! : letters.shift()!;
    if (stringWidth(head + tail + letter) > room) break;
    if (atEnd) tail = letter + tail;
    else head += letter;
  }
  return `${head}…${tail}`;
}

/** Lines of a table, each with its line break; the first row is the head. On a screen of so many columns the last one is shortened. */
export function rows(cells: readonly (readonly string[])[], columns = process.stdout.isTTY ? process.stdout.columns : Infinity): string {

  const none = {
    top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '',
    left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '  ',
  };
  const table = new Table({ chars: none, style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 } });
  const shown = cells.map((row) => row.map(plain));
  const last = (shown[0]?.length ?? 0) - 1;
  const before = Array.from({ length: Math.max(0, last) }, (_, at) => Math.max(...shown.map((row) => stringWidth(row[at] ?? ''))) + 2).reduce((sum, width) => sum + width, 0);
  table.push(...shown.map((row) => row.map((cell, at) => (at === last ? shorten(cell, columns - before) : cell))));
  return table.toString().split('\n').map((line) => `${line.trimEnd()}\n`).join('');
}
