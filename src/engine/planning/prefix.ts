// The prefix cache: decides whose KV to share or keep. It knows which tokens each slot of the
// context has evaluated, and places a new prompt where most of it exists already and where the
// least valuable KV is lost. Pure; the engine makes the KV calls.
import { beyond, goingBack, lastWithin, nextCheckpoint, superfluous, type Checkpoint, type Holder } from './checkpoints.js';
import { smallLoss, type Placement, type SlotMove } from './placement.js';
import type { Sequence } from './sequence.js';
import { StepCosts } from './step-costs.js';
import { beginAlike, commonPrefix, StashPool, type Stashed } from './stash-pool.js';

/** What llama.cpp's memory for this model supports. */
export interface Memory {
  /**
   * A sequence's tail can be removed, and a part of it copied; false for recurrent and
   * sliding-window memory.
   */
  partial: boolean;
  /** KV can be copied between sequences at all. */
  copies: boolean;
}

interface Slot {
  /** The sequence that runs here; `tokens` is then its own array. */
  owner: Sequence | undefined;
  tokens: Int32Array;
  /** Salt of the sequence that evaluated them; '' if it has none. */
  salt: string;
  /** Tokens whose KV is here while the slot has no owner; else the owner's `evaluated` counts. */
  kept: number;
  /** The admission counter when the slot was last taken. */
  usedAt: number;
  /** Shortest first. */
  checkpoints: readonly Checkpoint[];
}

/** A shorter common prefix (a template's opening words) is cheaper to evaluate than to copy. */
const leastShared = 16;
/** Tokens that a sequence must gain to wait for a running prefill. */
const leastGain = 64;
/**
 * A conversation whose slot is reused is stashed if at least this share of it would be lost:
 * stashing copies all of it.
 */
const lossWorthCopy = 1 / 4;

/** After this many admissions a kept token counts half, so that old long conversations leave. */
const halfLife = 16;

const none = new Int32Array(0);

/** Share of the stash budget for checkpoints, if the model's memory needs them. */
const checkpointShare = 1 / 4;

export class PrefixCache {
  readonly #slots: Slot[];
  readonly memory: Memory;
  readonly pool: StashPool;
  /** For all checkpoints together. */
  readonly checkpointBytes: number;
  readonly #costs: StepCosts;
  /** Checkpoints that nobody needs any more. The caller takes them from here and frees them. */
  readonly dropped: Checkpoint[] = [];
  #admissions = 0;
  freeSlots: number;

  constructor(slots: number, memory: Memory, stashBytes: number, costs = new StepCosts()) {
    this.#costs = costs;
    this.checkpointBytes = memory.partial ? 0 : stashBytes * checkpointShare;
    this.pool = new StashPool(stashBytes - this.checkpointBytes);
    this.#slots = Array.from({ length: slots }, () => ({ owner: undefined, tokens: none, salt: '', kept: 0, usedAt: 0, checkpoints: [] }));
    this.memory = memory;
    this.freeSlots = slots;
  }

  /** Tokens whose KV the slot holds. */
  held(slot: number): number {
    const { owner, kept } = this.#slots[slot]!;
    return owner ? owner.evaluated : kept;
  }

  /** Tokens whose KV is in the slots: of running sequences, and of free slots. */
  get use(): { used: number; kept: number } {
    const use = { used: 0, kept: 0 };
    for (const { owner, kept } of this.#slots) {
      if (owner) use.used += owner.evaluated;
      else use.kept += kept;
    }
    return use;
  }

