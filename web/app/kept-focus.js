// Keeps the keyboard's place when the element that has the focus goes away: an editor closes, or
// another version of a message is shown. Browsers would give the focus to the whole document.

/** Where to go from an element that is gone, or is disabled now. @type {Record<string, string[]>} */
const others = {
  'Previous version': ['Next version'],
  'Next version': ['Previous version'],
};

/** The buttons that open an editor, where the focus was. */
const openers = ['Edit and resend', 'Edit answer'];

/** @param {Element} element */
const labelOf = (element) => element.getAttribute('aria-label') ?? element.textContent?.trim() ?? '';

/**
 * Returns a function that ends this.
 * @param {HTMLElement} box @param {() => void} otherwise moves the focus elsewhere
 * @param {string} [name] of the elements in the box that hold what has the focus
 */
export function keepFocus(box, otherwise, name = 'article') {
  /** The last element that the keyboard focused. @type {{ at: number, labels: string[] } | undefined} */
  let last;
  const items = () => [...box.querySelectorAll(name)];
  const note = (/** @type {FocusEvent} */ { target }) => {
    const element = /** @type {HTMLElement} */ (target);
    const item = element.closest(name);
    const label = labelOf(element);
    last = item && element.matches(':focus-visible')
      ? { at: items().indexOf(item), labels: element.closest('.editor') ? openers : [label, ...others[label] ?? []] }
      : undefined;
  };
  const forget = () => { last = undefined; };
  const leave = (/** @type {FocusEvent} */ { relatedTarget }) => {
    if (relatedTarget instanceof Node && !box.contains(relatedTarget)) forget();
  };
  let frame = 0;
  const settle = () => {
    frame = 0;
    if (!last || document.activeElement !== document.body) return;
    const { at, labels } = last;
    last = undefined;
    const buttons = [...items()[at]?.querySelectorAll('button') ?? []].filter((button) => !button.disabled);
    const found = labels.map((label) => buttons.find((button) => labelOf(button) === label)).find((button) => button);
    if (found) found.focus();
    else otherwise();
  };
  // What comes in place of the element may be drawn after it is gone.
  const observer = new MutationObserver(() => {
    if (last && document.activeElement === document.body) frame ||= requestAnimationFrame(settle);
  });
  observer.observe(box, { childList: true, subtree: true });
  box.addEventListener('focusin', note);
  box.addEventListener('focusout', leave);
  addEventListener('pointerdown', forget);
  return () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
    box.removeEventListener('focusin', note);
    box.removeEventListener('focusout', leave);
    removeEventListener('pointerdown', forget);
  };
}
