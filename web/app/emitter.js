// State that changes, and its listeners. All state that views share is built on it.
import { useLayoutEffect, useState } from './html.js';

export class Emitter {
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * Returns a function that removes the listener.
   * @param {() => void} listener
   */
  watch(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed() {
    for (const listener of this.#listeners) listener();
  }
}

/**
 * Redraws the component whenever the emitter changes.
 * @template {Emitter} T
 * @param {T} emitter
 * @returns {T}
 */
export function useEmitter(emitter) {
  const [, draw] = useState(0);
  // Not after the next paint: a change may come before it.
  useLayoutEffect(() => emitter.watch(() => draw((count) => count + 1)), [emitter]);
  return emitter;
}
