// Tokens of answers that have come and are not told yet: the text work of a step, which is done
// while the next one computes. Used by the engine's loop.
import type { Pieces } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { Generation } from './generation.js';
import type { Outbox } from './outbox.js';

export class TextWork {
  readonly #active: Map<number, Generation | undefined>;
  readonly #outbox: Outbox;
  readonly #pieces: Pieces;
  readonly #fresh = new Set<Generation>();
  /** Tokens that all requests were given. */
  tokens = 0;

  /** `active` are the loop's requests; one that was answered leaves them here. */
  constructor(active: Map<number, Generation | undefined>, outbox: Outbox, pieces: Pieces) {
    this.#active = active;
    this.#outbox = outbox;
    this.#pieces = pieces;
  }

  /** Takes the tokens that a step gave; `draws` are the sampler's by now. */
  accept(request: Generation, tokens: Int32Array, draws: number, guesses: number): void {
    this.tokens += tokens.length;
    if (!request.accept(tokens, guesses, this.#pieces.flags, performance.now())) return;
    this.#fresh.add(request);
    this.#outbox.note(request.id, draws, tokens);
  }

  /** A request that has nothing but text work left. */
  add(request: Generation): void {
    this.#fresh.add(request);
  }

  /** Makes text of all there is, and tells it soon. */
  render(): void {
    for (const request of this.#fresh) {
      if (!this.#active.has(request.id)) continue;
      try {
        this.#outbox.gather((events) => request.render(this.#pieces, events));
      } catch (error) {
        request.sequence.finish();
        this.#active.delete(request.id);
        this.#outbox.fail(request.id, RecuaError.from(error));
      }
      if (request.answered) this.#active.delete(request.id);
    }
    this.#fresh.clear();
    this.#outbox.flushSoon();
  }
}
