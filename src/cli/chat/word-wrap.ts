// Breaks a text that comes in pieces into lines of a terminal, between words: what is shown already
// of a word that does not fit is taken away and written again on the next line. A word longer than
// a line is broken where the line ends. Used by answer-writer.ts; what is whole already, as what
// chat itself says, needs `inLines` alone.
import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';

const tabWidth = 8;
const pieces = new Intl.Segmenter();

/** A whole text, broken between words; the blank behind a full line is the break itself. */
export function inLines(text: string, columns: number): string {
  return text.split('\n').map((line) => wrapAnsi(line, columns, { hard: true, trim: false }).replaceAll('\n ', '\n')).join('\n');
}

export class WordWrap {
  readonly #columns: () => number;
  /** Columns of the line that are taken. */
  #column = 0;
  /** The word at its end, and where that begins. */
  #word = '';
  #wordColumn = 0;

  /** `columns`: of the terminal as it is now; Infinity breaks nothing. */
  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** What to write for the next piece of text, which begins where the one before ended. */
  push(text: string): string {
    const columns = this.#columns();
    if (columns === Infinity) return text;
    let shown = '';
    for (const { segment } of pieces.segment(text)) shown += this.#add(segment, columns);
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

  /** A space at the end of a full line is the break itself. */
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
