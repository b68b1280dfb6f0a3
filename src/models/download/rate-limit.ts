// Limits all connections of a download together to a number of bytes per second. Used by downloads
// with --limit-rate.
import { pause } from '../hub/retry.js';

export class RateLimit {
  readonly #bytesPerMs: number;
  /** When the bytes so far have used up their time, by performance.now(). */
  #busyUntilMs = 0;

  constructor(bytesPerSecond: number) {
    this.#bytesPerMs = bytesPerSecond / 1000;
  }

  /** Resolves when more may follow after the `bytes` that arrived. */
  async pass(bytes: number, signal?: AbortSignal): Promise<void> {
    const now = performance.now();
    this.#busyUntilMs = Math.max(this.#busyUntilMs, now) + bytes / this.#bytesPerMs;
    const aheadMs = this.#busyUntilMs - now;
    if (aheadMs >= 1) await pause(aheadMs, signal);
  }
}
