// Expected requests: those being prepared, and those of clients whose answer has just ended, who
// often send the next one at once. The loop waits briefly for them, so that their prompts are read
// together: each step reads all weights, and prompt rows beside decoding rows take a pass of their
// own.
import type { Wakeup } from './wakeup.js';

/** The longest wait, both from its start and after the last answer ended. */
const mostMs = 20;
/** Estimated share of clients that send another request at once after an answer. */
const returning = 1 / 2;

export class Arrivals {
  readonly wakeup: Wakeup;
  #preparing = 0;
  #leaving = 0;
  #leftMs = -Infinity;

  /** The owner calls `wakeup` when a request has been prepared. */
  constructor(wakeup: Wakeup) {
    this.wakeup = wakeup;
  }

  /** A request arrived; `prepared` follows, also if it fails. */
  came(): void {
    this.#preparing++;
    if (this.#leaving > 0) this.#leaving--;
  }

  prepared(): void {
    this.#preparing--;
  }

  /** `count` answers ended just now. */
  left(count: number): void {
    const nowMs = performance.now();
    this.#leaving = count + (nowMs - this.#leftMs < mostMs ? this.#leaving : 0);
    this.#leftMs = nowMs;
  }

  /**
   * Waits for requests whose prompts can be read together with the present ones. Sharing a step
   * saves `savedMs`; `room` is the number of free sequences.
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
