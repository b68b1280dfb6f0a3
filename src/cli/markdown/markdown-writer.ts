// Renders streamed Markdown on a terminal. The text must already be free of control characters. One
// writer per answer; the cursor is at the beginning of a row before and after. Used by
// answer-writer.ts.
import type { Tokens } from 'marked';
import { cellsOf, wrap } from './cells.js';
import type { Row } from './cells.js';
import { CodeBlock } from './code.js';
import { Inline, closeSpans } from './inline.js';
import type { Libraries } from './libraries.js';
import { fenceOpening, readLine, undecided } from './lines.js';
import type { TextLine } from './lines.js';
import { LiveRows } from './live-rows.js';
import type { Size } from './live-rows.js';
import type { Looks } from './looks.js';
import { drawTable, widened } from './table.js';

/** Letters processed at once, so that no step takes long. */
const mostPiece = 2_048;
/** A table with more cells is not drawn again as a whole. */
const mostLiveCells = 2_000;
/** By which a longer line grows until it is drawn again. */
const growth = 1.1;
export const widestRule = 72;

interface Fence {
  indent: number;
  mark: string;
  block: CodeBlock;
  quotes: string;
}

export class MarkdownWriter {
  readonly #libraries: Libraries;
  readonly #looks: Looks;
  readonly #size: () => Size;
  readonly #inline: Inline;
  readonly #live: LiveRows;
  /** The part of the current line that has arrived. */
  #line = '';
  /** A line that is longer than most is drawn again from this length on. */
  #nextLength = 0;
  /** Set if the line has already filled rows, and how it continues. */
  #carried: { line: TextLine | undefined; isOpen: boolean } | undefined;
  /** Lines of a table, or a possible table head; drawn, but not final. */
  #table: string[] = [];
  /** Fixed column widths of a table that no longer fits the screen. */
  #widths: readonly number[] | undefined;
  #fence: Fence | undefined;
  #inList = false;
  /** A blank line, shown once something follows it. */
  #blank: Row | undefined;
  #hasShown = false;

  constructor(write: (text: string) => void, size: () => Size, libraries: Libraries, looks: Looks) {
    this.#libraries = libraries;
    this.#looks = looks;
    this.#size = size;
    this.#inline = new Inline(libraries, looks);
    this.#live = new LiveRows(write, size);
  }

  push(text: string): void {
    for (let at = 0; at < text.length;) {
      const newline = text.indexOf('\n', at);
      const end = Math.min(newline < 0 ? text.length : newline, at + mostPiece);
      this.#line += text.slice(at, end);
      at = end;
      if (end === newline) {
        at++;
        this.#endLine();
      } else if (at < text.length) this.#show();
    }
    this.#show();
  }

