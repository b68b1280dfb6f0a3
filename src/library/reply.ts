// An answer as a program holds it: iterate it for what is new, await it for the whole, or both.
// Made by Model.
import { DeltaQueue } from '../engine/gateway/answer.js';
import type { Answer } from '../engine/api.js';
import type { Delta } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';

/**
 * What is new of an answer. A delta may hold several of these; what is said comes after what is
 * thought.
 */
export interface ReplyDelta {
  /** Text to show. */
  content?: string;
  /** Thoughts before the answer, of models that think. */
  reasoning?: string;
  /**
   * Parts of tool calls. `index` tells the calls of an answer apart; `id` and `name` come with a
   * call's first part, `arguments` are pieces of JSON text to concatenate.
   */
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
}

/** An abort signal, of this realm or another. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  const signal = value as Partial<AbortSignal> | null | undefined;
  return typeof signal === 'object' && signal !== null && typeof signal.aborted === 'boolean' && typeof signal.addEventListener === 'function';
}

/** Lets a reply's work hand out deltas and run answers of the engine under the reply's signal. */
export interface ReplyWork {
  readonly signal: AbortSignal;
  /** Reads an answer to its end. */
  read(answer: Answer, seen: (delta: Delta) => ReplyDelta): Promise<void>;
}

/**
 * A running answer: an async iterable of what is new, and a promise of the whole.
 *
 * It runs whether or not somebody reads it. Iterate it once; a slow reader gets deltas merged.
 * Leaving the loop early cancels the answer, and so does aborting the `signal` of its options. Both
 * ways of reading throw a `RecuaError`: `cancelled` after a cancel, `closed` after `dispose()`,
 * `model_crashed` where it ends the engine process again and again, or why the request cannot be
 * answered.
 */
export class Reply<Result> implements Promise<Result>, AsyncIterable<ReplyDelta> {
  readonly #result: Promise<Result>;
  readonly #deltas: DeltaQueue;
  readonly #controller = new AbortController();
  /** @hidden */
  readonly [Symbol.toStringTag] = 'Reply';

  /** @internal */
  constructor(given: unknown, work: (work: ReplyWork) => Promise<Result>) {
    // What is no signal the work refuses, with its other options.
    const signal = isAbortSignal(given) ? given : undefined;
    this.#deltas = new DeltaQueue(() => this.cancel());
    const forward = (): void => this.cancel();
    if (signal?.aborted) this.cancel();
    else signal?.addEventListener('abort', forward, { once: true });
    this.#result = this.#run(work).finally(() => signal?.removeEventListener('abort', forward));
    // Who only iterates meets the error there.
    this.#result.catch(() => {});
  }

  /** Stops the answer; the work for it ends within a step. No effect on one that is complete. */
  cancel(): void {
    this.#controller.abort(new RecuaError('cancelled', 'The answer was cancelled.'));
  }

  /** What is new, until the answer is complete. */
  [Symbol.asyncIterator](): AsyncGenerator<ReplyDelta, void, undefined> {
    return this.#deltas[Symbol.asyncIterator]();
  }

  /** @hidden */
  then<A = Result, B = never>(resolved?: ((result: Result) => A | PromiseLike<A>) | null, rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
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
      // Not in the constructor's turn, so that a wrong request rejects as any other failure does.
      await Promise.resolve();
      signal.throwIfAborted();
      const result = await work({
        signal,
        read: async (answer, seen) => {
          for await (const delta of answer) this.#deltas.push(seen(delta));
        },
      });
      this.#deltas.stop();
      return result;
    } catch (thrown) {
      const error: unknown = signal.aborted ? signal.reason : thrown;
      this.#deltas.stop({ thrown: error });
      throw error;
    }
  }
}
