// Tokens whose grammar needs more work than the other rows of a step should wait for: worked out on
// a pool thread, one at a time, so that the rest of the pool stays free for those who arrive.
// Called by the engine between steps.
import { RecuaError } from '../../errors.js';
import type { Generation } from './generation.js';

/** What a step gives for such a token. */
export const undecided = -3;

export class Decisions {
  readonly #done: (request: Generation, outcome: number | RecuaError) => void;
  #last: Promise<void> = Promise.resolve();

  /** `done` is told of each, also of one that nobody waits for any more. */
  constructor(done: (request: Generation, outcome: number | RecuaError) => void) {
    this.#done = done;
  }

  /** The step gave `given` tokens before this one. */
  add(request: Generation, given: number): void {
    request.sequence.defer(given);
    this.#last = this.#last
      .then(() => request.sampler.decide())
      .catch((error: unknown) => RecuaError.from(error))
      .then((outcome) => this.#done(request, outcome));
  }
}
