// Formulas as MathML, which browsers draw natively. Temml, which parses TeX, loads with the first
// formula. Until then, or if Temml cannot parse a formula, its source is shown.
import { element } from './elements.js';

/** @type {Promise<any> | undefined} */
let temml;

/** Few characters of these can make a formula of any size. */
const macros = /\\(?:[egx]?def|(?:re|provide)?newcommand|let|futurelet|providecommand|renewcommand)(?![a-zA-Z])/;
/** Longer formulas leave the page time to draw between them. */
const mostAtOnce = 500;

/**
 * @param {string} source TeX
 * @param {boolean} displayed on lines of its own
 */
export function mathElement(source, displayed) {
  const made = element(displayed ? 'div' : 'span', [element('code', [source.trim()])], { class: 'math' });
  if (macros.test(source)) return made;
  // A server that restarts may answer the next request.
  temml ??= import('../vendor/temml.js').catch((thrown) => {
    temml = undefined;
    throw thrown;
  });
  void temml.then(async ({ default: reader }) => {
    if (source.length > mostAtOnce) await new Promise((resolve) => setTimeout(resolve));
    const drawn = document.createElement('span');
    reader.render(source.trim(), drawn, { displayMode: displayed, throwOnError: true, maxExpand: 200, maxSize: [20, 20], trust: false });
    // A \label must not take the name of a part of the page.
    for (const labeled of drawn.querySelectorAll('[id]')) labeled.removeAttribute('id');
    made.replaceChildren(...drawn.childNodes);
  }).catch(() => undefined);
  return made;
}
