// Tokens whose grammar needs more work than the other rows of a step should wait for. A pool thread
// decides them, one at a time, so that the rest of the pool stays free for new requests. Called by
// the engine between steps.
import { RecuaError } from '../../errors.js';
import type { Generation } from './generation.js';

/** A step's result for such a token. */
export const undecided = -3;

export class Decisions {
  readonly #done: (request: Generation, outcome: number | RecuaError) => void;
  #last: Promise<void> = Promise.resolve();

  /** Calls `done` for each, even if its request is gone. */
  constructor(done: (request: Generation, outcome: number | RecuaError) => void) {
    this.#done = done;
  }

  /** `given`: tokens that the step produced before this one. */
  add(request: Generation, given: number): void {
    request.sequence.defer(given);
    this.#last = this.#last
      .then(() => request.sampler.decide())
      .catch((error: unknown) => RecuaError.from(error))
      .then((outcome) => this.#done(request, outcome));
  }
}
