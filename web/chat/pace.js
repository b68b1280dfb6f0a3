// How often a growing answer is redrawn.

/** @typedef {import('./tree.js').Message} Message */

/** Pause between two redraws. Text that arrives faster than anyone reads is drawn less often. */
const drawEveryMs = 30;
const drawFastEveryMs = 220;
/** Characters per millisecond. */
const fastPerMs = 0.8;

export class Pace {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #drawn = { length: 0, ms: performance.now(), restMs: drawEveryMs };
  #message;
  #watchers;

  /** @param {Message} message @param {Set<() => void>} watchers redraw the answer */
  constructor(message, watchers) {
    this.#message = message;
    this.#watchers = watchers;
  }

  /** Call after the message has grown. */
  grown = () => {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const ms = performance.now();
      const length = this.#message.content.length + (this.#message.reasoning?.length ?? 0);
      const isFast = (length - this.#drawn.length) / (ms - this.#drawn.ms) > fastPerMs;
      this.#drawn = { length, ms, restMs: isFast ? drawFastEveryMs : drawEveryMs };
      for (const watcher of this.#watchers) watcher();
    }, this.#drawn.restMs);
  };

  close() {
    clearTimeout(this.#timer);
  }
}
