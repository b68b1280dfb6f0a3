// Whose KV to share or keep: knows exactly which tokens each slot of the context has evaluated, and places a new
// prompt where most of it is there already and least of worth is thrown away. Pure; the engine does the KV calls.
import type { Sequence } from './sequence.js';

/** What the model's memory can do. */
export interface Memory {
  /** A tail can be removed from a sequence, or a part of it copied; false for recurrent and sliding-window memory. */
  partial: boolean;
  /** KV can be copied between sequences at all. */
  copies: boolean;
}

/** Where a sequence goes. `source` is the slot whose first `reused` tokens it takes over: `slot` itself, another, or -1. */
export interface Placement {
  slot: number;
  source: number;
  reused: number;
  /** Tokens the slot held before. More than `reused` (or any, if the source is another slot) must be removed. */
  held: number;
}

interface Slot {
  /** Runs here now; the tokens are then the sequence's own array. */
  owner: Sequence | undefined;
  tokens: Int32Array;
  /** Tokens whose KV is here, while nobody owns it; else the owner's `evaluated` counts. */
  kept: number;
  /** Value of the admission counter when last taken. */
  usedAt: number;
}

/** A shorter common beginning (a template's opening words) is cheaper to evaluate than to share. */
const leastShared = 16;
/** A copy moves all that the source holds, and moving a token costs about this much of evaluating one. */
const copyCost = 1 / 16;
/** Tokens that a sequence must gain before it lets a running prefill go first. */
const leastGain = 64;
/** Losing so few tokens of a conversation that goes on is no reason to copy it. */
const smallLoss = 64;
/** After this many admissions a kept token counts half: an old long conversation does not stay for ever. */
const halfLife = 16;

const none = new Int32Array(0);

export class PrefixCache {
  readonly #slots: Slot[];
  readonly memory: Memory;
  #admissions = 0;
  freeSlots: number;

  constructor(slots: number, memory: Memory) {
    this.#slots = Array.from({ length: slots }, () => ({ owner: undefined, tokens: none, kept: 0, usedAt: 0 }));
    this.memory = memory;
    this.freeSlots = slots;
  }

  /** Tokens whose KV the slot holds. */
  held(slot: number): number {
    const { owner, kept } = this.#slots[slot]!;
    return owner ? owner.evaluated : kept;
  }

