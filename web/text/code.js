// A code block: its language, a copy button, its colors. Colors come once the block is complete;
// highlight.js and each language load when first needed.
import { element } from './elements.js';
import { languages } from './languages.js';
import { copyText } from '../app/notice.js';

/** Characters. A longer block stays plain. */
const mostCoded = 50_000;
/** Characters of a line, or of words alone: some grammars take time with the square of these. */
const mostRun = 2_000;

/** @type {Map<string, Promise<any>>} */
const loaded = new Map();

/** @param {string} name @param {() => Promise<any>} load */
function once(name, load) {
  const known = loaded.get(name) ?? load();
  loaded.set(name, known);
  // A server that restarts may answer the next request.
  known.catch(() => loaded.delete(name));
  return known;
}

/** @param {string} language */
async function highlighter(language) {
  const { default: hljs } = await once('', () => import('../vendor/highlight.js'));
  const { default: grammar } = await once(language, () => import(`../vendor/languages/${language}.js`));
  if (!hljs.getLanguage(language)) hljs.registerLanguage(language, grammar);
  return hljs;
}

/**
 * Turns the tree of highlight.js into nodes: texts, and nested spans with a scope.
 * @param {any} node @returns {Node[]}
 */
function colors({ children = [] }) {
  return children.map((/** @type {any} */ child) => {
    if (typeof child === 'string') return document.createTextNode(child);
    const inside = colors(child);
    return child.scope ? element('span', inside, { class: `hl-${child.scope.split('.')[0]}` }) : element('span', inside);
  });
}

/** @param {HTMLElement} code @param {string} text @param {string} language */
async function paint(code, text, language) {
  const hljs = await highlighter(language);
  const { _emitter: tree } = hljs.highlight(text, { language, ignoreIllegals: true });
  code.replaceChildren(...colors(tree.root));
}

/** @param {string} text */
const hasLongRun = (text) => ['\n', /[^\w$\s]/].some((end) => text.split(end).some(({ length }) => length > mostRun));

/**
 * @param {string} text
 * @param {string} language as the model spells it
 * @param {boolean} settled
 */
export function codeElement(text, language, settled) {
  const code = element('code', [text]);
  const known = languages.get(language.toLowerCase());
  // If the highlighter does not load, the code stays plain.
  if (settled && known && text.length <= mostCoded && !hasLongRun(text)) void paint(code, text, known).catch(() => undefined);
  const copy = element('button', ['Copy'], { type: 'button', class: 'copy' });
  copy.addEventListener('click', () => void copyText(text));
  return element('div', [
    element('div', [element('span', [language.slice(0, 30) || 'text']), copy], { class: 'code-head' }),
    element('pre', [code], { tabindex: '0', role: 'region', 'aria-label': `Code${language ? `, ${language.slice(0, 30)}` : ''}` }),
  ], { class: 'code' });
}
