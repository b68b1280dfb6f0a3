// Markdown tokens → DOM elements. Text becomes text nodes only, so that nothing a model writes can
// become a script, a style or a fetched image.
import { codeElement } from './code.js';
import { mathElement } from './maths.js';

/** @typedef {import('./markdown.js').Token} Token */

/**
 * @param {string} name
 * @param {(Node | string)[]} [children]
 * @param {Record<string, string>} [attributes]
 */
export function element(name, children = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const named = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', hellip: '…', mdash: '—', ndash: '–', copy: '©', times: '×', middot: '·', rarr: '→', larr: '←', deg: '°' }));

/** Decodes character references such as `&amp;`. @param {string} text */
export function plain(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return named.get(name) ?? whole;
    const code = decimal !== undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code > 0 && code <= 0x10_ffff ? String.fromCodePoint(code) : '�';
  });
}

/** The address of a link, if its protocol is allowed. Only a click follows it. @param {string} href */
function addressOf(href) {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  return url && ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : undefined;
}

/** @param {string} href @param {(Node | string)[]} children @param {string} [title] */
function link(href, children, title) {
  const address = addressOf(href);
  // A link with a forbidden protocol becomes text that shows its address.
  if (address === undefined) return element('span', [...children, ` (${href.slice(0, 200)})`], { class: 'dead-link' });
  return element('a', children, { href: address, rel: 'noopener noreferrer nofollow', target: '_blank', title: title ?? address });
}

/** Nesting limit, for example of quotes. Deeper Markdown is shown as source. */
const deepest = 40;
let depth = 0;

/** @param {Token[]} tokens @param {() => Node[]} make */
function within(tokens, make) {
  if (depth >= deepest) return [document.createTextNode(tokens.map(({ raw }) => raw).join(''))];
  depth++;
  try {
    return make();
  } finally {
    depth--;
  }
}

/** @param {Token[] | undefined} tokens @returns {Node[]} */
function inlines(tokens = []) {
  return within(tokens, () => tokens.flatMap((token) => inline(token)));
}

/** @param {Token} token @returns {Node[]} */
function inline(token) {
  switch (token.type) {
    case 'text': return token.tokens ? inlines(token.tokens) : [document.createTextNode(plain(token.text))];
    case 'escape': return [document.createTextNode(token.text)];
    case 'strong': return [element('strong', inlines(token.tokens))];
    case 'em': return [element('em', inlines(token.tokens))];
    case 'del': return [element('del', inlines(token.tokens))];
    case 'codespan': return [element('code', [token.text])];
    case 'br': return [element('br')];
    case 'link': return [link(token.href, inlines(token.tokens), token.title)];
    // The page fetches no images: an image becomes a link to it.
    case 'image': return [link(token.href, [element('span', ['image'], { class: 'tag' }), ` ${plain(token.text) || token.href.slice(0, 80)}`])];
    case 'inlineMath': return [mathElement(token.text, false)];
    default: return [document.createTextNode(token.raw)];
  }
}

/** @param {Token} token */
function table({ header, align, rows }) {
  /** @param {any} cell @param {number} column @param {string} name */
  const cellOf = (cell, column, name) => element(name, inlines(cell.tokens), align[column] ? { class: `align-${align[column]}` } : {});
  const head = element('thead', [element('tr', header.map((/** @type {any} */ cell, /** @type {number} */ at) => cellOf(cell, at, 'th')))]);
  const body = rows.map((/** @type {any[]} */ row) => element('tr', row.map((cell, at) => cellOf(cell, at, 'td'))));
  // A wide table scrolls on its own, also with the keyboard.
  return element('div', [element('table', [head, element('tbody', body)])], { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' });
}

/** @param {Token} token @param {boolean} settled */
function list({ ordered, start, items }, settled) {
  const made = items.map((/** @type {any} */ item) => {
    const children = item.tokens.filter((/** @type {Token} */ token) => token.type !== 'checkbox').flatMap((/** @type {Token} */ token) => (
      token.type === 'text' ? inlines(token.tokens ?? [token]) : blocks([token], settled)
    ));
    if (!item.task) return element('li', children);
    const box = element('input', [], { type: 'checkbox', disabled: '', 'aria-label': item.checked ? 'done' : 'to do', ...(item.checked ? { checked: '' } : {}) });
    return element('li', [box, ' ', ...children], { class: 'task' });
  });
  if (!ordered) return element('ul', made);
  const all = element('ol', made, { start: String(start) });
  // As wide as its last number.
  all.style.paddingInlineStart = `max(1.5rem, ${String(start + made.length - 1).length + 1.5}ch)`;
  return all;
}

/**
 * @param {Token[]} tokens
 * @param {boolean} [settled] false: the last block may still grow
 * @returns {Node[]}
 */
export function blocks(tokens, settled = true) {
  return within(tokens, () => {
    const made = tokens.flatMap((token) => block(token, settled));
    // Each block has the direction of its script, with all that is in it.
    if (depth === 1) for (const one of made) one.dir = 'auto';
    return made;
  });
}

/** @param {Token} token @param {boolean} settled @returns {HTMLElement[]} */
function block(token, settled) {
  switch (token.type) {
    case 'space': case 'def': return [];
    // Two levels lower, below the page's own headings.
    case 'heading': return [element(`h${Math.min(6, token.depth + 2)}`, inlines(token.tokens), { class: `depth-${token.depth}` })];
    case 'paragraph': return [element('p', inlines(token.tokens))];
    case 'text': return [element('p', inlines(token.tokens ?? [token]))];
    case 'code': return [codeElement(token.text, (token.lang ?? '').split(/\s/)[0] ?? '', settled)];
    case 'blockquote': return [element('blockquote', blocks(token.tokens ?? [], settled))];
    case 'list': return [list(token, settled)];
    case 'table': return [table(token)];
    case 'hr': return [element('hr')];
    case 'blockMath': return [mathElement(token.text, true)];
    default: return [element('p', [token.raw.trimEnd()], { class: 'raw' })];
  }
}