  /** The answer is over. */
  end(): void {
    if (this.#line !== '') this.#endLine();
    this.#endTable();
    this.#blank = undefined;
    if (this.#fence) this.#rule('');
    this.#fence = undefined;
  }

  /** Call before other output, which then starts at the beginning of a row. */
  giveWay(): void {
    this.#live.giveWay();
  }

  #show(): void {
    if (this.#line === '') return;
    // A long line that cannot be cut costs more with each letter, so it is drawn less often.
    if (this.#line.length > mostPiece && this.#line.length < this.#nextLength) return;
    this.#nextLength = this.#line.length * growth;
    if (this.#fence) return this.#showCode();
    if (this.#table.length > 0 && this.#mayBelong(this.#line)) return this.#showTable(this.#line);
    // It may be a row whose first cell has not ended.
    if (this.#table.length > 1 && this.#line.length < mostPiece && !this.#line.includes('|')) return;
    if (!this.#carried && (undecided.test(this.#line) || fenceOpening.test(withoutQuotes(this.#line)))) return;
    if (this.#table.length > 0) this.#endTable();
    const line = this.#carried ? this.#carried.line! : this.#read(this.#line);
    if (line.kind !== 'text') return;
    const text = this.#carried ? this.#line : line.text;
    const rows = wrap(this.#inline.cells(text, line.look, true), this.#columns, line.first, line.rest);
    this.#draw(rows);
    this.#carry(text, line, rows);
  }

  #read(line: string): ReturnType<typeof readLine> {
    return readLine(line, this.#inList, this.#looks);
  }

  get #columns(): number {
    return this.#size().columns;
  }

  #draw(rows: readonly Row[]): void {
    if (this.#blank && this.#hasShown && this.#live.isEmpty) {
      this.#live.show([this.#blank]);
      this.#live.settle();
    }
    this.#blank = undefined;
    this.#hasShown = true;
    this.#live.show(rows);
  }

  /** Keeps only the last rows of a long line, so that the cost per letter does not grow with it. */
  #carry(text: string, line: TextLine | undefined, rows: readonly Row[]): void {
    const most = Math.max(4, Math.floor(this.#size().rows / 2));
    if (rows.length <= most) return;
    const last = rows.slice(0, -2).flat().findLast(({ end }) => end >= 0);
    const following = rows.slice(-2).flat().find(({ end }) => end >= 0);
    // A link must not be cut.
    if (!last || !following || last.end === following.end || last.end >= text.length) return;
    const rest = text.slice(last.end);
    this.#line = last.open + (line ? rest.replace(/^ /, '') : rest);
    this.#live.settleTop(2, text.length - this.#line.length);
    this.#carried = { line: line && { ...line, first: line.rest }, isOpen: last.open !== '' };
  }

  #endLine(): void {
    const line = this.#line;
    this.#line = '';
    const carried = this.#carried;
    this.#carried = undefined;
    if (this.#fence) return this.#endCode(line, carried !== undefined);
    if (!carried && this.#table.length > 0) {
      if (this.#mayBelong(line)) return this.#addRow(line);
      this.#endTable();
    }
    if (!carried && this.#opensFence(line)) return;
    const read = carried ? carried.line! : this.#read(line);
    if (read.kind === 'blank') {
      if (read.prefix.length > 0) this.#settleRows([read.prefix]);
      else this.#blank = [];
      return;
    }
    if (read.kind === 'rule') return this.#rule('');
    this.#inList = read.isItem || (this.#inList && read.first.length > 0);
    if (!carried && mayBeHead(line)) {
      this.#table = [line];
      return this.#showTable('');
    }
    // Markup that counted as open when rows were finished must not become literal now.
    const text = carried ? line : read.text;
    this.#settleRows(
      wrap(
        this.#inline.cells(text, read.look, carried?.isOpen === true && closeSpans(text) !== text),
        this.#columns,
        read.first,
        read.rest,
      ),
    );
  }

  #settleRows(rows: readonly Row[]): void {
    this.#draw(rows);
    this.#live.settle();
  }

  /** Draws a horizontal rule, with a name if given. */
  #rule(name: string): void {
    const columns = Math.min(this.#columns, widestRule);
    const label = name === '' ? '' : `── ${name} `;
    this.#settleRows([cellsOf(`${label}${'─'.repeat(columns)}`, this.#looks.dim).slice(0, columns)]);
  }

  // Code.

  #opensFence(line: string): boolean {
    const bare = withoutQuotes(line);
    const [, indent, mark, language] = fenceOpening.exec(bare) ?? [];
    if (mark === undefined) return false;
    this.#fence = {
      indent: indent!.length,
      mark,
      block: new CodeBlock(language!, this.#libraries, this.#looks),
      quotes: line.slice(0, line.length - bare.length),
    };
    this.#rule(language!.slice(0, 30));
    return true;
  }

  #codeText(line: string): string {
    const { indent, quotes } = this.#fence!;
    const bare = quotes === '' ? line : withoutQuotes(line);
    return bare.slice(Math.min(indent, /^ */.exec(bare)![0].length));
  }

  #showCode(): void {
    const text = this.#carried ? this.#line : this.#codeText(this.#line);
    // It may be the closing fence.
    if (!this.#carried && this.#fence!.mark.startsWith(text.trim())) return;
    const rows = wrap(cellsOf(text, '', 0), this.#columns, [], [], true);
    this.#draw(rows);
    this.#carry(text, undefined, rows);
  }

  #endCode(line: string, isCarried: boolean): void {
    const { mark, block, quotes } = this.#fence!;
    const text = isCarried ? line : this.#codeText(line);
    const isEnd = !isCarried && text.trim().startsWith(mark) && text.trim().replaceAll(mark[0]!, '') === '';
    // The end of a quote also ends the code block in it.
    if (isEnd || (quotes !== '' && withoutQuotes(line) === line)) {
      this.#fence = undefined;
      this.#rule('');
      if (!isEnd) {
        this.#line = line;
        this.#endLine();
      }
      return;
    }
    const cells = isCarried ? cellsOf(text, '', 0) : block.line(text);
    this.#settleRows(wrap(cells, this.#columns, [], [], true));
  }

  // Tables.

  /** Whether a line, complete or not, continues the table, or turns its head into one. */
  #mayBelong(line: string): boolean {
    if (this.#table.length === 1) return /^[\s|:-]*$/.test(line) && line.trim() !== '';
    return line.includes('|') && line.trim() !== '';
  }

  #addRow(line: string): void {
    this.#table.push(line);
    // It turned out not to be a table head.
    if (this.#table.length === 2 && !this.#token('')) {
      this.#table.pop();
      this.#endTable();
      this.#line = line;
      return this.#endLine();
    }
    this.#showTable('');
    if (this.#widths) {
      this.#live.settle();
      this.#table = this.#table.slice(0, 2);
      return;
    }
    const { rows, widths = [] } = this.#drawTable('');
    const isLarge = rows.length >= this.#size().rows - 2 || widths.length * this.#table.length > mostLiveCells;
    if (this.#table.length > 2 && isLarge) {
      // A taller table would scroll away while it is redrawn, and many cells take long to draw, so
      // fix the column widths now, a bit wider for rows to come.
      this.#widths = widened(widths, this.#columns);
      const token = this.#token('');
      if (token) this.#draw(this.#tableRows(token, false).rows);
      this.#live.settle();
      this.#table = this.#table.slice(0, 2);
    }
  }

  #token(growing: string): Tokens.Table | undefined {
    const [token] = this.#libraries.blocks([...this.#table, ...(growing === '' ? [] : [growing])].join('\n'));
    return token?.type === 'table' ? token as Tokens.Table : undefined;
  }

  #showTable(growing: string): void {
    const { rows } = this.#drawTable(growing);
    // A row that would scroll away while it grows is shown only when it ends.
    if (rows.length > 0 && (growing === '' || rows.length < this.#size().rows)) this.#draw(rows);
  }

  #drawTable(growing: string): { rows: readonly Row[]; widths: readonly number[] | undefined } {
    const token = this.#table.length > 1 ? this.#token(closeSpans(growing)) : undefined;
    if (token) return this.#tableRows(token, this.#widths !== undefined);
    const read = this.#read(this.#table[0]!);
    const rows = read.kind === 'text' ? wrap(this.#inline.cells(read.text, read.look, false), this.#columns, read.first, read.rest) : [];
    return { rows, widths: undefined };
  }

  #tableRows(token: Tokens.Table, bodyOnly: boolean): ReturnType<typeof drawTable> {
    return drawTable(token, { inline: this.#inline, looks: this.#looks, columns: this.#columns, widths: this.#widths }, bodyOnly);
  }

  #endTable(): void {
    if (this.#table.length === 0) return;
    this.#live.settle();
    this.#table = [];
    this.#widths = undefined;
  }
}

/** Whether a line may be the head of a table. */
function mayBeHead(line: string): boolean {
  return line.includes('|') && line.trim().length > 1 && line.length < mostPiece;
}

function withoutQuotes(line: string): string {
  return line.replace(/^(?: {0,3}>)+ ?/, '');
}
