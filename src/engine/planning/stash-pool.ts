// Conversations whose KV left its slot: kept in memory by the native context, known here by tokens
// and size. Pure: says what to drop; the caller tells the context. Used by prefix.ts.

export interface Stashed {
  /** The native context's number for it. */
  id: number;
  tokens: Int32Array;
  sizeBytes: number;
}

export class StashPool {
  readonly #budgetBytes: number;
  /** The one used last is at the end. */
  #entries: Stashed[] = [];
  #sizeBytes = 0;
  #bytesPerToken = 0;

  /** 0 keeps nothing. */
  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes;
  }

  get entries(): readonly Stashed[] {
    return this.#entries;
  }

  /** Whether so many tokens would stay if they were stashed now. */
  takes(tokens: number): boolean {
    return tokens * Math.max(this.#bytesPerToken, 1) <= this.#budgetBytes;
  }

  /** Returns the numbers of those that must go: beginnings of this one, then the longest unused. */
  add(stashed: Stashed): number[] {
    this.#bytesPerToken = stashed.sizeBytes / stashed.tokens.length;
    const { tokens } = stashed;
    const gone = this.#entries.filter((other) => isBeginning(other.tokens, tokens));
    this.#entries = this.#entries.filter((other) => !gone.includes(other));
    this.#entries.push(stashed);
    this.#sizeBytes = this.#entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    while (this.#sizeBytes > this.#budgetBytes) {
      const oldest = this.#entries.shift()!;
      this.#sizeBytes -= oldest.sizeBytes;
      gone.push(oldest);
    }
    return gone.map(({ id }) => id);
  }

  use(id: number): void {
    const index = this.#entries.findIndex((entry) => entry.id === id);
    if (index >= 0) this.#entries.push(...this.#entries.splice(index, 1));
  }

  /** Forgets one that could not be brought back, or all; returns the numbers that must go. */
  drop(id?: number): number[] {
    const gone = this.#entries.filter((entry) => id === undefined || entry.id === id);
    this.#entries = this.#entries.filter((entry) => !gone.includes(entry));
    this.#sizeBytes = this.#entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return gone.map((entry) => entry.id);
  }
}

/** Length of the common beginning of two token lists, at most `most`. */
export function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  const end = Math.min(most, a.length, b.length);
  let i = 0;
  while (i < end && a[i] === b[i]) i++;
  return i;
}

function isBeginning(short: Int32Array, long: Int32Array): boolean {
  return short.length <= long.length && commonPrefix(short, long, short.length) === short.length;
}
