// Lays out a draft for a screen width: rows of text and the cursor position. Pure; screen.ts draws
// it.
import stringWidth from 'string-width';
import { graphemes } from './editor.js';

export interface Layout {
  rows: readonly string[];
  cursorRow: number;
  /** Columns before the cursor. */
  cursorColumn: number;
}

const tabWidth = 4;

/**
 * `prompt` starts the first line; the same number of spaces starts the others. Text that does not
 * fit continues in the next row, without indentation.
 */
export function layOut(prompt: string, text: string, cursor: number, columns: number): Layout {
  const indent = stringWidth(prompt);
  const rows: string[] = [];
  let row = prompt;
  let width = indent;
  let cursorRow = 0;
  let cursorColumn = 0;
  const wrap = () => {
    rows.push(row);
    row = '';
    width = 0;
  };
  const mark = () => {
    // After the last column, the cursor would be between two rows.
    if (width >= columns) wrap();
    cursorRow = rows.length;
    cursorColumn = width;
  };
  let offset = 0;
  for (const cluster of graphemes(text)) {
    if (offset === cursor) mark();
    offset += cluster.length;
    if (cluster === '\n') {
      wrap();
      row = ' '.repeat(Math.min(indent, columns - 1));
      width = row.length;
      continue;
    }
    const shown = cluster === '\t' ? ' '.repeat(tabWidth) : cluster;
    const wide = stringWidth(shown);
    if (width + wide > columns) wrap();
    row += shown;
    width += wide;
  }
  if (offset === cursor) mark();
  rows.push(row);
  return { rows, cursorRow, cursorColumn };
}

/** The part of a layout around the cursor that a screen of this height can show. */
export function windowOf(layout: Layout, height: number): Layout {
  const { rows, cursorRow } = layout;
  if (rows.length <= height) return layout;
  const first = Math.min(Math.max(0, cursorRow - height + 1), rows.length - height);
  return { ...layout, rows: rows.slice(first, first + height), cursorRow: cursorRow - first };
}
