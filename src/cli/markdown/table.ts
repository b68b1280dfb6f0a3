// Draws a table as screen rows: columns as wide as their widest cell, narrowed if the screen is too
// narrow, or one line per cell if it is too narrow for columns.
import type { Tokens } from 'marked';
import { cellsOf, widthOf, wrap } from './cells.js';
import type { Cell, Row } from './cells.js';
import type { Inline } from './inline.js';
import type { Looks } from './looks.js';

const divider = ' │ ';
/** With narrower columns, a table is drawn with one line per cell. */
const leastWidth = 5;

type Align = 'center' | 'left' | 'right' | null;

export interface TableParts {
  inline: Inline;
  looks: Looks;
  columns: number;
  /** Fixed column widths, if they must not change any more. */
  widths: readonly number[] | undefined;
}

export interface DrawnTable {
  rows: Row[];
  widths: readonly number[];
}

/** `bodyOnly` leaves out the head, for more rows of a table already drawn. */
export function drawTable(token: Tokens.Table, { inline, looks, columns, widths: fixed }: TableParts, bodyOnly = false): DrawnTable {
  const cells = (row: readonly Tokens.TableCell[], look: string) => row.map((cell) => inline.walk(cell.tokens, look));
  const head = cells(token.header, looks.strong);
  const body = token.rows.map((row) => cells(row, ''));
  const room = columns - divider.length * (head.length - 1);
  const widths = fixed ?? fit(head.map((_, at) => Math.max(1, ...[head, ...body].map((row) => longest(row[at] ?? [])))), room);
  if (room < head.length * leastWidth && widths.some((width) => width < leastWidth))
    return { rows: body.flatMap((row, at) => [...(at > 0 || bodyOnly ? [[]] : []), ...record(head, row, columns, looks)]), widths };
  const line = cellsOf(widths.map((width) => '─'.repeat(width)).join('─┼─'), looks.dim);
  const drawn = body.flatMap((row) => inColumns(row, widths, token.align, looks));
  return { rows: bodyOnly ? drawn : [...inColumns(head, widths, token.align, looks), line, ...drawn], widths };
}

function longest(cell: Row): number {
  return Math.max(...wrap(cell, Infinity).map(widthOf));
}

/** Narrow columns keep the width they need; wide ones share the rest. */
function fit(natural: readonly number[], room: number): number[] {
  const widths = [...natural];
  while (widths.reduce((sum, width) => sum + width, 0) > Math.max(room, widths.length)) {
    const widest = Math.max(...widths);
    const next = Math.max(1, ...widths.filter((width) => width < widest));
    const all = widths.filter((width) => width === widest).length;
    const surplus = widths.reduce((sum, width) => sum + width, 0) - Math.max(room, widths.length);
    const less = Math.min(widest - next || widest - 1, Math.max(1, Math.floor(surplus / all)));
    // The first columns give up the remainder of the division.
    let single = surplus < all ? surplus : all;
    for (const [at, width] of widths.entries()) {
      if (width !== widest || single === 0) continue;
      widths[at] = width - less;
      single--;
    }
  }
  return widths;
}

/** Widens columns within the spare room, for later cells that are wider. */
export function widened(widths: readonly number[], columns: number): number[] {
  const spare = columns - divider.length * (widths.length - 1) - widths.reduce((sum, width) => sum + width, 0);
  const share = Math.max(0, Math.floor(spare / widths.length));
  return widths.map((width) => width + Math.min(share, Math.ceil(width / 2) + 2));
}

function inColumns(row: readonly Row[], widths: readonly number[], align: readonly Align[], looks: Looks): Row[] {
  const parts = widths.map((width, at) => wrap(row[at] ?? [], width));
  const height = Math.max(...parts.map(({ length }) => length));
  const between = cellsOf(divider, looks.dim);
  return Array.from({ length: height }, (_, line) => parts.flatMap((part, at): Cell[] => {
    const isLast = at === parts.length - 1;
    return [...padded(part[line] ?? [], widths[at]!, align[at] ?? 'left', isLast), ...(isLast ? [] : between)];
  }));
}

function padded(row: Row, width: number, align: NonNullable<Align>, isLast: boolean): Cell[] {
  const room = Math.max(0, width - widthOf(row));
  const left = align === 'right' ? room : align === 'center' ? Math.floor(room / 2) : 0;
  return [...cellsOf(' '.repeat(left)), ...row, ...(isLast ? [] : cellsOf(' '.repeat(room - left)))];
}

/** `Name: value`, one line each. A short row of many columns has no lines for what it lacks. */
function record(head: readonly Row[], row: readonly Row[], columns: number, looks: Looks): Row[] {
  return head.flatMap((name, at) => (row[at]?.length ? wrap([...name, ...cellsOf(': ', looks.dim), ...row[at]], columns, [], cellsOf('  ')) : []));
}
