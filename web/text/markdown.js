// Markdown → tokens. HTML in the text stays text. Formulas between $…$, $$…$$, \(…\) and \[…\] are
// tokens of their own. No HTML string is ever made: elements.js makes DOM elements from the tokens.
import { Marked } from '../vendor/marked.js';

/** @typedef {{ type: string, raw: string, [field: string]: any }} Token */

const inlineMath = /^(?:\\\(([\s\S]{1,2000}?)\\\)|\$\$((?:\\.|[^\\$\n]){1,1000}?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n]){1,1000}?)(?<![\s\\])\$(?!\d))/;
const blockMath = /^(?: {0,3})(?:\$\$([\s\S]{1,8000}?)\$\$|\\\[([\s\S]{1,8000}?)\\\])[^\S\n]*(?:\n|$)/;

const marked = new Marked({
  gfm: true,
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

/** @param {string} text @returns {Token[]} */
export function tokensOf(text) {
  try {
    return marked.lexer(text);
  } catch {
    // A thousand nested quotes overflow the stack. Show the source.
    return [{ type: 'unread', raw: text }];
  }
}
