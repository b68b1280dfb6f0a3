// The spans of a line as cells: bold, italics, code, links with their address. While a line grows,
// open spans count as closed at its end, so that a span has its look from its first letter on.
import type { Token, Tokens } from 'marked';
import { cellsOf } from './cells.js';
import type { Cell } from './cells.js';
import { both } from './looks.js';
import type { Looks } from './looks.js';
import type { Libraries } from './libraries.js';

export class Inline {
  readonly #libraries: Libraries;
  readonly #looks: Looks;

  constructor(libraries: Libraries, looks: Looks) {
    this.#libraries = libraries;
    this.#looks = looks;
  }

  /** `growing`: more of the line may come. */
  cells(line: string, look: string, growing: boolean): Cell[] {
    const text = growing ? closeSpans(line) : line;
    return this.walk(this.#libraries.spans(text), look, 0, '').map((cell) => (cell.end > line.length ? { ...cell, end: line.length } : cell));
  }

  /** `at`: offset of the tokens in the source; -1 if it does not matter. */
  walk(tokens: readonly Token[], look: string, at = -1, open = ''): Cell[] {
    const cells: Cell[] = [];
    for (const [index, token] of tokens.entries()) {
      const isProduct = token.type === 'em' && /\w$/.test(tokens[index - 1]?.raw ?? '') && /^\w/.test(tokens[index + 1]?.raw ?? '');
      // Stars between letters usually mean multiplication, not emphasis.
      cells.push(...(isProduct ? cellsOf(token.raw, look, at, open) : this.#token(token, look, at, open)));
      if (at >= 0) at += token.raw.length;
    }
    return cells;
  }

  #token(token: Token, look: string, at: number, open: string): Cell[] {
    const end = at < 0 ? -1 : at + token.raw.length;
    /** Letters that represent the whole token. */
    const whole = (text: string, own = look) => cellsOf(text, own).map((cell) => ({ ...cell, end, open }));
    const span = (own: string, mark: string) => this.#span(token as Tokens.Strong, both(look, own), at, open, mark);
    switch (token.type) {
      case 'strong': return span(this.#looks.strong, '**');
      case 'em': return span(this.#looks.emphasis, '*');
      case 'del': return span(this.#looks.deleted, '~~');
      case 'codespan': return this.#code(token as Tokens.Codespan, look, at, open);
      case 'br': return whole('\n');
      case 'escape': return /^\\[()[\]]/.test(token.raw) ? whole(token.raw) : whole((token as Tokens.Escape).text);
      case 'html': return /^<br\s*\/?>$/i.test(token.raw) ? whole('\n') : cellsOf(token.raw, look, at, open);
      case 'link': return this.#link(token as Tokens.Link, look, end, open);
      case 'image': {
        const { text, href } = token as Tokens.Image;
        return [...whole(`[image${text === '' ? '' : `: ${text}`}]`, both(look, this.#looks.link)), ...whole(` (${href})`, both(look, this.#looks.dim))];
      }
      case 'text': {
        const inner = (token as Tokens.Text).tokens;
        if (inner) return this.walk(inner, look, at, open);
        return cellsOf(token.raw, look, at, open);
      }
      default: return cellsOf(token.raw, look, at, open);
    }
  }

  #span({ raw, text, tokens }: Tokens.Strong, look: string, at: number, open: string, mark: string): Cell[] {
    const inside = this.walk(tokens, look, at < 0 ? -1 : at + Math.max(0, raw.indexOf(text)), open + mark);
    return this.#closed(inside, mark, at, raw.length, open);
  }

  #code({ raw, text }: Tokens.Codespan, look: string, at: number, open: string): Cell[] {
    const inside = cellsOf(text, both(look, this.#looks.code), at < 0 ? -1 : at + Math.max(0, raw.indexOf(text)), `${open}\``);
    return this.#closed(inside, '`', at, raw.length, open);
  }

  /** The last letter of a span also covers the closing mark. Without styles, marks are shown. */
  #closed(inside: readonly Cell[], mark: string, at: number, length: number, open: string): Cell[] {
    const end = at < 0 ? -1 : at + length;
    const shown = (last: boolean) => cellsOf(this.#looks.styles ? '' : mark).map((cell) => (at < 0 ? cell : last ? { ...cell, end, open } : { ...cell, end: at + 1, open: '' }));
    const cells = [...shown(false), ...inside, ...shown(true)];
    const last = cells.at(-1);
    return last ? [...cells.slice(0, -1), { ...last, end, open }] : cells;
  }

  /** A link is one unit, never cut: part of an address is useless. */
  #link({ text, href, tokens }: Tokens.Link, look: string, end: number, open: string): Cell[] {
    const shown = this.walk(tokens, both(look, this.#looks.link));
    const plain = href.replace(/^mailto:/, '');
    const address = text === href || text === plain || `http://${text}` === href ? [] : cellsOf(` (${href})`, both(look, this.#looks.dim));
    return [...shown, ...address].map((cell) => ({ ...cell, end, open }));
  }
}

/**
 * Closes the open spans of an incomplete line. A mark at its very end, whose meaning is not clear
 * yet, is left out.
 */
export function closeSpans(line: string): string {
  const open: string[] = [];
  for (let at = 0; at < line.length;) {
    const sign = line[at]!;
    if (sign === '\\') {
      at += 2;
      continue;
    }
    const run = /^(?:`+|\*+|_+|~+)/.exec(line.slice(at, at + 8))?.[0];
    if (run === undefined) {
      at++;
      continue;
    }
    if (sign === '`') {
      const end = line.indexOf(run, at + run.length);
      if (end < 0) return at + run.length === line.length ? line.slice(0, at) + open.join('') : `${line}${/\s$/.test(line) ? '' : run}${open.join('')}`;
      at = end + run.length;
      continue;
    }
    const [before, after] = [line[at - 1] ?? ' ', line[at + run.length]];
    if (open[0] === run && !/\s/.test(before)) open.shift();
    else if (after === undefined) return line.slice(0, at) + open.join('');
    else if (!open.includes(run) && !/\s/.test(after) && /[\s\p{P}\p{S}]/u.test(before) && run.length <= 3 && (sign !== '~' || run.length === 2)) open.unshift(run);
    at += run.length;
  }
  if (open.length === 0) return /\]\([^()\s]*$/.test(line) ? `${line})` : line;
  // A mark after a space closes nothing, so the space is held back until more text comes.
  return line.trimEnd() + open.join('');
}
