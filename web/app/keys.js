// What Escape means: it closes the innermost thing that is open, and only then stops an answer.

/**
 * Whether the key closes what the caller shows. Then it means nothing else. While a word is
 * composed, as in Japanese or Chinese, Escape only ends that; the browser closes a dialog itself.
 * @param {KeyboardEvent} event
 */
export function closes(event) {
  if (event.key !== 'Escape' || event.isComposing || event.defaultPrevented || document.querySelector('dialog[open]')) return false;
  event.preventDefault();
  return true;
}
