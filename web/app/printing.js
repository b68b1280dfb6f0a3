// The page is printed whole: before, parts that are drawn only near the window are drawn.

let printing = false;
/** @type {Set<() => void>} */
const waiting = new Set();

addEventListener('beforeprint', () => {
  printing = true;
  for (const one of [...waiting]) one();
});
addEventListener('afterprint', () => { printing = false; });

export const isPrinting = () => printing;

/**
 * Calls `draw` before the page is printed. Returns a function that ends this.
 * @param {() => void} draw
 */
export function beforePrint(draw) {
  waiting.add(draw);
  return () => void waiting.delete(draw);
}