  /**
   * The best place for a waiting sequence; there must be a free slot. 'wait' means that a prefill in progress will soon
   * hold much more of this prompt than any slot does now.
   */
  place(sequence: Sequence): Placement | 'wait' {
    let source = -1;
    let reused = 0;
    for (let i = 0; i < this.#slots.length; i++) {
      const slot = this.#slots[i]!;
      if (slot.owner && !this.memory.copies) continue;
      const common = this.#reusable(sequence, i);
      if (slot.owner && common < this.held(i) * copyCost) continue;
      // On a tie a free slot wins: it can be continued in place.
      if (common > reused || (common === reused && common > 0 && this.#slots[source]!.owner && !slot.owner)) {
        source = i;
        reused = common;
      }
    }
    // Little in common is only worth taking where it costs nothing: a free slot that the prompt simply continues.
    if (reused < leastShared && source >= 0 && (this.#slots[source]!.owner || reused < this.held(source))) source = -1;
    if (source < 0) reused = 0;
    if (this.#shouldWait(sequence, reused)) return 'wait';

    const cheapest = this.cheapestFree();
    const fresh: Placement = { slot: cheapest, source: -1, reused: 0, held: this.held(cheapest) };
    if (source < 0) return fresh;
    if (!this.#slots[source]!.owner) {
      const loss = this.held(source) - reused;
      const copies = this.memory.copies && reused >= this.held(source) * copyCost;
      const elsewhere = this.#worth(cheapest, this.held(cheapest)) + (copies ? this.held(source) * copyCost : reused);
      if (loss <= smallLoss || this.#worth(source, loss) <= elsewhere) return { slot: source, source, reused, held: this.held(source) };
      if (!copies) return fresh;
    }
    return { slot: cheapest, source, reused, held: this.held(cheapest) };
  }

  /** Gives the slot to the sequence, which starts with the placement's reused tokens. */
  take(placement: Placement, sequence: Sequence): void {
    const slot = this.#slots[placement.slot]!;
    sequence.join(placement.slot, placement.reused);
    slot.owner = sequence;
    slot.tokens = sequence.tokens;
    slot.kept = 0;
    slot.usedAt = ++this.#admissions;
    this.freeSlots--;
  }

  /** The sequence leaves; what it has evaluated stays as a prefix for others. */
  release(sequence: Sequence): void {
    const slot = this.#slots[sequence.slot]!;
    if (slot.owner !== sequence) throw new Error(`slot ${sequence.slot} is released by a sequence that does not own it`);
    slot.owner = undefined;
    slot.kept = sequence.evaluated;
    this.freeSlots++;
  }

  /** The tokens whose KV a free slot holds. */
  tokensOf(slot: number): Int32Array {
    const { tokens, kept } = this.#slots[slot]!;
    return tokens.slice(0, kept);
  }

  /** A free slot holds the KV of exactly these tokens now. */
  adopt(index: number, tokens: Int32Array): void {
    const slot = this.#slots[index]!;
    if (slot.owner) throw new Error(`slot ${index} is in use`);
    slot.tokens = tokens;
    slot.kept = tokens.length;
    slot.usedAt = ++this.#admissions;
  }

  freeWithTokens(): number[] {
    return this.#slots.flatMap(({ owner, kept }, i) => (!owner && kept > 0 ? [i] : []));
  }

  /** The free slot used last; -1 if none holds anything. */
  latestFree(): number {
    return this.freeWithTokens().reduce((best, i) => (best < 0 || this.#slots[i]!.usedAt > this.#slots[best]!.usedAt ? i : best), -1);
  }

  /** How much of the prompt the slot can give: never the last token, whose logits are needed. */
  #reusable(sequence: Sequence, index: number): number {
    const slot = this.#slots[index]!;
    const held = this.held(index);
    const most = Math.min(held, sequence.promptLength - 1);
    const common = commonPrefix(sequence.tokens, slot.tokens, most);
    return this.memory.partial || common === held ? common : 0;
  }

  #shouldWait(sequence: Sequence, reused: number): boolean {
    if (!this.memory.copies || !this.memory.partial) return false;
    for (const { owner } of this.#slots) {
      if (owner?.state !== 'prefill' || (sequence.leader !== undefined && sequence.leader !== owner)) continue;
      const common = commonPrefix(sequence.tokens, owner.tokens, Math.min(sequence.promptLength - 1, owner.promptLength));
      if (common > owner.evaluated && common - reused >= leastGain) {
        sequence.leader = owner;
        return true;
      }
    }
    return false;
  }

  /** What throwing away `tokens` of a slot costs, less the longer it has not been used. */
  #worth(slot: number, tokens: number): number {
    return tokens / 2 ** ((this.#admissions - this.#slots[slot]!.usedAt) / halfLife);
  }

  /** The free slot whose KV is worth least; of equals the one unused for longest. */
  cheapestFree(): number {
    let best = -1;
    for (let i = 0; i < this.#slots.length; i++) {
      if (this.#slots[i]!.owner) continue;
      if (best < 0) {
        best = i;
        continue;
      }
      const worth = this.#worth(i, this.held(i));
      const least = this.#worth(best, this.held(best));
      if (worth < least || (worth === least && this.#slots[i]!.usedAt < this.#slots[best]!.usedAt)) best = i;
    }
    return best;
  }
}

/** Length of the common beginning of two token lists, at most `most`. */
function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  let i = 0;
  while (i < most && a[i] === b[i]) i++;
  return i;
}
