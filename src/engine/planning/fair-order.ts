// The order of the queue: answers that ran before a crash, then by priority, then by client. The
// client that has received the fewest tokens so far goes first, so that a client with many requests
// does not keep others waiting. These counters are from "Fairness in Serving Large Language Models"
// (Sheng et al., 2024). Pure.
import type { Asker } from '../protocol.js';
import type { Sequence } from './sequence.js';

/** A generated token counts as this many prompt tokens, as in the paper. */
const perGenerated = 2;
/** Most accounts whose counters are kept. */
const mostRemembered = 1_000;

/** Stands for requests without an asker. */
export const anyone: Asker = { client: '', priority: 0 };

interface Entry extends Asker {
  /** Of its client among requests of its priority: only these compete. */
  account: string;
  /** When it arrived; the first goes first. */
  arrived: number;
}

export class FairOrder {
  /** Waiting and running sequences. */
  readonly #entries = new Map<Sequence, Entry>();
  /** Tokens by account, without those of sequences in `#entries`. */
  readonly #served = new Map<string, number>();
  /**
   * A client that did not wait has at least this, so that it has saved up nothing: the lowest
   * counter of those that wait. While nobody waits, nobody is owed anything: then the highest.
   * By priority.
   */
  readonly #floors = new Map<number, number>();
  #arrived = 0;

  /** Accounts with a counter. */
  get known(): number {
    return this.#served.size;
  }

  /** `arrived`: any number that grows; by default the order of these calls. */
  enter(sequence: Sequence, { client, priority }: Asker = anyone, arrived = this.#arrived++): void {
    const account = `${priority} ${client}`;
    const totals = this.#totals();
    const waiting = this.#raise(totals, priority);
    if (!waiting.has(account)) {
      const before = this.#served.get(account) ?? 0;
      this.#served.delete(account);
      this.#served.set(account, before + Math.max(0, this.#floors.get(priority)! - (totals.get(account) ?? before)));
    }
    this.#entries.set(sequence, { account, client, priority, arrived });
    if (this.#served.size > mostRemembered) this.#forget();
  }

  /** The sequence must have entered. */
  entryOf(sequence: Sequence): Readonly<Asker & { arrived: number }> {
    return this.#entries.get(sequence)!;
  }

  leave(sequence: Sequence): void {
    const entry = this.#entries.get(sequence);
    if (!entry) return;
    this.#raise(this.#totals(), entry.priority);
    this.#entries.delete(sequence);
    this.#served.set(entry.account, (this.#served.get(entry.account) ?? 0) + cost(sequence));
  }

  /** Sorts sequences that entered; the first is next. */
  sort(waiting: Sequence[]): void {
    const [first] = waiting;
    if (!first || waiting.length === 1) return;
    const entryOf = (sequence: Sequence): Entry => this.#entries.get(sequence)!;
    const { client, priority } = entryOf(first);
    const { continues } = first;
    if (waiting.every((one, at) => {
      const entry = entryOf(one);
      const isInOrder = at === 0 || entryOf(waiting[at - 1]!).arrived <= entry.arrived;
      return isInOrder && entry.client === client && entry.priority === priority && one.continues === continues;
    })) return;
    const totals = this.#totals();
    waiting.sort((one, other) => {
      const [a, b] = [entryOf(one), entryOf(other)];
      return (
        Number(other.continues) - Number(one.continues) ||
        b.priority - a.priority ||
        totals.get(a.account)! - totals.get(b.account)! ||
        a.arrived - b.arrived
      );
    });
  }

  /** Raises the floor of a priority, and returns the accounts that wait there. */
  #raise(totals: ReadonlyMap<string, number>, priority: number): Set<string> {
    const waiting = new Set<string>();
    let highest = 0;
    for (const [{ slot }, entry] of this.#entries) {
      if (entry.priority !== priority) continue;
      highest = Math.max(highest, totals.get(entry.account)!);
      if (slot < 0) waiting.add(entry.account);
    }
    const counters = Array.from(waiting, (account) => totals.get(account)!);
    const floor = counters.length > 0 ? Math.min(...counters) : highest;
    this.#floors.set(priority, Math.max(this.#floors.get(priority) ?? 0, floor));
    return waiting;
  }

  /** The counter of each account that is present. */
  #totals(): Map<string, number> {
    const totals = new Map<string, number>();
    for (const [sequence, { account }] of this.#entries)
      totals.set(account, (totals.get(account) ?? this.#served.get(account) ?? 0) + cost(sequence));
    return totals;
  }

  /** Drops the oldest counters of accounts that are gone. */
  #forget(): void {
    const present = new Set(Array.from(this.#entries.values(), ({ account }) => account));
    for (const account of this.#served.keys()) {
      if (this.#served.size <= mostRemembered) return;
      if (!present.has(account)) this.#served.delete(account);
    }
  }
}

/** 0 until it runs; then its uncached prompt tokens, plus its generated tokens times the weight. */
function cost({ slot, promptLength, cachedTokens, generated }: Sequence): number {
  return slot < 0 ? 0 : promptLength - cachedTokens + perGenerated * generated;
}
