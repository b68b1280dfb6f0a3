// How often an answer is drawn while it comes.

/** @typedef {import('./tree.js').Message} Message */

/** Between two drawings of an answer: what comes faster than it is read is drawn less often. */
const drawEveryMs = 30;
const drawFastEveryMs = 180;
/** Characters. */
const fastPerMs = 0.8;

export class Pace {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #drawn = { length: 0, ms: performance.now(), restMs: drawEveryMs };
  #message;
  #watchers;

  /** @param {Message} message @param {Set<() => void>} watchers who draw it */
  constructor(message, watchers) {
    this.#message = message;
    this.#watchers = watchers;
  }

  /** The message has more than before. */
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
