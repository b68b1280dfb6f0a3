// Formulas as MathML, which browsers draw themselves. Temml, which reads TeX, is loaded with the
// first formula; until then, and where it cannot read one, the formula is shown as it was written.
import { element } from './elements.js';

/** @type {Promise<any> | undefined} */
let temml;

/**
 * @param {string} source TeX
 * @param {boolean} displayed on lines of its own
 */
export function mathElement(source, displayed) {
  const made = element(displayed ? 'div' : 'span', [element('code', [source.trim()])], { class: 'math' });
  temml ??= import('../vendor/temml.js');
  void temml.then(({ default: reader }) => {
    const drawn = document.createElement('span');
    reader.render(source.trim(), drawn, { displayMode: displayed, throwOnError: true, maxExpand: 200, maxSize: [20, 20], trust: false });
    made.replaceChildren(...drawn.childNodes);
  }).catch(() => undefined);
  return made;
}
