// Decides when lines of batches may run: while the server has no other requests, and has had none
// for a moment, since people ask follow-up questions. When other requests arrive, lines continue
// only if there is room for all; otherwise the newest give way and run again later.
import type { Traffic } from '../http/traffic.js';

/** How long the server must have had no other requests. */
const quietMs = 1_000;

export class Idle {
  readonly #traffic: Traffic;
  readonly #slots: number;
  readonly #quietMs: number;
  /** Oldest first. */
  readonly #lines: AbortController[] = [];
  readonly #waiting: (() => void)[] = [];
  #lastPersonMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(traffic: Traffic, slots: number, quiet = quietMs) {
    this.#traffic = traffic;
    this.#slots = slots;
    this.#quietMs = quiet;
    traffic.watchPeople(() => this.#look());
  }

  get slots(): number {
    return this.#slots;
  }

  /** Runs a line once it may. Its signal aborts when the line must give way or is stopped. */
  async line<Result>(stop: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const wake = (): void => this.#wake();
    stop.addEventListener('abort', wake, { once: true });
    try {
      while (!this.#mayStart()) {
        this.#schedule();
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
        stop.throwIfAborted();
      }
    } finally {
      stop.removeEventListener('abort', wake);
    }
    const own = new AbortController();
    const end = (): void => own.abort(stop.reason);
    stop.addEventListener('abort', end, { once: true });
    this.#lines.push(own);
    try {
      return await work(own.signal);
    } finally {
      stop.removeEventListener('abort', end);
      this.#lines.splice(this.#lines.indexOf(own), 1);
      this.#wake();
    }
  }

  #mayStart(): boolean {
    const { people, draining } = this.#traffic;
    return !draining && people === 0 && this.#lines.length < this.#slots && performance.now() - this.#lastPersonMs >= this.#quietMs;
  }

  /** A request of a client arrived or left. */
  #look(): void {
    const { people } = this.#traffic;
    this.#lastPersonMs = performance.now();
    const room = Math.max(0, this.#slots - people);
    for (const line of this.#lines.slice(room)) line.abort();
    if (this.#waiting.length > 0) this.#schedule();
  }

  /** Wakes the waiting lines once the server has been quiet long enough. */
  #schedule(): void {
    if (this.#traffic.people > 0 || this.#lines.length >= this.#slots) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wake(), Math.max(1, this.#lastPersonMs + this.#quietMs - performance.now() + 1));
    this.#timer.unref();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
