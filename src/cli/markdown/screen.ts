// The size of the terminal's window.
import type { Size } from './live-rows.js';

/** With the usual size for a terminal that does not know its own. */
export function screenOf({ columns, rows }: { columns?: number; rows?: number }): Size {
  return { columns: Math.max(2, columns || 80), rows: Math.max(2, rows || 24) };
}

/** How many columns a line on stdout may have; without end if that is no terminal. */
export function stdoutColumns(): number {
  return process.stdout.isTTY ? screenOf(process.stdout).columns : Infinity;
}
