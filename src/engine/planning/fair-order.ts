// Whose request is next: those that ask for it come first, others wait behind all; among equals the
// client that was given the fewest tokens so far, so that one who asks for much keeps nobody else
// waiting. Such counters are from "Fairness in Serving Large Language Models" (Sheng et al., 2024).
// Pure.
import type { Asker } from '../protocol.js';
import type { Sequence } from './sequence.js';

/** What a generated token counts beside one of the prompt, as there. */
const perGenerated = 2;
/** Clients that are gone and still remembered for what they were given. */
const mostRemembered = 1_000;

/** Of requests that do not say who asks. */
export const anyone: Asker = { client: '', priority: 0 };

interface Entry extends Asker {
  /** By arrival. */
  number: number;
}

export class FairOrder {
  /** Those that wait or run. */
  readonly #entries = new Map<Sequence, Entry>();
  /** Tokens by client, without those of sequences that are still here. */
  readonly #served = new Map<string, number>();
  /** What those who come anew count as given: as much as the one here who was given least. */
  #floor = 0;
  #arrived = 0;

  /** Clients of whom it is remembered what they were given. */
  get known(): number {
    return this.#served.size;
  }

  enter(sequence: Sequence, { client, priority }: Asker = anyone): void {
    const totals = this.#totals();
    if (totals.size > 0) this.#floor = Math.max(this.#floor, Math.min(...totals.values()));
    if (!totals.has(client)) {
      const before = this.#served.get(client) ?? 0;
      this.#served.delete(client);
      this.#served.set(client, Math.max(before, this.#floor));
    }
    this.#entries.set(sequence, { client, priority, number: this.#arrived++ });
    if (this.#served.size > mostRemembered) this.#forget();
  }

  /** Of a sequence that entered. */
  clientOf(sequence: Sequence): string {
    return this.#entries.get(sequence)!.client;
  }

  leave(sequence: Sequence): void {
    const entry = this.#entries.get(sequence);
    if (!this.#entries.delete(sequence) || !entry) return;
    this.#served.set(entry.client, (this.#served.get(entry.client) ?? 0) + cost(sequence));
  }

  /** Of sequences that entered; the first is next. */
  sort(waiting: Sequence[]): void {
    const [first] = waiting;
    if (!first || waiting.length === 1) return;
    const entryOf = (sequence: Sequence): Entry => this.#entries.get(sequence)!;
    const { client, priority } = entryOf(first);
    if (waiting.every((one) => entryOf(one).client === client && entryOf(one).priority === priority)) return;
    const totals = this.#totals();
    waiting.sort((one, other) => {
      const [a, b] = [entryOf(one), entryOf(other)];
      return b.priority - a.priority || totals.get(a.client)! - totals.get(b.client)! || a.number - b.number;
    });
  }

  /** Of each client that is here. */
  #totals(): Map<string, number> {
    const totals = new Map<string, number>();
    for (const [sequence, { client }] of this.#entries) totals.set(client, (totals.get(client) ?? this.#served.get(client) ?? 0) + cost(sequence));
    return totals;
  }

  /** Of those that are gone the ones that came first. */
  #forget(): void {
    const present = new Set(Array.from(this.#entries.values(), ({ client }) => client));
    for (const client of this.#served.keys()) {
      if (this.#served.size <= mostRemembered) return;
      if (!present.has(client)) this.#served.delete(client);
    }
  }
}

/** Nothing until it runs; then the part of its prompt that was not cached, and what came of it. */
function cost({ slot, promptLength, cachedTokens, generated }: Sequence): number {
  return slot < 0 ? 0 : promptLength - cachedTokens + perGenerated * generated;
}
