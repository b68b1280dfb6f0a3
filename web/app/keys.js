// What Escape means: it closes the innermost thing that is open, and only then stops an answer. And
// which keys belong to a word that is being composed, as in Japanese or Chinese.

import { useLayoutEffect, useRef } from './html.js';

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

/** What Escape closes, the innermost last. @type {(() => void)[]} */
const openOnes = [];

addEventListener('keydown', (event) => {
  // A key that is held closes one thing.
  if (openOnes.length > 0 && !event.repeat && closes(event)) openOnes.at(-1)?.();
});

/**
 * Escape closes it, wherever the focus is, unless something that opened later is still open. An
 * outermost one is closed last, whenever it opened.
 * @param {boolean} isOpen @param {() => void} close @param {{ isOutermost?: boolean }} [options]
 */
export function useEscape(isOpen, close, { isOutermost = false } = {}) {
  const latest = useRef(close);
  latest.current = close;
  // Not after the next paint: a key may come before it.
  useLayoutEffect(() => {
    if (!isOpen) return;
    const one = () => latest.current();
    if (isOutermost) openOnes.unshift(one);
    else openOnes.push(one);
    return () => void openOnes.splice(openOnes.indexOf(one), 1);
  }, [isOpen]);
}
