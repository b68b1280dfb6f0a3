// A screen that renders a text as it arrives, for tests: what a person sees, and how it looks.
import xterm from '@xterm/headless';
import { loadLibraries } from '#recua/cli/markdown/libraries.js';
import { makeLooks } from '#recua/cli/markdown/looks.js';
import { MarkdownWriter } from '#recua/cli/markdown/markdown-writer.js';

const libraries = await loadLibraries();

interface Options {
  columns?: number;
  rows?: number;
  styles?: boolean;
}

export class Screen {
  readonly #terminal: xterm.Terminal;
  readonly #writer: MarkdownWriter;
  /** Every byte written. */
  bytes = '';

  constructor({ columns = 80, rows = 24, styles = true }: Options = {}) {
    this.#terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true, scrollback: 100_000, convertEol: true });
    const write = (text: string) => {
      this.bytes += text;
      this.#terminal.write(text);
    };
    this.#writer = new MarkdownWriter(
      write,
      () => ({ columns: this.#terminal.cols, rows: this.#terminal.rows }),
      libraries,
      makeLooks(styles),
    );
  }

  /** In pieces of this many letters. */
  push(text: string, size = Infinity): void {
    if (size === Infinity) return this.#writer.push(text);
    const letters = [...text];
    for (let at = 0; at < letters.length; at += size) this.#writer.push(letters.slice(at, at + size).join(''));
  }

  end(): void {
    this.#writer.end();
  }

  /** Text that is not part of the answer. */
  say(text: string): void {
    this.#writer.giveWay();
    this.#terminal.write(`${text}\n`);
  }

  /** The screen with everything written so far. */
  async resize(columns: number, rows: number): Promise<void> {
    await this.lines();
    this.#terminal.resize(columns, rows);
  }

  async lines(): Promise<string[]> {
    await new Promise<void>((done) => this.#terminal.write('', done));
    const buffer = this.#terminal.buffer.active;
    const lines = Array.from({ length: buffer.length }, (_, row) => buffer.getLine(row)!.translateToString(true).trimEnd());
    while (lines.at(-1) === '') lines.pop();
    return lines;
  }

  /** Whether the terminal had to break a row by itself. */
  async breaks(): Promise<boolean> {
    await this.lines();
    const buffer = this.#terminal.buffer.active;
    return Array.from({ length: buffer.length }, (_, row) => buffer.getLine(row)!.isWrapped).includes(true);
  }

  /** The look of the first letter of a text. */
  async look(text: string): Promise<{ bold: boolean; italic: boolean; underline: boolean; dim: boolean; strike: boolean; color: number }> {
    const lines = await this.lines();
    const row = lines.findIndex((line) => line.includes(text));
    if (row < 0) throw new Error(`${text} is not on the screen:\n${lines.join('\n')}`);
    const cell = this.#terminal.buffer.active.getLine(row)!.getCell(lines[row]!.indexOf(text))!;
    const [bold, italic, underline, dim, strike] = [
      cell.isBold(),
      cell.isItalic(),
      cell.isUnderline(),
      cell.isDim(),
      cell.isStrikethrough(),
    ].map((flag) => flag !== 0) as [boolean, boolean, boolean, boolean, boolean];
    return { bold, italic, underline, dim, strike, color: cell.isFgDefault() ? -1 : cell.getFgColor() };
  }
}

/** The look of a whole text, wherever its pieces end. */
export async function rendered(text: string, options: Options & { size?: number } = {}): Promise<string[]> {
  const screen = new Screen(options);
  screen.push(text, options.size);
  screen.end();
  return await screen.lines();
}
