// Rows of text in columns, without borders or escape codes; wide characters count for what they take on a terminal.
import Table from 'cli-table3';
import { plain } from './wording.js';

/** Lines of a table, each with its line break; the first row is the head. */
export function rows(cells: readonly (readonly string[])[]): string {
  const none = {
    top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '',
    left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '  ',
  };
  const table = new Table({ chars: none, style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 } });
  table.push(...cells.map((row) => row.map(plain)));
  return table.toString().split('\n').map((line) => `${line.trimEnd()}\n`).join('');
}
