// Formulas as MathML, which browsers draw natively. Temml, which parses TeX, loads with the first
// formula. Until then, or if Temml cannot parse a formula, its source is shown.
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
