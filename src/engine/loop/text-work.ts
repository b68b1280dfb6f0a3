// The text work of a step's tokens, done while the next step computes. Used by the engine's loop.
import type { Pieces } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { ActiveRequests } from './active-requests.js';
import type { Generation } from './generation.js';
import type { Outbox } from './outbox.js';

export class TextWork {
  readonly #active: ActiveRequests;
  readonly #outbox: Outbox;
  readonly #pieces: Pieces;
  readonly #fresh = new Set<Generation>();
  /** Tokens generated for all requests. */
  tokens = 0;

  /** `active`: the loop's requests; answered ones are removed here. */
  constructor(active: ActiveRequests, outbox: Outbox, pieces: Pieces) {
    this.#active = active;
    this.#outbox = outbox;
    this.#pieces = pieces;
  }

  /** Takes a step's tokens; `draws`: random numbers that the sampler has drawn so far. */
  accept(request: Generation, tokens: Int32Array, draws: number, guesses: number, nowMs: number): void {
    this.tokens += tokens.length;
    if (!request.accept(tokens, guesses, this.#pieces.flags, nowMs)) return;
    this.#fresh.add(request);
    this.#outbox.note(request.id, draws, tokens);
  }

  /** Adds a request that has only text work left. */
  add(request: Generation): void {
    this.#fresh.add(request);
  }

  /** Ends a request with an error, behind all text that it has. */
  fail(request: Generation, error: RecuaError): void {
    this.render();
    if (!this.#active.has(request.id)) return;
    this.#active.delete(request.id);
    this.#outbox.gather((events) => request.flush(events));
    this.#outbox.fail(request.id, error);
  }

  /** Renders all new tokens; the events go out soon. */
  render(): void {
    for (const request of this.#fresh) {
      if (!this.#active.has(request.id)) {
        request.abandon();
        continue;
      }
      try {
        this.#outbox.gather((events) => request.render(this.#pieces, events));
      } catch (error) {
        request.sequence.finish();
        this.#active.delete(request.id);
        request.abandon();
        this.#outbox.fail(request.id, RecuaError.from(error));
      }
      if (request.answered) this.#active.delete(request.id);
    }
    this.#fresh.clear();
    this.#outbox.flushSoon();
  }
}
