// Who is about to ask: requests on their way through preparation, and clients whose answer has just
// ended, who often send their next at once. What comes together is read together: each step reads
// all weights, and rows of prompts beside rows that decode are a pass of their own.
import type { Wakeup } from './wakeup.js';

/** Nothing is waited for longer than this, nor after an answer has ended so long ago. */
const mostMs = 20;
/** Of the clients whose answer has ended, so many come back at once. */
const returning = 1 / 2;

export class Arrivals {
  readonly wakeup: Wakeup;
  #preparing = 0;
  #leaving = 0;
  #leftMs = -Infinity;

  /** `wakeup` is called when a request has been prepared. */
  constructor(wakeup: Wakeup) {
    this.wakeup = wakeup;
  }

  /** A request came; `prepared` follows, whatever becomes of it. */
  came(): void {
    this.#preparing++;
    if (this.#leaving > 0) this.#leaving--;
  }

  prepared(): void {
    this.#preparing--;
  }

  /** So many answers ended just now. */
  left(count: number): void {
    const nowMs = performance.now();
    this.#leaving = count + (nowMs - this.#leftMs < mostMs ? this.#leaving : 0);
    this.#leftMs = nowMs;
  }

  /**
   * Waits for those who may be read together with what is there, which saves `savedMs`; `room` is
   * for how many more there are sequences.
   */
  async gather(savedMs: number, room: number): Promise<void> {
    const startMs = performance.now();
    for (let nowMs = startMs; room > 0; nowMs = performance.now()) {
      let untilMs = startMs + mostMs;
      if (this.#preparing === 0) {
        if (this.#leaving === 0) return;
        untilMs = Math.min(startMs + Math.min(mostMs, savedMs * returning), this.#leftMs + mostMs);
      }
      if (nowMs >= untilMs) return;
      await this.wakeup.sleep(untilMs - nowMs);
    }
  }
}
