// Conversations whose KV left its slot: kept in memory by the native context or in a file, known
// here by tokens and size. Pure: says what to drop; the caller tells the context and the disk. Used
// by prefix.ts.
import type { Checkpoint } from './checkpoints.js';

export interface Stashed {
  /** The native context's number for it; 0 while its bytes are in the file alone. */
  id: number;
  tokens: Int32Array;
  sizeBytes: number;
  /** Where its bytes are since before the model was loaded. */
  file?: string;
  /** A prompt waits for the bytes of the file. */
  wanted?: boolean;
  /** A prompt went on from it. */
  used?: boolean;
  /** Where its conversation can go back to; of those whose KV can be cut there are none. */
  checkpoints?: readonly Checkpoint[];
}

export class StashPool {
  readonly #budgetBytes: number;
  /** The one used last is at the end. */
  #entries: Stashed[] = [];
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

  /** Those that files have, before all others; the one used last is at the end. */
  addFiles(stashed: readonly Stashed[]): void {
    this.#entries.unshift(...stashed);
  }

  /** Returns those that must go: beginnings of this one, then the longest unused. */
  add(stashed: Stashed): Stashed[] {
    this.#bytesPerToken = stashed.sizeBytes / stashed.tokens.length;
    const { tokens } = stashed;
    const gone = this.#entries.filter((other) => isBeginning(other.tokens, tokens));
    this.#entries = [...this.#without(gone), stashed];
    let excess = this.#entries.reduce((sum, one) => sum + memoryOf(one), 0) - this.#budgetBytes;
    for (const one of [...this.#entries]) {
      if (excess <= 0) break;
      if (memoryOf(one) === 0) continue;
      excess -= memoryOf(one);
      gone.push(one);
    }
    this.#entries = this.#without(gone);
    return gone;
  }

  use(id: number): void {
    const index = this.#entries.findIndex((entry) => entry.id === id);
    if (index < 0) return;
    this.#entries.push(...this.#entries.splice(index, 1));
    this.#entries.at(-1)!.used = true;
  }

  /** Where a file has its bytes as well, memory may forget them: true, and only the file counts. */
  leaveToFile(id: number): boolean {
    const entry = this.#entries.find((one) => one.id === id && one.file !== undefined);
    if (entry) entry.id = 0;
    return entry !== undefined;
  }

  /** Forgets one that could not be brought back, or all; returns those that must go. */
  drop(id?: number): Stashed[] {
    const gone = this.#entries.filter((entry) => id === undefined || entry.id === id);
    this.#entries = this.#without(gone);
    return gone;
  }

  /** Forgets one whose file does not serve. */
  remove(stashed: Stashed): void {
    this.#entries = this.#without([stashed]);
  }

  #without(gone: readonly Stashed[]): Stashed[] {
    return this.#entries.filter((one) => !gone.includes(one));
  }
}

/** What has a file is in memory for a moment only, and not counted. */
function memoryOf({ file, sizeBytes }: Stashed): number {
  return file === undefined ? sizeBytes : 0;
}

/** Length of the common beginning of two token lists, at most `most`. */
export function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  const end = Math.min(most, a.length, b.length);
  let i = 0;
  while (i < end && a[i] === b[i]) i++;
  return i;
}

/** So many last tokens of a conversation that goes on are no loss: they became others as text. */
const mostTail = 64;
const tailShare = 1 / 16;

/** Whether keeping the long one makes the short one needless. */
export function nearlyBegins(short: Int32Array, long: Int32Array): boolean {
  return commonPrefix(short, long, short.length) >= short.length - Math.min(mostTail, Math.floor(short.length * tailShare));
}

function isBeginning(short: Int32Array, long: Int32Array): boolean {
  return short.length <= long.length && commonPrefix(short, long, short.length) === short.length;
}
