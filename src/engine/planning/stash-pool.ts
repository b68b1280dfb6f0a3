// Conversations whose KV left its slot. Their bytes are in the native context's memory or in a
// file; this pool knows their tokens and size, and says which to drop. The caller frees them in the
// context and on disk. Pure; used by prefix.ts.
import type { Checkpoint } from './checkpoints.js';

export interface Stashed {
  /** The native context's id; 0 while the bytes are only in the file. */
  id: number;
  tokens: Int32Array;
  sizeBytes: number;
  /** The file that has its bytes. */
  file?: string;
  /** A prompt continued from it. */
  used?: boolean;
  /** Lengths that it can be rolled back to; none if the model's KV can be truncated. */
  checkpoints?: readonly Checkpoint[];
}

export class StashPool {
  /** 0: nothing is stashed. */
  readonly budgetBytes: number;
  /** The shortest conversation that takes more than the budget. */
  #tooLong = Infinity;
  /** Most recently used last. */
  #entries: Stashed[] = [];
  /** Those in files that prompts wait for, in the order of the queue. */
  readonly wanted = new Set<Stashed>();

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
  }

  get entries(): readonly Stashed[] {
    return this.#entries;
  }

  /** Whether this many tokens fit the budget at all, as far as is known. */
  takes(tokens: number): boolean {
    return this.budgetBytes > 0 && tokens < this.#tooLong;
  }

  /** A conversation of this many tokens takes more than the budget, and so do longer ones. */
  refuse(tokens: number): void {
    this.#tooLong = Math.min(this.#tooLong, tokens);
  }

  /** Adds stashes that files have, before all others; most recently used last. */
  addFiles(stashed: readonly Stashed[]): void {
    this.#entries.unshift(...stashed);
  }

  get freeBytes(): number {
    return this.budgetBytes - this.#entries.reduce((sum, one) => sum + memoryOf(one), 0);
  }

  /**
   * Makes room for a stash of these tokens; returns those that must go: prefixes of it, then the
   * least recently used. Those in files stay until a file has it too, in case of a kill.
   */
  makeRoom(tokens: Int32Array, sizeBytes: number): Stashed[] {
    const gone = this.#entries.filter((other) => other.file === undefined && isBeginning(other.tokens, tokens));
    this.#entries = this.#without(gone);
    let excess = sizeBytes - this.freeBytes;
    for (const one of [...this.#entries]) {
      if (excess <= 0) break;
      if (memoryOf(one) === 0) continue;
      excess -= memoryOf(one);
      gone.push(one);
    }
    this.#entries = this.#without(gone);
    return gone;
  }

  /** Adds a stash of at most the budget; returns those that must go for it. */
  add(stashed: Stashed): Stashed[] {
    const gone = this.makeRoom(stashed.tokens, memoryOf(stashed));
    this.#entries.push(stashed);
    return gone;
  }

  use(id: number): void {
    const index = this.#entries.findIndex((entry) => entry.id === id);
    if (index < 0) return;
    this.#entries.push(...this.#entries.splice(index, 1));
    this.#entries.at(-1)!.used = true;
  }

  /** True if a file has the bytes too: then the caller frees those in memory. */
  leaveToFile(id: number): boolean {
    const entry = this.#entries.find((one) => one.id === id && one.file !== undefined);
    if (entry) entry.id = 0;
    return entry !== undefined;
  }

  /**
   * Forgets one stash (e.g. one that could not be restored), or all; returns those that must go.
   */
  drop(id?: number): Stashed[] {
    const gone = this.#entries.filter((entry) => id === undefined || entry.id === id);
    this.#entries = this.#without(gone);
    return gone;
  }

  /** Forgets one whose file is unusable. */
  remove(stashed: Stashed): void {
    this.removeAll([stashed]);
  }

  removeAll(stashed: readonly Stashed[]): void {
    this.#entries = this.#without(stashed);
  }

  #without(gone: readonly Stashed[]): Stashed[] {
    const all = new Set(gone);
    return this.#entries.filter((one) => !all.has(one));
  }
}

/** A stash with a file is in memory only briefly, and does not count. */
function memoryOf({ file, sizeBytes }: Stashed): number {
  return file === undefined ? sizeBytes : 0;
}

/** Length of the common prefix of two token lists, at most `most`. */
export function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  const end = Math.min(most, a.length, b.length);
  let i = 0;
  while (i < end && a[i] === b[i]) i++;
  return i;
}

export function sameTokens(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && beginAlike(a, b, a.length);
}

/**
 * Whether both lists begin with the same `length` tokens. Looks at the last of them first: of
 * thousands of conversations, most begin with one system prompt.
 */
export function beginAlike(a: Int32Array, b: Int32Array, length: number): boolean {
  return length <= Math.min(a.length, b.length) && a[length - 1] === b[length - 1] && commonPrefix(a, b, length) === length;
}

/**
 * A continued conversation may differ in this many last tokens, at most this share of it: its end
 * is tokenized differently once text follows.
 */
const mostTail = 64;
const tailShare = 1 / 16;

/** Whether `long` begins with nearly all of `short`, so that `short` need not be kept. */
export function nearlyBegins(short: Int32Array, long: Int32Array): boolean {
  return beginAlike(short, long, short.length - Math.min(mostTail, Math.floor(short.length * tailShare)));
}

function isBeginning(short: Int32Array, long: Int32Array): boolean {
  return beginAlike(short, long, short.length);
}
