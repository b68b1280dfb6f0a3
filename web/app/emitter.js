// Something that changes, and who looks at it. What the views share is built on it.
import { useEffect, useState } from './html.js';

export class Emitter {
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * Returns what ends it.
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
 * Draws the component again whenever the thing changes.
 * @template {Emitter} T
 * @param {T} emitter
 * @returns {T}
 */
export function useEmitter(emitter) {
  const [, draw] = useState(0);
  useEffect(() => emitter.watch(() => draw((count) => count + 1)), [emitter]);
  return emitter;
}
