// Limits how many threads of the pool (tokens, templates, grammars) long work may take, and shares
// them among clients. Node's pool is first in, first out: a few requests with megabytes of text or
// slow grammars would keep every short one waiting. Used by the engine's loop and by embeddings.
import { poolThreads } from '../../system/thread-pool.js';
import type { ChatRequest, CompletionRequest } from '../protocol.js';

/** Of the pool's threads. Another one may decide a token (engine/loop/decisions). */
const mostAtOnce = 2;
/** Clients whose last turn is remembered. */
const mostTurns = 1_024;
/** Work that runs for this long is slow: it keeps only its own client waiting. */
const slowMs = 1_000;
/** Texts with this many characters count as long. */
const longText = 64 * 1024;
/** Templates may look through all turns and calls for each of them. */
const manyTurns = 64;

/** Slow work that may run besides: one thread is left for a token, one for short work. */
function mostSlow(): number {
  return Math.max(0, poolThreads() - mostAtOnce - 2);
}

interface Place {
  client: string;
  isSlow: boolean;
  enter(): void;
}

export class PoolShare {
  readonly #most: number;
  readonly #slow: number;
  /** In order of arrival. */
  readonly #waiting = new Set<Place>();
  readonly #inside = new Set<Place>();
  /** When each of the last clients entered last, as a number of entries; the longest ago first. */
  readonly #turns = new Map<string, number>();
  #entered = 0;

  /** At most `most` places, and `slow` more while as many have been taken for a second. */
  constructor(most = mostAtOnce, slow = mostSlow()) {
    this.#most = most;
    this.#slow = slow;
  }

  /**
   * Waits for a place, of which a client has at most `most`; clients take turns. Resolves to the
   * function that gives it back. `gone` gets a function that ends the wait: then there is no place.
   */
  async enter(client = '', gone?: (stop: () => void) => void): Promise<() => void> {
    let timer: NodeJS.Timeout | undefined;
    let place!: Place;
    await new Promise<void>((resolve) => {
      const enter = (): void => {
        if (this.#slow > 0) timer = setTimeout(() => this.#slowed(place), slowMs).unref();
        resolve();
      };
      place = { client, isSlow: false, enter };
      this.#waiting.add(place);
      gone?.(() => {
        if (this.#waiting.delete(place)) resolve();
      });
      this.#next();
    });
    return () => {
      clearTimeout(timer);
      if (this.#inside.delete(place)) this.#next();
    };
  }

  #slowed(place: Place): void {
    place.isSlow = true;
    this.#next();
  }

  /** Lets in whom there is room for. */
  #next(): void {
    const inside = new Map<string, number>();
    let quick = 0;
    for (const { client, isSlow } of this.#inside) {
      inside.set(client, (inside.get(client) ?? 0) + 1);
      if (!isSlow) quick++;
    }
    while (quick < this.#most && this.#inside.size < this.#most + this.#slow) {
      let first: Place | undefined;
      for (const place of this.#waiting) {
        if ((inside.get(place.client) ?? 0) < this.#most && (!first || this.#turn(place) < this.#turn(first))) first = place;
      }
      if (!first) break;
      this.#waiting.delete(first);
      this.#inside.add(first);
      this.#remember(first.client);
      inside.set(first.client, (inside.get(first.client) ?? 0) + 1);
      quick++;
      first.enter();
    }
    if (this.#waiting.size + this.#inside.size === 0) this.#turns.clear();
  }

  #remember(client: string): void {
    this.#turns.delete(client);
    this.#turns.set(client, ++this.#entered);
    if (this.#turns.size > mostTurns) this.#turns.delete(this.#turns.keys().next().value!);
  }

  #turn({ client }: Place): number {
    return this.#turns.get(client) ?? 0;
  }
}

/** Whether preparing the request may take longer than other requests should wait. */
export function takesLong(request: ChatRequest | CompletionRequest): boolean {
  if (request.constraint.kind !== 'none' || hasLargeSampler(request)) return true;
  if ('prompt' in request) {
    const { prefix = '', suffix = '', extra = [] } = request.infill ?? {};
    return isLong([request.prompt, prefix, suffix, ...extra.flatMap(({ filename, text }) => [filename, text])]);
  }
  const turns = request.messages.match(/"(?:role|function)"/g)?.length ?? 0;
  return request.tools !== '' || turns >= manyTurns || isLong([JSON.stringify(request.templateKwargs), request.messages, request.prediction ?? '']);
}

/** DRY looks for its breakers in every token, and keeps those it finds: megabytes. */
export function hasLargeSampler({ sampling }: ChatRequest | CompletionRequest): boolean {
  return sampling.dryMultiplier > 0 && sampling.dryPenaltyLastN !== 0;
}

export function isLong(texts: readonly { length: number }[]): boolean {
  return texts.reduce((sum, { length }) => sum + length, 0) >= longText;
}
