// Draws the draft on the terminal. Each drawing replaces the one before, wherever the cursor is.
import stringWidth from 'string-width';
import { layOut, windowOf } from './input/layout.js';
import type { Layout } from './input/layout.js';
import type { Draft } from './input/editor.js';
import type { Terminal } from './terminal.js';

export class Screen {
  readonly #terminal: Terminal;
  #drawn: Layout | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  draw(prompt: string, draft: Draft): void {
    const { columns, rows: height } = this.#terminal;
    const layout = windowOf(layOut(prompt, draft.text, draft.cursor, columns), height - 1);
    const down = layout.rows.length - 1 - layout.cursorRow;
    this.#terminal.write(`${this.#eraser()}${layout.rows.join('\r\n')}\r${down > 0 ? `\x1b[${down}A` : ''}${right(layout.cursorColumn)}`);
    this.#drawn = layout;
  }

  /** Erases the drawing, so that something else can be written in its place. */
  erase(): void {
    this.#terminal.write(this.#eraser());
    this.#drawn = undefined;
  }

  /** Leaves the drawing in place and moves to the line below. */
  finish(prompt: string, draft: Draft): void {
    this.draw(prompt, { ...draft, cursor: draft.text.length });
    this.#terminal.write('\r\n');
    this.#drawn = undefined;
  }

  #eraser(): string {
    if (!this.#drawn) return '\r\x1b[J';
    const { columns } = this.#terminal;
    // A terminal that became narrower has wrapped the rows drawn before.
    const broken = (row: string) => Math.max(1, Math.ceil(stringWidth(row) / columns));
    const { rows, cursorRow, cursorColumn } = this.#drawn;
    const above = rows.slice(0, cursorRow).reduce((sum, row) => sum + broken(row), 0) + Math.floor(cursorColumn / columns);
    return `\r${above > 0 ? `\x1b[${above}A` : ''}\x1b[J`;
  }
}

function right(columns: number): string {
  return columns > 0 ? `\x1b[${columns}C` : '';
}