  /**
   * The best place for a waiting sequence; there must be a free slot. 'wait': a running prefill
   * will soon hold much more of this prompt than any slot does now, or a stash holds more whose
   * bytes must first be read from its file (it is then `wanted`).
   */
  place(sequence: Sequence): Placement | 'wait' {
    const targets = this.#targets();
    let { source, stash, reused } = this.#best(sequence, targets);
    // Reuse a short prefix only if that costs nothing: a free slot that the prompt simply
    // continues.
    if (reused < leastShared && (stash || (source >= 0 && (this.#slots[source]!.owner || reused < this.held(source))))) {
      source = -1;
      stash = undefined;
      reused = 0;
    }
    if (this.#shouldWait(sequence, reused)) return 'wait';
    if (stash?.id === 0) {
      this.pool.wanted.add(stash);
      return 'wait';
    }

    const slot = this.#cheapest(targets);
    const fresh: Placement = { slot, source: -1, stash: 0, reused: 0, held: this.held(slot), keep: this.#toStash(slot, 0) };
    if (stash) return { ...fresh, stash: stash.id, reused, ...goingBack(stash.checkpoints ?? [], reused, stash.tokens.length) };
    if (source < 0) return this.#overwriting(fresh, sequence);
    if (targets.includes(source)) {
      const back = goingBack(this.#slots[source]!.checkpoints, reused, this.held(source));
      const loss = this.held(source) - reused;
      const copies = this.memory.copies && !back.checkpoint && this.#paysCopy(reused, this.held(source)) && slot !== source;
      const elsewhere =
        this.#worth(slot, this.held(slot)) + (copies ? this.#costs.copies.ms(this.held(source)) : this.#costs.readMs(reused));
      if (loss <= smallLoss || this.#worth(source, loss) <= elsewhere) {
        return { slot: source, source, stash: 0, reused, held: this.held(source), keep: this.#toStash(source, reused), ...back };
      }
      if (!copies) return fresh;
    }
    return { ...fresh, source, reused };
  }

  /**
   * Nothing is worth sharing, but what the slot happens to hold of the prompt's prefix is reused.
   */
  #overwriting(fresh: Placement, sequence: Sequence): Placement {
    const { slot, held } = fresh;
    const reused = this.#reusable(sequence, this.#slots[slot]!, held);
    return reused === 0
      ? fresh
      : { ...fresh, source: slot, reused, keep: this.#toStash(slot, reused), ...goingBack(this.#slots[slot]!.checkpoints, reused, held) };
  }

  /**
   * The slot or stash that holds most of the prompt. Of equal slots, one that can be continued in
   * place wins.
   */
  #best(sequence: Sequence, targets: number[]): { source: number; stash: Stashed | undefined; reused: number } {
    let source = -1;
    let stash: Stashed | undefined;
    let reused = 0;
    let rank = 0;
    for (let i = 0; i < this.#slots.length; i++) {
      const slot = this.#slots[i]!;
      const inPlace = targets.includes(i);
      if (!inPlace && !this.memory.copies) continue;
      const held = this.held(i);
      const common = this.#reusable(sequence, inPlace ? slot : { ...slot, checkpoints: [] }, held);
      if (slot.owner && !this.#paysCopy(common, held)) {
        if (this.#matters(held, held - common)) this.#costs.copies.leftOut();
        continue;
      }
      const better = inPlace ? 3 : slot.owner ? 1 : 2;
      if (common > reused || (common === reused && common > 0 && better > rank)) {
        source = i;
        reused = common;
        rank = better;
      }
    }
    let most = reused;
    for (const entry of this.pool.entries) {
      // Of thousands, most begin with one system prompt, and hold no more of this one.
      if (entry.tokens[most] !== sequence.tokens[most]) continue;
      const common = this.#reusable(sequence, { checkpoints: [], ...entry, salt: '' }, entry.tokens.length);
      if (common > most) {
        stash = entry;
        most = common;
      }
    }
    // A stash must save more than its copy costs, compared with the best slot.
    return stash && this.#costs.readMs(most - reused, reused) > this.#costs.stashes.ms(stash.tokens.length)
      ? { source: -1, stash, reused: most }
      : { source, stash: undefined, reused };
  }

  /**
   * The free slots a sequence may take. llama.cpp computes rows of several sequences in one pass
   * only if their slot numbers are consecutive, so running sequences stay neighbors: gaps are
   * filled first, then the edges.
   */
  #targets(): number[] {
    const free = this.#slots.flatMap(({ owner }, i) => (owner ? [] : [i]));
    const first = this.#slots.findIndex(({ owner }) => owner);
    if (first < 0 || !this.memory.copies) return free;
    const last = this.#slots.findLastIndex(({ owner }) => owner);
    const gaps = free.filter((slot) => slot > first && slot < last);
    return gaps.length > 0 ? gaps : free.filter((slot) => slot === first - 1 || slot === last + 1);
  }

  /**
   * If running sequences are not neighbors: moves the shorter of the two at the ends into the first
   * gap.
   */
  straighten(): SlotMove | undefined {
    if (!this.memory.copies || !this.memory.partial) return undefined;
    const first = this.#slots.findIndex(({ owner }) => owner);
    const last = this.#slots.findLastIndex(({ owner }) => owner);
    const gap = this.#slots.findIndex(({ owner }, i) => !owner && i > first && i < last);
    if (gap < 0) return undefined;
    const from = this.held(first) <= this.held(last) ? first : last;
    return { sequence: this.#slots[from]!.owner!, to: gap, held: this.held(gap), keep: this.#toStash(gap, 0) };
  }

  /** The move is done; the old slot is empty. */
  moved({ sequence, to }: SlotMove): void {
    const from = this.#slots[sequence.slot]!;
    this.#slots[to] = { ...from, owner: sequence };
    Object.assign(from, { owner: undefined, tokens: none, kept: 0 });
    sequence.slot = to;
  }

  /** Gives the slot to the sequence, which starts after the placement's reused tokens. */
  take(placement: Placement, sequence: Sequence): void {
    const slot = this.#slots[placement.slot]!;
    this.#passCheckpoints(placement, slot);
    if (placement.stash > 0) this.pool.use(placement.stash);
    const kept = placement.source === placement.slot ? placement.reused : 0;
    if (!placement.keep && this.#matters(placement.held, kept) && !this.#paysStash(placement.held, kept)) this.#costs.stashes.leftOut();
    sequence.join(placement.slot, placement.reused);
    if (this.checkpointBytes > 0 && !sequence.isScored)
      sequence.checkpointAt = nextCheckpoint(sequence.promptLength, placement.reused, slot.checkpoints);
    slot.owner = sequence;
    slot.tokens = sequence.tokens;
    slot.salt = sequence.salt;
    slot.kept = 0;
    slot.usedAt = ++this.#admissions;
    this.freeSlots--;
  }

  /**
   * Checkpoints up to the reused length stay; later ones go to the slot's stash, if there is one.
   */
  #passCheckpoints(placement: Placement, slot: Slot): void {
    const { source, stash, reused, keep } = placement;
    const stays = source === placement.slot ? slot.checkpoints.filter(({ length }) => length <= reused) : [];
    const leaving = slot.checkpoints.filter((one) => !stays.includes(one));
    if (keep) placement.leaving = leaving;
    else this.#handOver(slot, leaving);
    const entry = stash > 0 ? this.pool.entries.find(({ id }) => id === stash) : undefined;
    slot.checkpoints = entry?.checkpoints?.filter(({ length }) => length <= reused) ?? stays;
    if (entry) entry.checkpoints = entry.checkpoints?.filter(({ length }) => length > reused) ?? [];
  }

  /** Gives checkpoints to a stash that holds the same tokens; drops the others. */
  #handOver({ tokens, salt }: Slot, leaving: readonly Checkpoint[]): void {
    const last = leaving.at(-1)?.length ?? 0;
    const heir = last > 0 && salt === '' ? this.pool.entries.find((entry) => entry.id > 0 && commonPrefix(tokens, entry.tokens, last) === last) : undefined;
    const fresh = heir ? leaving.filter(({ length }) => !heir.checkpoints?.some((one) => one.length === length)) : [];
    if (heir) heir.checkpoints = [...heir.checkpoints ?? [], ...fresh].sort((a, b) => a.length - b.length);
    this.dropped.push(...leaving.filter((one) => !fresh.includes(one)));
  }

  /** Adds a checkpoint at the sequence's current length; drops those beyond the limits. */
  addCheckpoint(sequence: Sequence, id: number, sizeBytes: number): void {
    const slot = this.#slots[sequence.slot]!;
    slot.checkpoints = [...slot.checkpoints, { id, length: sequence.evaluated, sizeBytes }];
    const all = (): Holder[] => [...this.pool.entries, ...this.#slots.toSorted((a, b) => a.usedAt - b.usedAt)];
    const excess = (): Checkpoint | undefined => superfluous(slot.checkpoints) ?? beyond(all(), this.checkpointBytes);
    for (let one = excess(); one; one = excess()) this.#drop(one);
  }

  #drop(checkpoint: Checkpoint): void {
    for (const holder of [...this.#slots, ...this.pool.entries]) {
      if (holder.checkpoints?.includes(checkpoint)) holder.checkpoints = holder.checkpoints.filter((one) => one !== checkpoint);
    }
    this.dropped.push(checkpoint);
  }

  /** The sequence leaves; its KV stays as a prefix for others. */
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

  /** Notes that a free slot now holds the KV of exactly these tokens. */
  adopt(index: number, tokens: Int32Array): void {
    const slot = this.#slots[index]!;
    if (slot.owner) throw new Error(`slot ${index} is in use`);
    slot.tokens = tokens;
    slot.salt = '';
    slot.kept = tokens.length;
    slot.usedAt = ++this.#admissions;
    this.dropped.push(...slot.checkpoints);
    slot.checkpoints = [];
  }

  freeWithTokens(): number[] {
    return this.#slots.flatMap(({ owner, kept }, i) => (!owner && kept > 0 ? [i] : []));
  }

  /** The first of `freeByUse()`; -1 if there is none. */
  latestFree(): number {
    return this.freeByUse()[0] ?? -1;
  }

  /** Free slots whose KV may be stored elsewhere, most recently used first. Salted KV may not. */
  freeByUse(): number[] {
    return this.freeWithTokens().filter((slot) => this.#slots[slot]!.salt === '').sort((a, b) => this.#slots[b]!.usedAt - this.#slots[a]!.usedAt);
  }

  /** How many of the prompt's tokens can be reused: never the last, whose logits are needed. */
  #reusable(sequence: Sequence, { tokens, salt, checkpoints }: Pick<Slot, 'tokens' | 'salt' | 'checkpoints'>, held: number): number {
    if (sequence.isScored || sequence.salt !== salt) return 0;
    const common = commonPrefix(sequence.tokens, tokens, Math.min(held, sequence.promptLength - 1));
    return this.memory.partial || common === held ? common : lastWithin(checkpoints, common)?.length ?? 0;
  }

  /** Whether a free slot's tokens beyond `reused` are a loss that a stash could prevent. */
  #matters(held: number, reused: number): boolean {
    return held - reused >= Math.max(leastGain, held * lossWorthCopy);
  }

  /** Whether reading them again takes longer than copying all out, and later back. */
  #paysStash(held: number, reused: number): boolean {
    return this.#costs.readMs(held - reused, reused) > 2 * this.#costs.stashes.ms(held);
  }

  /**
   * The tokens of a free slot if they should be stashed: losing those beyond `reused` matters, the
   * stash may have room and takes less time than reading, no other slot or stash has them, and they
   * have no salt.
   */
  #toStash(index: number, reused: number): Int32Array | undefined {
    const held = this.held(index);
    const { tokens, salt } = this.#slots[index]!;
    if (salt !== '' || !this.#matters(held, reused) || !this.pool.takes(held) || !this.#paysStash(held, reused)) return undefined;
    const has = (other: Int32Array, length: number) => length >= held && beginAlike(tokens, other, held);
    const elsewhere = this.#slots.some((slot, i) => i !== index && slot.salt === '' && has(slot.tokens, this.held(i))) || this.pool.entries.some((entry) => has(entry.tokens, entry.tokens.length));
    return elsewhere ? undefined : this.tokensOf(index);
  }

  /** If a free slot should be stashed: its tokens, and its checkpoints, which leave it. */
  displace(index: number): Required<Pick<Stashed, 'tokens' | 'checkpoints'>> | undefined {
    const tokens = this.#toStash(index, 0);
    if (!tokens) return undefined;
    const slot = this.#slots[index]!;
    const { checkpoints } = slot;
    slot.checkpoints = [];
    return { tokens, checkpoints };
  }

  #shouldWait(sequence: Sequence, reused: number): boolean {
    if (!this.memory.copies || !this.memory.partial || sequence.isScored) return false;
    for (const { owner } of this.#slots) {
      if (owner?.state !== 'prefill' || owner.salt !== sequence.salt || (sequence.leader !== undefined && sequence.leader !== owner)) continue;
      const common = commonPrefix(sequence.tokens, owner.tokens, Math.min(sequence.promptLength - 1, owner.promptLength));
      if (common > owner.evaluated && common - reused >= leastGain) {
        sequence.leader = owner;
        sequence.joinsAt = common;
        // Remember the shortest prefix; longer ones are found again when it is reached.
        if (owner.sharedLength <= owner.evaluated || common < owner.sharedLength) owner.sharedLength = common;
        return true;
      }
    }
    return false;
  }

  /** Whether copying is cheaper than evaluating. A copy moves all that the source holds. */
  #paysCopy = (reused: number, held: number): boolean => this.#costs.readMs(reused) >= this.#costs.copies.ms(held);

  /** Milliseconds lost with `tokens` of a slot; the longer unused, the less. */
  #worth(slot: number, tokens: number): number {
    return this.#costs.readMs(tokens) / 2 ** ((this.#admissions - this.#slots[slot]!.usedAt) / halfLife);
  }

  /** The free slot whose KV is worth least; of equal ones, the least recently used. */
  cheapestFree(): number {
    return this.#cheapest(this.#slots.flatMap(({ owner }, i) => (owner ? [] : [i])));
  }

  #cheapest(slots: number[]): number {
    return slots.reduce((best, i) => {
      const worth = this.#worth(i, this.held(i));
      const least = this.#worth(best, this.held(best));
      return worth < least || (worth === least && this.#slots[i]!.usedAt < this.#slots[best]!.usedAt) ? i : best;
    });
  }
}
