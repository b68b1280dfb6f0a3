// Markdown → tokens. HTML in the text stays text. Formulas between $…$, $$…$$, \(…\) and \[…\] are
// tokens of their own. No HTML string is ever made: elements.js makes DOM elements from the tokens.
import { Lexer, Marked } from '../vendor/marked.js';

/** @typedef {{ type: string, raw: string, [field: string]: any }} Token */

const inlineMath = /^(?:\\\(([\s\S]{1,2000}?)\\\)|\$\$((?:\\.|[^\\$\n]){1,1000}?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n]){1,1000}?)(?<![\s\\])\$(?!\d))/;
/** Characters. The time for a formula grows with the square of this. */
export const longestFormula = 4_000;
/** As many as a table may have, however short. */
const fewCells = 1_000;
const blockMath = new RegExp(String.raw`^(?: {0,3})(?:\$\$([\s\S]{1,${longestFormula}}?)\$\$|\\\[([\s\S]{1,${longestFormula}}?)\\\])[^\S\n]*(?:\n|$)`);

const marked = new Marked({
  gfm: true,
  tokenizer: {
    // marked fills up each row with cells, so a short text could make millions of them. A table
    // with more cells than characters is shown as source.
    table(/** @type {string} */ text) {
      const [raw, head = '', , rows = ''] = /** @type {any} */ (this).rules.block.table.exec(text) ?? [''];
      const cells = head.split('|').length * rows.split('\n').length;
      return cells > raw.length + fewCells && { type: 'unread', raw };
    },
  },
  extensions: [
    {
      name: 'blockMath', level: 'block',
      // At the beginning of a line: a paragraph ends only there.
      start(/** @type {string} */ text) {
        const found = /\n {0,3}(?:\$\$|\\\[)/.exec(text);
        return found ? found.index + 1 : undefined;
      },
      tokenizer(/** @type {string} */ text) {
        const found = blockMath.exec(text);
        return found ? { type: 'blockMath', raw: found[0], text: found[1] ?? found[2] } : undefined;
      },
    },
    {
      name: 'inlineMath', level: 'inline',
      start: (/** @type {string} */ text) => /\$|\\\(/.exec(text)?.index,
      tokenizer(/** @type {string} */ text) {
        const found = inlineMath.exec(text);
        return found ? { type: 'inlineMath', raw: found[0], text: found[1] ?? found[2] ?? found[3] } : undefined;
      },
    },
  ],
});

/** Characters. For some texts, marked takes time that grows with the square of this. */
const mostInline = 2_000;

/** Reads a long run of text in pieces. Emphasis and links do not reach from one into the next. */
class LinearLexer extends Lexer {
  /** @param {string} text @param {Token[]} [tokens] @returns {Token[]} */
  inlineTokens(text, tokens = []) {
    for (let from = 0; from < text.length;) {
      const rest = text.slice(from, from + mostInline);
      const space = from + mostInline >= text.length ? -1 : rest.search(/\s\S*$/);
      const piece = space > 0 ? rest.slice(0, space + 1) : rest;
      super.inlineTokens(piece, tokens);
      from += piece.length;
    }
    return tokens;
  }
}

/** @param {string} text @returns {Token[]} */
export function tokensOf(text) {
  try {
    return new LinearLexer(marked.defaults).lex(text);
  } catch {
    // A thousand nested quotes overflow the stack. Show the source.
    return [{ type: 'unread', raw: text }];
  }
}
