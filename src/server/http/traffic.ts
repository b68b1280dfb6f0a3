// The running requests. A stop lets them complete; a client that disconnects ends its own, and one
// that reads nothing is disconnected. Made by app; routes enter their requests, listen drains them.
// Gateway process.
import { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { IdleWork, reasonOf } from './inner.js';
import { Probers } from './probers.js';

/**
 * A client that reads no byte of the pending data for this long is disconnected, and its work ends.
 */
const stalledClientMs = 2 * 60_000;
/** The same while the server stops: the answer may be complete, and only the client slow. */
const stalledWhileStoppingMs = 1_000;

/**
 * `line`: of a batch. `transfer`: of a file, which computes nothing, so that batches go on beside
 * it.
 */
type Work = 'answer' | 'line' | 'transfer';

/** How often in that time it is checked. */
const looksPerStall = 24;

/** A response, or the connection of a WebSocket. */
interface Watched {
  socket: Socket | null;
  once(event: 'close', listener: () => void): unknown;
  destroy(): unknown;
}

interface Progress {
  sent: string | undefined;
  /** When `sent` was first seen. */
  sinceMs: number;
}

/** Node's own, of a socket. */
interface Handle {
  writeQueueSize?: number;
  _parent?: Handle;
}

interface Running {
  controller: AbortController;
  work: Work;
}

export class Traffic {
  readonly #patienceMs: number;
  /** Everything that is not flushed yet, also replies to requests that do no work. */
  readonly #open = new Map<Watched, Progress>();
  #looking: NodeJS.Timeout | undefined;
  readonly #running = new Map<Response, Running>();
  /** Of all requests, also those whose clients are gone. */
  readonly #handlers = new Set<Promise<unknown>>();
  readonly #whenIdle: (() => void)[] = [];
  #watch: () => void = () => undefined;
  readonly #whenDraining: (() => unknown)[] = [];
  #refuseArriving: (error: RecuaError) => void = () => undefined;
  /** Other work that ends with a stop. */
  #stopping: Promise<unknown> = Promise.resolve();
  #draining = false;
  readonly probers = new Probers();
  #total = 0;

  /** `patienceMs`: how long a client may read nothing of its reply. */
  constructor(patienceMs = stalledClientMs) {
    this.#patienceMs = patienceMs;
  }

  /** Requests that began work since the start, including failed ones. */
  get total(): number {
    return this.#total;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Running requests except transfers. */
  get size(): number {
    return this.people + this.#count('line');
  }

  /** Running requests except transfers and lines of batches. */
  get people(): number {
    return this.#count('answer');
  }

  #count(work: Work): number {
    let count = 0;
    for (const one of this.#running.values()) if (one.work === work) count++;
    return count;
  }

  /** Calls `watch` when one of these arrives or leaves. Takes a single listener. */
  watchPeople(watch: () => void): void {
    this.#watch = watch;
  }

  /** Calls `listener` when a stop begins; the stop waits for the promise that it returns. */
  onDrain(listener: () => unknown): void {
    this.#whenDraining.push(listener);
  }

  /** Calls `refuse` when a stop waits no longer for bodies to arrive. Takes a single listener. */
  onLastBodies(refuse: (error: RecuaError) => void): void {
    this.#refuseArriving = refuse;
  }

  /** Throws `shutting_down` once a drain has begun. */
  admit(): void {
    if (this.#draining) throw stopping();
  }

  /**
   * Holds a request until its response is flushed or its client is gone. The signal aborts when the
   * work is no longer useful. The response must have its socket: see turns.
   */
  enter(res: Response, work: Work = reasonOf(res.req) instanceof IdleWork ? 'line' : 'answer'): AbortSignal {
    this.admit();
    const controller = new AbortController();
    this.#running.set(res, { controller, work });
    if (work === 'answer') this.#watch();
    const leave = (): void => {
      if (!this.#running.delete(res)) return;
      if (work === 'answer') this.#watch();
      if (!res.writableFinished) controller.abort(new RecuaError('cancelled', 'The client went away before the answer was complete.'));
      if (this.#running.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    };
    // A socket that closed while the body was parsed has already emitted 'close'.
    if (res.destroyed || res.socket?.destroyed) leave();
    else res.once('close', leave);
    return controller.signal;
  }

  /** The handler; a stop waits for its end even if its client is gone. */
  held(handler: RequestHandler): RequestHandler {
    return (req, res, next) => {
      const work: unknown = handler(req, res, next);
      if (!(work instanceof Promise)) return work;
      this.#handlers.add(work);
      const end = (): void => void this.#handlers.delete(work);
      work.then(end, end);
      return work as Promise<void>;
    };
  }

  /** Counts a request that began work. */
  count(): void {
    this.#total++;
  }

  /** Ends the work of a request, which fails with `reason`. */
  cancel(res: Response, reason: RecuaError): void {
    this.#running.get(res)?.controller.abort(reason);
  }

  /** Refuses new requests from now on, and stops waiting for clients that read nothing. */
  drain(): void {
    this.#draining = true;
    this.#stopping = Promise.allSettled(this.#whenDraining.map((listener) => listener()));
    clearTimeout(this.#looking);
    this.#look();
  }

  get #stalledMs(): number {
    return this.#draining ? stalledWhileStoppingMs : this.#patienceMs;
  }

  /** Express middleware, for every request: the response must have its socket, see turns. */
  readonly watchReader: RequestHandler = (req: Request, res: Response, next) => {
    // More parts of the server wait for the end than the ten that Node takes for a leak.
    res.setMaxListeners(20);
    // The server itself reads the others.
    if (reasonOf(req) === undefined) this.watch(res);
    next();
  };

  /** Closes it if data is pending and the client reads none of it for too long. */
  watch(reply: Watched): void {
    this.#open.set(reply, { sent: undefined, sinceMs: performance.now() });
    reply.once('close', () => this.#open.delete(reply));
    this.#looking ??= this.#lookLater();
  }

  #lookLater(): NodeJS.Timeout {
    return setTimeout(this.#look, this.#stalledMs / looksPerStall).unref();
  }

  /**
   * Not left to the timer of the socket, which restarts with each byte that the client sends, and
   * may take twice as long to see that a large write stalls.
   */
  readonly #look = (): void => {
    const nowMs = performance.now();
    for (const [reply, progress] of this.#open) {
      const sent = sentBy(reply.socket);
      if (sent === undefined || sent !== progress.sent) Object.assign(progress, { sent, sinceMs: nowMs });
      else if (nowMs - progress.sinceMs >= this.#stalledMs) reply.destroy();
    }
    this.#looking = this.#open.size > 0 ? this.#lookLater() : undefined;
  };

  /** Ends all running requests with `shutting_down`. */
  cancelAll(): void {
    for (const { controller } of this.#running.values()) {
      controller.abort(new RecuaError('shutting_down', 'The server stopped before the answer was complete.'));
    }
  }

  /** Resolves when nothing runs any more, after at most `withinMs`. */
  async idle(withinMs?: number): Promise<void> {
    const empty = this.#running.size === 0 ? undefined : new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    await orLate(Promise.all([empty, this.#stopping]), withinMs);
  }

  /** Requests whose bodies are still arriving get a `shutting_down`. */
  refuseArriving(): void {
    this.#refuseArriving(stopping());
  }

  /**
   * Resolves when the replies to requests are flushed, whether these do work or not, also to those
   * whose bodies are still arriving, except streams that go on; after at most `withinMs`.
   */
  async replied(withinMs: number): Promise<void> {
    const replies = [...this.#open.keys()].filter(isShort);
    await orLate(Promise.all(replies.map((one) => new Promise<void>((resolve) => one.once('close', resolve)))), withinMs);
  }

  /** Resolves when no handler runs any more, after at most `withinMs`. */
  async settled(withinMs?: number): Promise<void> {
    await orLate(Promise.allSettled(this.#handlers), withinMs);
  }
}

function isShort(one: Watched): boolean {
  if (!(one instanceof ServerResponse)) return false;
  const { req, headersSent, writableEnded } = one as Response;
  return !req.complete || !headersSent || writableEnded;
}

/** For all that comes once a stop has begun. */
export function stopping(): RecuaError {
  return new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
}

async function orLate(done: Promise<unknown>, withinMs?: number): Promise<void> {
  if (withinMs === undefined) return void await done;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)));
  await Promise.race([late, done]);
  clearTimeout(timer);
}

/** Changes with each byte that the kernel takes; undefined if none waits for it. */
function sentBy(socket: Socket | null): string | undefined {
  if (!socket || socket.writableLength === 0) return undefined;
  // Node has no public property for the rest of a write in progress. Below TLS is another handle.
  const { _handle: handle } = socket as unknown as { _handle?: Handle | null };
  return `${socket.bytesWritten - socket.writableLength} ${handle?.writeQueueSize} ${handle?._parent?.writeQueueSize}`;
}

/**
 * The error to report: the reason of the abort (`shutting_down`, `cancelled`), if there was one,
 * instead of the error that the engine made of it.
 */
export function failureOf(thrown: unknown, signal: AbortSignal): RecuaError {
  return RecuaError.from(signal.aborted ? signal.reason : thrown);
}

/** Waits for work that no signal ends; rejects with the reason once the signal aborts. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(RecuaError.from(signal.reason));
    signal.addEventListener('abort', end, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end));
    if (signal.aborted) end();
  });
}
