// How much of the pool of threads (tokens, templates, grammars) long work may take. Node's pool
// works in the order of arrival: a few requests with megabytes of text, or with grammars that take
// their time, would keep every short one waiting. Used by the engine's loop and by embeddings.
import type { ChatRequest, CompletionRequest } from '../protocol.js';

/**
 * Of the pool's four threads. One more may decide a token (engine/loop/decisions), so that one is
 * left for short work.
 */
const mostAtOnce = 2;
/** Texts of so many characters take long. */
const longText = 64 * 1024;

export class PoolShare {
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** Waits for a turn; what it gives ends the turn. */
  async enter(): Promise<() => void> {
    if (this.#running < mostAtOnce) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    };
  }
}

/** Whether preparing it may take longer than others should wait. */
export function takesLong(request: ChatRequest | CompletionRequest): boolean {
  if (request.constraint.kind !== 'none') return true;
  if ('prompt' in request) return isLong([request.prompt]);
  return request.tools !== '' || isLong([JSON.stringify(request.templateKwargs), request.messages]);
}

export function isLong(texts: readonly { length: number }[]): boolean {
  return texts.reduce((sum, { length }) => sum + length, 0) >= longText;
}
