// Holds all connections of a download together to so many bytes per second. Used by downloads with
// --limit-rate.
import { pause } from '../hub/retry.js';

export class RateLimit {
  readonly #bytesPerMs: number;
  /** When everything that passed so far has had its time, on the clock of performance.now(). */
  #busyUntilMs = 0;

  constructor(bytesPerSecond: number) {
    this.#bytesPerMs = bytesPerSecond / 1000;
  }

  /** Resolves when `bytes` that have arrived may be followed by more. */
  async pass(bytes: number, signal?: AbortSignal): Promise<void> {
    const now = performance.now();
    this.#busyUntilMs = Math.max(this.#busyUntilMs, now) + bytes / this.#bytesPerMs;
    const aheadMs = this.#busyUntilMs - now;
    if (aheadMs >= 1) await pause(aheadMs, signal);
  }
}
