// Rows of text in columns, without borders or escape codes. Wide characters count as the columns
// they take on a terminal. On a narrow screen, names are never cut, because users copy them.
import stringWidth from 'string-width';
import { clustersOf } from '../markdown/graphemes.js';
import { stdoutColumns } from '../markdown/screen.js';
import { plain } from './wording.js';

/** Number of spaces between two cells. */
const gap = 2;
/** A cell shortened below this says too little. */
const leastRoom = 12;

/** Cuts the middle of a text that is too wide: the ends tell paths apart. */
export function shorten(text: string, columns: number): string {
  const most = Math.max(leastRoom, columns);
  if (stringWidth(text) <= most) return text;
  const letters = [...clustersOf(text)].map(({ segment }) => segment);
  let [head, tail] = ['', ''];
  for (let atEnd = true; letters.length > 0; atEnd = !atEnd) {
    const letter = atEnd ? letters.pop()! : letters.shift()!;
    if (stringWidth(head + tail + letter) >= most) break;
    if (atEnd) tail = letter + tail;
    else head += letter;
  }
  return `${head}…${tail}`;
}

/**
 * Lines of a table, each with its line break; the first row is the head. If the table is wider than
 * the screen, empty columns are left out, then the last column is shortened. If that is not enough,
 * the first cell of a row gets a line of its own, and the others as many lines as they need.
 */
export function rows(cells: readonly (readonly string[])[], columns = stdoutColumns()): string {
  let shown = cells.map((row) => row.map(plain));
  if (widthOf(shown) > columns) shown = withoutEmptyColumns(shown);
  const lines = mayStandIn(shown, columns, true) ? aligned(shown, columns) : inSeveralLines(shown, columns);
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

function inSeveralLines(cells: readonly (readonly string[])[], columns: number): string[] {
  const room = columns - gap;
  const parts: (readonly string[])[][] = [];
  // A cell that fits on a line of its own is not cut to share a line.
  const lastIsLong = widthsOf(cells).at(-1)! > room;
  for (let from = 1; from < cells[0]!.length;) {
    const upTo = (end: number) => cells.map((row) => row.slice(from, end));
    let end = from + 1;
    while (end < cells[0]!.length && mayStandIn(upTo(end + 1), room, lastIsLong && end + 1 === cells[0]!.length)) end++;
    parts.push(upTo(end));
    from = end;
  }
  const rest = parts.map((part) => aligned(part, room));
  return cells.flatMap(([first = ''], at) => [first, ...rest.map((lines) => lines[at]!).filter((line) => line.trim() !== '').map((line) => ' '.repeat(gap) + line)]);
}

function mayStandIn(cells: readonly (readonly string[])[], room: number, mayShorten: boolean): boolean {
  return widthOf(cells) <= room || (mayShorten && roomForLast(cells, room) >= leastRoom);
}

function aligned(cells: readonly (readonly string[])[], columns: number): string[] {
  const widths = widthsOf(cells);
  const room = roomForLast(cells, columns);
  return cells.map((row, at) => row.map((cell, column) => {
    if (column < row.length - 1) return cell + ' '.repeat(widths[column]! - stringWidth(cell) + gap);
    // The head is never cut.
    return at === 0 ? cell : shorten(cell, room);
  }).join(''));
}

function withoutEmptyColumns(cells: readonly (readonly string[])[]): string[][] {
  const filled = cells[0]!.map((_, column) => cells.slice(1).some((row) => row[column] !== ''));
  return cells.map((row) => row.filter((_, column) => filled[column]));
}

function roomForLast(cells: readonly (readonly string[])[], columns: number): number {
  return columns - widthsOf(cells).slice(0, -1).reduce((sum, width) => sum + width + gap, 0);
}

function widthOf(cells: readonly (readonly string[])[]): number {
  return widthsOf(cells).reduce((sum, width) => sum + width + gap, -gap);
}

function widthsOf(cells: readonly (readonly string[])[]): number[] {
  return cells[0]!.map((_, column) => cells.reduce((most, row) => Math.max(most, stringWidth(row[column] ?? '')), 0));
}
