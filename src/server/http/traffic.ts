// The requests at work, so that a stop can let them end, and a client's leaving can end its own.
// Made by app; routes enter their requests, listen drains them. Gateway process.
import type { Response } from 'express';
import { RecuaError } from '../../errors.js';
import { IdleWork, reasonOf } from './inner.js';

/**
 * A client that takes nothing of what is there for it is given up after so long, and its work with
 * it.
 */
const stalledClientMs = 2 * 60_000;
/** The same while the server stops: its answer may be complete, and only its client late. */
const stalledWhileStoppingMs = 1_000;

export class Traffic {
  readonly #running = new Map<Response, AbortController>();
  readonly #whenIdle: (() => void)[] = [];
  #lines = 0;
  #watch: () => void = () => undefined;
  readonly #whenDraining: (() => unknown)[] = [];
  /** What else ends with a stop. */
  #stopping: Promise<unknown> = Promise.resolve();
  #draining = false;
  #total = 0;

  /** Requests that came to work since the start, those that failed included. */
  get total(): number {
    return this.#total;
  }

  get draining(): boolean {
    return this.#draining;
  }

  get size(): number {
    return this.#running.size;
  }

  /** Requests that somebody waits for. */
  get people(): number {
    return this.#running.size - this.#lines;
  }

  /** Called when one of these comes or goes; for one listener. */
  watchPeople(watch: () => void): void {
    this.#watch = watch;
  }

  /** Called when a stop begins; that waits for what the listener returns. */
  onDrain(listener: () => unknown): void {
    this.#whenDraining.push(listener);
  }

  /** Throws `shutting_down` once a drain has begun. */
  admit(): void {
    if (this.#draining) throw new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
  }

  /**
   * Holds a request until its response is flushed or its client gone. The signal aborts when its
   * work has become useless. The response must have its socket: see turns.
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
    // A socket that closed while the body was parsed has had its 'close' already.
    if (res.destroyed || res.socket?.destroyed) leave();
    else {
      res.once('close', leave);
      this.#watchReader(res);
    }
    return controller.signal;
  }

  /** Counts a request that came to work. */
  count(): void {
    this.#total++;
  }

  /** Ends one request's work: it fails with `reason`. */
  cancel(res: Response, reason: RecuaError): void {
    this.#running.get(res)?.abort(reason);
  }

  /** From now on nothing enters, and clients that take nothing are not waited for. */
  drain(): void {
    this.#draining = true;
    this.#stopping = Promise.allSettled(this.#whenDraining.map((listener) => listener()));
    for (const res of this.#running.keys()) res.setTimeout(this.#stalledMs);
  }

  get #stalledMs(): number {
    return this.#draining ? stalledWhileStoppingMs : stalledClientMs;
  }

  /** Closes the connection once data has waited for so long of which the client took not a byte. */
  #watchReader(res: Response): void {
    // Node's own clock for sockets: it begins anew with each byte that the kernel takes of what is
    // written.
    res.setTimeout(this.#stalledMs, () => {
      if (res.socket && res.socket.writableLength > 0) res.destroy();
      // The answer is not ready: its client waits for us. The clock stands still until it is set
      // again.
      else res.setTimeout(this.#stalledMs);
    });
  }

  /** Ends all that runs with `shutting_down`. */
  cancelAll(): void {
    for (const controller of this.#running.values()) {
      controller.abort(new RecuaError('shutting_down', 'The server stopped before the answer was complete.'));
    }
  }

  /** Resolves when nothing runs, at the latest after `withinMs`. */
  async idle(withinMs: number): Promise<void> {
    const empty = this.#running.size === 0 ? undefined : new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)));
    await Promise.race([late, Promise.all([empty, this.#stopping])]);
    clearTimeout(timer);
  }
}

/**
 * The error to tell: an abort's own reason (`shutting_down`, `cancelled`) before what the engine
 * made of it.
 */
export function failureOf(thrown: unknown, signal: AbortSignal): RecuaError {
  return RecuaError.from(signal.aborted ? signal.reason : thrown);
}
