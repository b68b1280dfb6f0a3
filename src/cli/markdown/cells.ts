// Text as terminal cells: each letter with its width and look, rows of cells, and rows as bytes.
// Pure.
import stringWidth from 'string-width';
import { clustersOf } from './graphemes.js';

export interface Cell {
  /** A grapheme; '\n' breaks the row. */
  readonly letter: string;
  /** Columns. */
  readonly width: number;
  /** SGR parameters, such as `1;36`; '' is the terminal's default look. */
  readonly look: string;
  /** Where its source ends, as an offset in the line; -1 if it has no source. */
  readonly end: number;
  /** Markup that is open after it, which must be opened again if the line is cut here. */
  readonly open: string;
}

export type Row = readonly Cell[];

const tab = '    ';

/** The letters of a text that begins at offset `at` of the source; -1 if it has no source. */
export function cellsOf(text: string, look = '', at = -1, open = ''): Cell[] {
  const cells: Cell[] = [];
  // Most text is ASCII, which needs no costly measuring.
  const ascii = /^[\x20-\x7e]*$/.test(text);
  let end = at;
  for (const letter of ascii ? text : segments(text)) {
    if (at >= 0) end += letter.length;
    if (letter === '\t') for (const blank of tab) cells.push({ letter: blank, width: 1, look, end, open });
    else cells.push({ letter, width: ascii ? 1 : measured(letter), look, end, open });
  }
  return cells;
}

function* segments(text: string): Generator<string> {
  for (const { segment } of clustersOf(text)) yield segment;
}

/** Joined emoji, flags, skin tones: some terminals show one sign, others its parts side by side. */
const vague = /[\u200d\ufe0f\u{1f3fb}-\u{1f3ff}\u{1f1e6}-\u{1f1ff}]/u;

export function isVague({ letter }: Cell): boolean {
  return vague.test(letter);
}

/** Width of a letter. Vague letters get their maximum width, so that no row overflows. */
function measured(letter: string): number {
  if (letter.length === 1 || !vague.test(letter)) return stringWidth(letter);
  return Math.max(stringWidth(letter), [...letter].reduce((sum, sign) => sum + stringWidth(sign), 0));
}

export function widthOf(row: Row): number {
  return row.reduce((sum, { width }) => sum + width, 0);
}

/** Whether two cells look the same. */
export function same(a: Cell | undefined, b: Cell | undefined): boolean {
  return a !== undefined && b !== undefined && a.letter === b.letter && a.look === b.look;
}

/** The bytes of a row, which end with the default look. */
export function bytesOf(row: Row): string {
  let bytes = '';
  let look = '';
  for (const cell of row) {
    if (cell.look !== look) bytes += `${look === '' ? '' : '\x1b[0m'}${cell.look === '' ? '' : `\x1b[${cell.look}m`}`;
    look = cell.look;
    bytes += cell.letter;
  }
  return look === '' ? bytes : `${bytes}\x1b[0m`;
}

/** Chinese and Japanese characters that must not begin a row. */
const closers = /^[、。，．：；？！）］｝〉》」』】〕ーぁぃぅぇぉっゃゅょ々]/;

/**
 * Wraps cells into rows of at most `columns`, between words; a word longer than a row is broken at
 * its end. `first` prefixes the first row, `rest` the others. `hard` fills every row, as for code.
 */
export function wrap(cells: Row, columns: number, first: Row = [], rest: Row = first, hard = false): Cell[][] {
  // A prefix that leaves no room is dropped.
  const fits = (prefix: Row) => (widthOf(prefix) + 4 <= columns ? prefix : []);
  const [head, tail] = [fits(first), fits(rest)];
  const rows: Cell[][] = [];
  let row: Cell[] = [...head];
  let width = widthOf(row);
  /** The last place where the row may be broken; -1 if there is none. */
  let breakAt = -1;
  /** A space came after a full row: it becomes the line break, if anything follows. */
  let isOver = false;
  const next = () => {
    rows.push(row);
    row = [...tail];
    width = widthOf(row);
    breakAt = -1;
    isOver = false;
  };
  for (const cell of cells) {
    if (cell.letter === '\n') {
      next();
      continue;
    }
    const blank = cell.letter === ' ';
    if (isOver) next();
    if (width + cell.width > columns) {
      if (blank && !hard) {
        isOver = true;
        continue;
      }
      const moved = breakAt < 0 || hard || mayBreak(row.at(-1), cell) ? [] : row.splice(breakAt);
      next();
      row.push(...moved);
      width += widthOf(moved);
    } else if (!blank && mayBreak(row.at(-1), cell) && row.length > head.length) breakAt = row.length;
    row.push(cell);
    width += cell.width;
    if (blank) breakAt = row.length;
  }
  rows.push(row);
  return rows;
}

/** Two wide letters may be separated without a space. */
function mayBreak(before: Cell | undefined, cell: Cell): boolean {
  return before !== undefined && before.width === 2 && cell.width === 2 && !closers.test(cell.letter);
}
