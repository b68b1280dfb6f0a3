// A fenced code block. Each line is colored when it ends, together with the lines before it if a
// string, a comment or the like is open. Only a bounded part of those lines is remembered.
import { cellsOf } from './cells.js';
import type { Cell } from './cells.js';
import type { Looks } from './looks.js';
import type { HighlightNode, Libraries } from './libraries.js';

/** Maximum letters of the block that are read again for each line. */
const mostContext = 4_000;
/** Longer lines get no colors. */
const mostLine = 2_000;

export class CodeBlock {
  readonly #libraries: Libraries;
  readonly #looks: Looks;
  readonly #language: string;
  #before = '';

  constructor(language: string, libraries: Libraries, looks: Looks) {
    this.#language = language;
    this.#libraries = libraries;
    this.#looks = looks;
  }

  /** Colors a complete line. */
  line(text: string): Cell[] {
    const plain = cellsOf(text, '', 0);
    if (!this.#looks.styles || this.#language === '' || text.length > mostLine) return plain;
    const found = this.#libraries.highlight(`${this.#before}${text}\n`, this.#language);
    if (!found) return plain;
    const from = this.#before.length;
    if (found.isOpen) this.#remember(text);
    else this.#before = '';
    const looks: string[] = [];
    collect(found.root, '', this.#looks, looks);
    return plain.map((cell, at) => {
      const look = looks[from + (plain[at - 1]?.end ?? 0)] ?? '';
      return look === '' ? cell : { ...cell, look };
    });
  }

  /** Drops the oldest lines beyond the limit, half of it at once, so that this happens rarely. */
  #remember(text: string): void {
    this.#before += `${text}\n`;
    if (this.#before.length <= mostContext) return;
    const cut = this.#before.indexOf('\n', this.#before.length - mostContext / 2);
    this.#before = this.#before.slice(cut + 1);
  }
}

/** The look of each letter. */
function collect(node: HighlightNode, look: string, looks: Looks, found: string[]): void {
  const own = node.scope === undefined ? look : looks.scope(node.scope) || look;
  for (const child of node.children) {
    if (typeof child === 'string') for (let at = 0; at < child.length; at++) found.push(own);
    else collect(child, own, looks, found);
  }
}
