// Rows of text in columns, without borders or escape codes; wide characters count for what they take on a terminal. Whatever a screen is
// too narrow for keeps its names whole: they are there to be copied.
import stringWidth from 'string-width';
import { plain } from './wording.js';

/** Columns between two cells. */
const gap = 2;
/** A cell that is shortened further says too little to be worth its line. */
const leastRoom = 12;

/** A text without its middle, where it takes more columns than there are: ends tell paths apart. */
export function shorten(text: string, columns: number): string {
  const most = Math.max(leastRoom, columns);
  if (stringWidth(text) <= most) return text;
  const letters = [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);
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
 * Lines of a table, each with its line break; the first row is the head. Where they are wider than the screen, empty columns are left out,
 * then the last column is shortened; where even that has no room, the first cell of a row gets a line of its own.
 */
export function rows(cells: readonly (readonly string[])[], columns = process.stdout.isTTY ? process.stdout.columns : Infinity): string {
  let shown = cells.map((row) => row.map(plain));
  if (widthOf(shown) > columns) shown = withoutEmptyColumns(shown);
  const fits = widthOf(shown) <= columns || roomForLast(shown, columns) >= leastRoom;
  const lines = fits ? aligned(shown, columns) : inTwoLines(shown, columns);
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

function inTwoLines(cells: readonly (readonly string[])[], columns: number): string[] {
  const rest = aligned(cells.map((row) => row.slice(1)), columns - gap);
  return cells.flatMap(([first = ''], at) => [first, ...(rest[at]!.trim() === '' ? [] : [' '.repeat(gap) + rest[at]!])]);
}

function aligned(cells: readonly (readonly string[])[], columns: number): string[] {
  const widths = widthsOf(cells);
  const room = roomForLast(cells, columns);
  return cells.map((row, at) => row.map((cell, column) => {
    if (column < row.length - 1) return cell + ' '.repeat(widths[column]! - stringWidth(cell) + gap);
    // The head says what the column is.
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
  return cells[0]!.map((_, column) => Math.max(...cells.map((row) => stringWidth(row[column] ?? ''))));
}
