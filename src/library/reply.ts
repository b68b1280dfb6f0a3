// A running answer: iterate it to stream, await it for the whole result, or both. Made by Model.
import { setMaxListeners } from 'node:events';
import { DeltaQueue } from '../engine/gateway/answer.js';
import type { Answer } from '../engine/api.js';
import type { Delta } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';

/**
 * The next part of an answer. One delta may have several fields; thinking precedes text.
 */
export interface ReplyDelta {
  /** Text to show. */
  content?: string;
  /** Thinking before the answer, from models that think. */
  reasoning?: string;
  /**
   * Parts of tool calls. `index` identifies the call within the answer. `id` and `name` come with
   * the call's first part; `arguments` are pieces of JSON text to concatenate.
   */
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
}

/** Recognizes an AbortSignal of any realm. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  const signal = value as Partial<AbortSignal> | null | undefined;
  return typeof signal === 'object' && signal !== null && typeof signal.aborted === 'boolean' && typeof signal.addEventListener === 'function';
}

/** Many calls may share one; Node reports more than ten listeners as a leak. */
export function shareable(signal: AbortSignal): AbortSignal {
  if (signal instanceof EventTarget) setMaxListeners(0, signal);
  return signal;
}

/** Lets a reply's work emit deltas and run engine answers under the reply's signal. */
export interface ReplyWork {
  readonly signal: AbortSignal;
  /** Reads an answer to its end. */
  read(answer: Answer, seen: (delta: Delta) => ReplyDelta): Promise<void>;
}

/**
 * A running answer: an async iterable of its parts and a promise of the whole result.
 *
 * The answer runs whether or not the program reads it. If it fails and the program neither awaits
 * nor iterates it, the error goes unnoticed. Iterate it only once; for a slow reader,
 * deltas are merged. Leaving the loop early cancels the answer, as does aborting the `signal`
 * option. Both ways of reading throw a `RecuaError`: `cancelled` after cancelling, `closed` after
 * `dispose()`, `model_crashed` if the answer repeatedly kills the engine process, or the reason why
 * the request cannot be answered. An error that a tool threw is passed on unchanged.
 */
export class Reply<Result> implements Promise<Result>, AsyncIterable<ReplyDelta> {
  readonly #result: Promise<Result>;
  readonly #deltas: DeltaQueue;
  readonly #controller = new AbortController();
  #isIterated = false;
  /** @hidden */
  readonly [Symbol.toStringTag] = 'Reply';

  /** @internal */
  constructor(given: unknown, work: (work: ReplyWork) => Promise<Result>) {
    // The work itself rejects an invalid signal, along with the other options.
    const signal = isAbortSignal(given) ? shareable(given) : undefined;
    this.#deltas = new DeltaQueue(() => this.cancel());
    const forward = (): void => this.cancel();
    if (signal?.aborted) this.cancel();
    else signal?.addEventListener('abort', forward, { once: true });
    this.#result = this.#run(work).finally(() => signal?.removeEventListener('abort', forward));
    // A program that only iterates gets the error from the iterator.
    this.#result.catch(() => {});
  }

  /** Stops the answer within one step. Has no effect on a complete answer. */
  cancel(): void {
    this.endWith(new RecuaError('cancelled', 'The answer was cancelled.'));
  }

  /**
   * Rejects with this error, unless the answer is complete.
   * @internal
   */
  endWith(error: RecuaError): void {
    this.#controller.abort(error);
  }

  /**
   * Yields the parts of the answer until it is complete.
   *
   * @throws RecuaError `invalid_usage` if it was iterated before
   */
  [Symbol.asyncIterator](): AsyncGenerator<ReplyDelta, void, undefined> {
    if (this.#isIterated)
      throw new RecuaError(
        'invalid_usage',
        'A Reply can be iterated only once, since it keeps no part that was read; await it for the whole result.',
      );
    this.#isIterated = true;
    return this.#deltas[Symbol.asyncIterator]();
  }

  /** @hidden */
  then<A = Result, B = never>(
    resolved?: ((result: Result) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#result.then(resolved, rejected);
  }

  /** @hidden */
  catch<B = never>(rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Result | B> {
    return this.#result.catch(rejected);
  }

  /** @hidden */
  finally(settled?: (() => void) | null): Promise<Result> {
    return this.#result.finally(settled);
  }

  async #run(work: (work: ReplyWork) => Promise<Result>): Promise<Result> {
    const { signal } = this.#controller;
    try {
      signal.throwIfAborted();
      // Begins at once: the program may change its messages after the call. A tool may go on, or
      // never end.
      const result = await Promise.race([
        rejectionOf(signal),
        work({
          signal,
          read: async (answer, seen) => {
            for await (const delta of answer) this.#deltas.push(seen(delta));
          },
        }),
      ]);
      this.#deltas.stop();
      return result;
    } catch (thrown) {
      const error: unknown = signal.aborted ? signal.reason : thrown;
      this.#deltas.stop({ thrown: error });
      throw error;
    }
  }
}

/** Rejects when the signal aborts. */
function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as RecuaError), { once: true }));
}
