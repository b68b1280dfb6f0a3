// The last rows of the screen, which may still change. Only changed parts are written again, and
// only within the screen: rows that scrolled away stay as they are. If the window's width changes,
// the terminal rewraps rows in an unknown way, so nothing above the cursor is touched, and new text
// continues in a row of its own.
import { bytesOf, isVague, same, widthOf } from './cells.js';
import type { Cell, Row } from './cells.js';

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export class LiveRows {
  readonly #write: (text: string) => void;
  readonly #size: () => Size;
  #drawn: readonly Row[] = [];
  #columns = 0;
  /** Source offset up to which the rows are final. */
  #from = 0;

  constructor(write: (text: string) => void, size: () => Size) {
    this.#write = write;
    this.#size = size;
  }

  /** Shows these rows in place of the rows that may still change. */
  show(rows: readonly Row[]): void {
    const { columns, rows: height } = this.#size();
    if (this.#drawn.length > 0 && columns !== this.#columns) this.#leave(columns);
    this.#columns = columns;
    const next = this.#from === 0 ? rows : after(rows, this.#from);
    const drawn = this.#drawn;
    if (next.length === 0) return;
    if (drawn.length === 0) {
      this.#write(next.map(bytesOf).join('\n'));
      this.#drawn = next;
      return;
    }
    let at = 0;
    while (at < drawn.length && at < next.length && isSame(drawn[at]!, next[at]!)) at++;
    if (at === drawn.length && at === next.length) return;
    const highest = Math.max(0, drawn.length - height + 1);
    this.#draw(next, Math.max(highest, Math.min(at, next.length - 1)), columns);
    this.#drawn = next;
  }

  /** Makes all rows final, and ends the line. */
  settle(): void {
    if (this.#drawn.length > 0) this.#write('\n');
    this.#drawn = [];
    this.#from = 0;
  }

  /** Call before other output: the current rows stay, and new rows go below. */
  giveWay(): void {
    if (this.#drawn.length > 0) this.#leave(Infinity);
  }

  /** Makes all but the last rows final. The source is then `shorter` by that many letters. */
  settleTop(kept: number, shorter: number): void {
    this.#drawn = this.#drawn.slice(-kept);
    this.#from = Math.max(0, this.#from - shorter);
  }

  get isEmpty(): boolean {
    return this.#drawn.length === 0;
  }

  #draw(next: readonly Row[], at: number, columns: number): void {
    const drawn = this.#drawn;
    if (at >= drawn.length) {
      this.#write(next.slice(at).map((row) => `\n${bytesOf(row)}`).join(''));
      return;
    }
    const [old, row] = [drawn[at]!, next[at]];
    // Only if more than a screen was removed, which no line does.
    if (!row) return;
    let kept = 0;
    while (kept < old.length && same(old[kept], row[kept])) kept++;
    const up = drawn.length - 1 - at;
    const isAppended = up === 0 && kept === old.length;
    // The columns after a vague letter are unknown.
    const vague = isAppended ? -1 : row.slice(0, kept).findIndex(isVague);
    if (vague >= 0) kept = vague;
    // After a full row the cursor is still on its last letter, which must not be cleared.
    if (!isAppended && widthOf(row.slice(0, kept)) >= columns) kept = 0;
    const place = isAppended ? '' : `\r${up > 0 ? `\x1b[${up}A` : ''}${right(row.slice(0, kept))}\x1b[K`;
    const below = next.slice(at + 1).map((one) => `\n\x1b[K${bytesOf(one)}`).join('');
    const surplus = drawn.length > next.length ? `\n\x1b[J\x1b[A\r${right(next.at(-1)!)}` : '';
    this.#write(`${place}${bytesOf(row.slice(kept))}${below}${surplus}`);
  }

  /**
   * The width changed: the current rows stay. Some terminals cut the cursor's row, others wrap it;
   * text that may be lost is shown again.
   */
  #leave(columns: number): void {
    let width = 0;
    const last = this.#drawn.at(-1)!.filter((cell) => (width += cell.width) <= columns);
    this.#from = Math.max(this.#from, ...[...this.#drawn.slice(0, -1).flat(), ...last].map(({ end }) => end));
    this.#write('\n');
    this.#drawn = [];
  }
}

/** Moves the cursor right, past the cells of a row. */
function right(row: Row): string {
  const columns = widthOf(row);
  return columns > 0 ? `\x1b[${columns}C` : '';
}

function isSame(a: Row, b: Row): boolean {
  return a.length === b.length && a.every((cell, at) => same(cell, b[at]));
}

/** The cells whose source is after `from`, with the prefixes of their rows. */
function after(rows: readonly Row[], from: number): Cell[][] {
  const first = rows.flat().find(({ end }) => end > from);
  // The line break replaces a space.
  const isLeft = (cell: Cell) => cell.end > from && !(cell === first && cell.letter === ' ');
  return rows.map((row) => row.filter((cell) => cell.end < 0 || isLeft(cell))).filter((row) => row.some(isLeft));
}
