// The running requests. A stop lets them complete; a client that disconnects ends its own. Made by
// app; routes enter their requests, listen drains them. Gateway process.
import type { Response } from 'express';
import { RecuaError } from '../../errors.js';
import { IdleWork, reasonOf } from './inner.js';

/**
 * A client that reads no byte of the pending data for this long is disconnected, and its work ends.
 */
const stalledClientMs = 2 * 60_000;
/** The same while the server stops: the answer may be complete, and only the client slow. */
const stalledWhileStoppingMs = 1_000;

export class Traffic {
  readonly #running = new Map<Response, AbortController>();
  readonly #whenIdle: (() => void)[] = [];
  #lines = 0;
  #watch: () => void = () => undefined;
  readonly #whenDraining: (() => unknown)[] = [];
  /** Other work that ends with a stop. */
  #stopping: Promise<unknown> = Promise.resolve();
  #draining = false;
  #total = 0;

  /** Requests that began work since the start, including failed ones. */
  get total(): number {
    return this.#total;
  }

  get draining(): boolean {
    return this.#draining;
  }

  get size(): number {
    return this.#running.size;
  }

  /** Running requests except lines of batches. */
  get people(): number {
    return this.#running.size - this.#lines;
  }

  /** Calls `watch` when one of these arrives or leaves. Takes a single listener. */
  watchPeople(watch: () => void): void {
    this.#watch = watch;
  }

  /** Calls `listener` when a stop begins; the stop waits for the promise that it returns. */
  onDrain(listener: () => unknown): void {
    this.#whenDraining.push(listener);
  }

  /** Throws `shutting_down` once a drain has begun. */
  admit(): void {
    if (this.#draining) throw new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
  }

  /**
   * Holds a request until its response is flushed or its client is gone. The signal aborts when the
   * work is no longer useful. The response must have its socket: see turns.
   */
  enter(res: Response): AbortSignal {
    this.admit();
    const controller = new AbortController();
    this.#running.set(res, controller);
    const isLine = reasonOf(res.req) instanceof IdleWork;
    if (isLine) this.#lines++;
    else this.#watch();
    const leave = (): void => {
      if (!this.#running.delete(res)) return;
      if (isLine) this.#lines--;
      else this.#watch();
      if (!res.writableFinished) controller.abort(new RecuaError('cancelled', 'The client went away before the answer was complete.'));
      if (this.#running.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    };
    // A socket that closed while the body was parsed has already emitted 'close'.
    if (res.destroyed || res.socket?.destroyed) leave();
    else {
      res.once('close', leave);
      this.#watchReader(res);
    }
    return controller.signal;
  }

  /** Counts a request that began work. */
  count(): void {
    this.#total++;
  }

  /** Ends the work of a request, which fails with `reason`. */
  cancel(res: Response, reason: RecuaError): void {
    this.#running.get(res)?.abort(reason);
  }

  /** Refuses new requests from now on, and stops waiting for clients that read nothing. */
  drain(): void {
    this.#draining = true;
    this.#stopping = Promise.allSettled(this.#whenDraining.map((listener) => listener()));
    for (const res of this.#running.keys()) res.setTimeout(this.#stalledMs);
  }

  get #stalledMs(): number {
    return this.#draining ? stalledWhileStoppingMs : stalledClientMs;
  }

  /** Closes the connection if data is pending and the client reads none of it for too long. */
  #watchReader(res: Response): void {
    // Node's socket timer restarts with each byte that the kernel accepts.
    res.setTimeout(this.#stalledMs, () => {
      if (res.socket && res.socket.writableLength > 0) res.destroy();
      // The client waits for the server, not the other way around. The timer has fired, so it must
      // be set again.
      else res.setTimeout(this.#stalledMs);
    });
  }

  /** Ends all running requests with `shutting_down`. */
  cancelAll(): void {
    for (const controller of this.#running.values()) {
      controller.abort(new RecuaError('shutting_down', 'The server stopped before the answer was complete.'));
    }
  }

  /** Resolves when nothing runs any more, after at most `withinMs`. */
  async idle(withinMs: number): Promise<void> {
    const empty = this.#running.size === 0 ? undefined : new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)));
    await Promise.race([late, Promise.all([empty, this.#stopping])]);
    clearTimeout(timer);
  }
}

/**
 * The error to report: the reason of the abort (`shutting_down`, `cancelled`), if there was one,
 * instead of the error that the engine made of it.
 */
export function failureOf(thrown: unknown, signal: AbortSignal): RecuaError {
  return RecuaError.from(signal.aborted ? signal.reason : thrown);
}
