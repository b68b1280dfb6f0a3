// What Escape means: it closes the innermost thing that is open, and only then stops an answer. And
// which keys belong to a word that is being composed, as in Japanese or Chinese.

/**
 * Whether the key composes a word, or ends that. Safari tells of the key that ends it only after
 * the end; then its code is 229.
 * @param {KeyboardEvent} event
 */
export const composes = (event) => event.isComposing || event.keyCode === 229;

/**
 * Whether the key closes what the caller shows. Then it means nothing else. While a word is
 * composed, Escape only ends that; the browser closes a dialog itself.
 * @param {KeyboardEvent} event
 */
export function closes(event) {
  if (event.key !== 'Escape' || composes(event) || event.defaultPrevented || document.querySelector('dialog[open]')) return false;
  event.preventDefault();
  return true;
}
