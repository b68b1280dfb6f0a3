// The order of the queue: by priority, then by client. The client that has received the fewest
// tokens so far goes first, so that a client with many requests does not keep others waiting. These
// counters are from "Fairness in Serving Large Language Models" (Sheng et al., 2024). Pure.
import type { Asker } from '../protocol.js';
import type { Sequence } from './sequence.js';

/** A generated token counts as this many prompt tokens, as in the paper. */
const perGenerated = 2;
/** Most clients whose counters are kept. */
const mostRemembered = 1_000;

/** Stands for requests without an asker. */
export const anyone: Asker = { client: '', priority: 0 };

interface Entry extends Asker {
  /** In order of arrival. */
  number: number;
}

export class FairOrder {
  /** Waiting and running sequences. */
  readonly #entries = new Map<Sequence, Entry>();
  /** Tokens by client, without those of sequences in `#entries`. */
  readonly #served = new Map<string, number>();
  /**
   * A client that did not wait has at least this, so that it has saved up nothing: the lowest
   * counter of those that wait. While nobody waits, nobody is owed anything: then the highest.
   */
  #floor = 0;
  #arrived = 0;

  /** Clients with a counter. */
  get known(): number {
    return this.#served.size;
  }

  enter(sequence: Sequence, { client, priority }: Asker = anyone): void {
    const totals = this.#totals();
    const waiting = this.#raise(totals);
    if (!waiting.has(client)) {
      const before = this.#served.get(client) ?? 0;
      this.#served.delete(client);
      this.#served.set(client, before + Math.max(0, this.#floor - (totals.get(client) ?? before)));
    }
    this.#entries.set(sequence, { client, priority, number: this.#arrived++ });
    if (this.#served.size > mostRemembered) this.#forget();
  }

  /** The sequence must have entered. */
  clientOf(sequence: Sequence): string {
    return this.#entries.get(sequence)!.client;
  }

  leave(sequence: Sequence): void {
    const entry = this.#entries.get(sequence);
    if (!entry) return;
    this.#raise(this.#totals());
    this.#entries.delete(sequence);
    this.#served.set(entry.client, (this.#served.get(entry.client) ?? 0) + cost(sequence));
  }

  /** Sorts sequences that entered; the first is next. */
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

  /** Raises the floor, and returns the clients that wait. */
  #raise(totals: ReadonlyMap<string, number>): Set<string> {
    const waiting = new Set<string>();
    for (const [{ slot }, { client }] of this.#entries) if (slot < 0) waiting.add(client);
    const counters = Array.from(waiting, (client) => totals.get(client)!);
    this.#floor = Math.max(this.#floor, counters.length > 0 ? Math.min(...counters) : Math.max(0, ...totals.values()));
    return waiting;
  }

  /** The counter of each client that is present. */
  #totals(): Map<string, number> {
    const totals = new Map<string, number>();
    for (const [sequence, { client }] of this.#entries) totals.set(client, (totals.get(client) ?? this.#served.get(client) ?? 0) + cost(sequence));
    return totals;
  }

  /** Drops the oldest counters of clients that are gone. */
  #forget(): void {
    const present = new Set(Array.from(this.#entries.values(), ({ client }) => client));
    for (const client of this.#served.keys()) {
      if (this.#served.size <= mostRemembered) return;
      if (!present.has(client)) this.#served.delete(client);
    }
  }
}

/** 0 until it runs; then its uncached prompt tokens, plus its generated tokens times the weight. */
function cost({ slot, promptLength, cachedTokens, generated }: Sequence): number {
  return slot < 0 ? 0 : promptLength - cachedTokens + perGenerated * generated;
}
