// How a draft stands on a screen of so many columns: rows of text and the place of the cursor.
// Pure; screen.ts draws it.
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
 * `prompt` opens the first line, as many spaces open the others; what does not fit a row goes on in
 * the next, without them.
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
    // Beside the last column the cursor would hang between two rows.
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

/** The part of a layout that a screen of so many rows can show, around the cursor. */
export function windowOf(layout: Layout, height: number): Layout {
  const { rows, cursorRow } = layout;
  if (rows.length <= height) return layout;
  const first = Math.min(Math.max(0, cursorRow - height + 1), rows.length - height);
  return { ...layout, rows: rows.slice(first, first + height), cursorRow: cursorRow - first };
}
