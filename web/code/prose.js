// Text of the API description: paragraphs with `code` and **strong** words.
import { html } from '../app/html.js';

/** @param {{ text: string }} props */
export function Prose({ text }) {
  return text.split('\n\n').filter(Boolean).map((paragraph) => html`<p>${pieces(paragraph)}</p>`);
}

/** @param {string} text @returns {any[]} */
function pieces(text) {
  // Links point to documentation files, which the page does not have.
  return text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((piece) => {
    if (/^`[^`]+`$/.test(piece)) return html`<code>${piece.slice(1, -1)}</code>`;
    if (/^\*\*[^*]+\*\*$/.test(piece)) return html`<strong>${piece.slice(2, -2)}</strong>`;
    return piece;
  });
}
