// Limits how many threads of the pool (tokens, templates, grammars) long work may take. Node's pool
// is first in, first out: a few requests with megabytes of text or slow grammars would keep every
// short one waiting. Used by the engine's loop and by embeddings.
import type { ChatRequest, CompletionRequest } from '../protocol.js';

/**
 * Of the pool's four threads. Another one may decide a token (engine/loop/decisions), which leaves
 * one for short work.
 */
const mostAtOnce = 2;
/** Texts with this many characters count as long. */
const longText = 64 * 1024;

export class PoolShare {
  readonly #mostAtOnce: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(most = mostAtOnce) {
    this.#mostAtOnce = most;
  }

  /** Waits for a turn. Resolves to the function that ends it. */
  async enter(): Promise<() => void> {
    if (this.#running < this.#mostAtOnce) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    };
  }
}

/** Whether preparing the request may take longer than other requests should wait. */
export function takesLong(request: ChatRequest | CompletionRequest): boolean {
  if (request.constraint.kind !== 'none' || hasLargeSampler(request)) return true;
  if ('prompt' in request) {
    const { prefix = '', suffix = '', extra = [] } = request.infill ?? {};
    return isLong([request.prompt, prefix, suffix, ...extra.flatMap(({ filename, text }) => [filename, text])]);
  }
  return request.tools !== '' || isLong([JSON.stringify(request.templateKwargs), request.messages, request.prediction ?? '']);
}

/** DRY looks for its breakers in every token, and keeps those it finds: megabytes. */
export function hasLargeSampler({ sampling }: ChatRequest | CompletionRequest): boolean {
  return sampling.dryMultiplier > 0 && sampling.dryPenaltyLastN !== 0;
}

export function isLong(texts: readonly { length: number }[]): boolean {
  return texts.reduce((sum, { length }) => sum + length, 0) >= longText;
}
