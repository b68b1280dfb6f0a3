// Wraps a streamed text between words. If a word turns out not to fit, the part already shown is
// erased and written again on the next line. A word longer than a line is broken at the end of the
// line. Used by answer-writer.ts. For complete texts, such as the chat's own messages, `inLines` is
// enough.
import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';
import { clustersOf } from '../markdown/graphemes.js';

const tabWidth = 8;

/** Wraps a complete text between words; a space after a full line becomes the line break. */
export function inLines(text: string, columns: number): string {
  return text.split('\n').map((line) => wrapAnsi(line, columns, { hard: true, trim: false }).replaceAll('\n ', '\n')).join('\n');
}

export class WordWrap {
  readonly #columns: () => number;
  /** Columns used in the current line. */
  #column = 0;
  /** The word at the end of the line, and the column where it begins. */
  #word = '';
  #wordColumn = 0;

  /** `columns`: the terminal's current width; Infinity turns wrapping off. */
  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** Returns what to write for the next piece of text. */
  push(text: string): string {
    const columns = this.#columns();
    if (columns === Infinity) return text;
    let shown = '';
    for (const { segment } of clustersOf(text)) shown += this.#add(segment, columns);
    return shown;
  }

  #add(letter: string, columns: number): string {
    if (/^[\r\n]/.test(letter)) return this.#startLine(letter);
    if (letter === ' ' || letter === '\t') return this.#space(letter, columns);
    const width = stringWidth(letter);
    if (this.#column + width <= columns) {
      this.#word += letter;
      this.#column += width;
      return letter;
    }
    const word = this.#wordColumn === 0 ? '' : this.#word;
    const erase = word === '' ? '' : `\r\x1b[${this.#wordColumn}C\x1b[K`;
    const line = this.#startLine('\n');
    this.#word = word + letter;
    this.#column = stringWidth(this.#word);
    return `${erase}${line}${this.#word}`;
  }

  /** A space after a full line becomes the line break. */
  #space(letter: string, columns: number): string {
    const next = letter === ' ' ? this.#column + 1 : (Math.floor(this.#column / tabWidth) + 1) * tabWidth;
    const full = this.#column >= columns;
    if (full) return this.#startLine('\n');
    this.#column = Math.min(next, columns);
    this.#word = '';
    this.#wordColumn = this.#column;
    return letter;
  }

  #startLine(mark: string): string {
    this.#column = 0;
    this.#word = '';
    this.#wordColumn = 0;
    return mark;
  }
}
