// Decides what one step evaluates: who joins, who decodes, how much of each prompt is fed. How much
// in all, pace.ts says. Pure: no await, no clock, no I/O. The engine calls it between two steps,
// when nothing is in flight.
import { displaces, type Placement, type PrefixCache } from './prefix.js';
import type { Sequence } from './sequence.js';

/** A step's choice: `counts[i]` tokens of `sequences[i]`. One object is filled again and again. */
export class Plan {
  readonly sequences: Sequence[] = [];
  readonly counts: number[] = [];
  rows = 0;
  /** What takes turns: whether whole prompts were read last, and which of the long ones was. */
  wholeBefore = false;
  longBefore: Sequence | undefined;

  clear(): void {
    this.sequences.length = 0;
    this.counts.length = 0;
    this.rows = 0;
  }

  add(sequence: Sequence, count: number): void {
    this.sequences.push(sequence);
    this.counts.push(count);
    this.rows += count;
  }

  /**
   * By slot, rising: llama.cpp computes rows of several sequences in one pass only where their ids
   * follow each other.
   */
  order(): void {
    const { sequences, counts } = this;
    for (let i = 1; i < sequences.length; i++) {
      const sequence = sequences[i]!;
      const count = counts[i]!;
      let j = i;
      for (; j > 0 && sequences[j - 1]!.slot > sequence.slot; j--) {
        sequences[j] = sequences[j - 1]!;
        counts[j] = counts[j - 1]!;
      }
      sequences[j] = sequence;
      counts[j] = count;
    }
  }
}

/**
 * llama.cpp's attention on the CPU works in tiles of so many rows; a pass with fewer goes row by
 * row, which may cost as much as the tile.
 */
export const tileRows = 64;

/**
 * Rows of a prompt in one step where each row's logits are asked, which are as large as the
 * vocabulary: of one prompt at a time.
 */
export const scoredRows = 32;

/** Whether an answer has begun whose next token would wait for the step. */
export function streams({ state }: Sequence): boolean {
  return state === 'decode' || state === 'deciding';
}

/** When a long prompt must not hold the step. */
export function isStreaming(running: readonly Sequence[]): boolean {
  return running.some(streams);
}

/**
 * Nothing to do before something comes: nobody is there, or all who run wait for tokens that are
 * worked out beside the steps.
 */
export function isIdle(waiting: readonly Sequence[], running: readonly Sequence[]): boolean {
  if (running.length === 0) return waiting.length === 0;
  return running.every((sequence) => sequence.state === 'deciding');
}

/** Prompt tokens to be evaluated before all of them decode. */
export function unread(sequences: readonly Sequence[]): number {
  return sequences.reduce((sum, { state, pending }) => (state === 'waiting' || state === 'prefill' ? sum + pending : sum), 0);
}

/**
 * Fills `plan`: every decoding sequence first, one token each; what is left of `batchSize`, at most
 * `budget` or a little more, goes to prompts. llama.cpp takes rows of several sequences in
 * lockstep: parts of different lengths are passes of their own over the weights, and behind a long
 * context a pass of less than a tile is slow. So a step reads whole prompts, the oldest and then
 * the shortest, or a part of one that is longer than the budget. Those two kinds take turns, so
 * that a short prompt is not stuck behind a long one, nor a long one behind many short ones. `part`
 * says how much of a long one is read, of so many tokens at most.
 */
export function planStep(
  running: readonly Sequence[], batchSize: number, budget: number, plan: Plan, part: (sequence: Sequence, most: number) => number = (_, most) => most,
): void {
  plan.clear();
  const prompts: Sequence[] = [];
  let scored: Sequence | undefined;
  for (const sequence of running) {
    if (sequence.state === 'decode' || sequence.isReplaying) plan.add(sequence, 1);
    else if (sequence.state === 'prefill' && sequence.pending > 0) {
      if (sequence.isScored) scored ??= sequence;
      if (!sequence.isScored || sequence === scored) prompts.push(sequence);
    }
  }
  if (prompts.length === 0 || budget === 0) return plan.order();
  // The pass with the decoding rows takes a row of the prompt along, which costs next to nothing
  // there. With it on top, the pass that follows has the whole budget, and that is whole tiles.
  const besides = plan.rows > 0 ? 1 : 0;
  const room = batchSize - plan.rows;
  const most = Math.min(budget + besides, room);
  const whole = wholePrompts(prompts, most, Math.min(room, most + Math.floor(most * slack)));
  const long = whole.includes(prompts[0]!) ? undefined : nextLong(prompts.filter((one) => !whole.includes(one)), plan.longBefore);
  plan.wholeBefore = long === undefined || (whole.length > 0 && !plan.wholeBefore);
  if (long && !plan.wholeBefore) {
    plan.add(long, Math.min(room, readable(long), part(long, most - besides) + besides));
    plan.longBefore = long;
  } else {
    for (const sequence of whole) plan.add(sequence, readable(sequence));
  }
  plan.order();
}

/**
 * So much over the budget is fine where it ends a prompt: what is left would be a pass of its own.
 */
const slack = 1 / 8;

/**
 * Those that a step can read to their ends: the oldest and then the shortest, up to `most` tokens;
 * the last may go up to `atMost`.
 */
function wholePrompts(prompts: readonly Sequence[], most: number, atMost: number): Sequence[] {
  const [oldest, ...others] = prompts;
  const found: Sequence[] = [];
  let total = 0;
  for (const sequence of [oldest!, ...others.sort((a, b) => readable(a) - readable(b))]) {
    if (total >= most || total + readable(sequence) > atMost) continue;
    found.push(sequence);
    total += readable(sequence);
  }
  return found;
}

/** Of the long ones the oldest and the shortest in turns. */
function nextLong([oldest, ...others]: readonly Sequence[], before: Sequence | undefined): Sequence {
  if (oldest !== before || others.length === 0) return oldest!;
  return others.reduce((one, other) => (readable(other) < readable(one) ? other : one));
}

/**
 * Prompt tokens of a sequence that one step may read: those that others wait for first, so that all
 * their ends are read together then; those up to a checkpoint.
 */
export function readable({ pending, evaluated, sharedLength, checkpointAt, isScored }: Sequence): number {
  const until = sharedLength > evaluated ? sharedLength : checkpointAt;
  const wanted = until > evaluated ? until - evaluated : pending;
  return isScored ? Math.min(wanted, scoredRows) : wanted;
}

/**
 * Steps that run without waiting for the loop; what comes meanwhile ends the run with the step in
 * flight.
 */
const longestRun = 64;

/**
 * How many steps like this plan can follow each other: many if all rows decode, until the first
 * sequence reaches its limit; else one.
 */
export function stepsAhead(plan: Plan, asking: readonly Sequence[]): number {
  if (plan.rows !== asking.length || plan.rows !== plan.sequences.length) return 1;
  return asking.reduce((most, { limit, length }) => Math.min(most, limit - length), longestRun);
}

/** Looking further down the queue than this would cost more than it finds. */
const lookahead = 16;

/**
 * Moves sequences from the queue into free slots, in its order, and tells where each was placed.
 * `sort` puts those that wait into order again after each. One at a time: each is placed when what
 * the one before it displaced has been put away, and so can be found again. One that would share
 * much of a prompt being evaluated right now lets that go first; others may pass it meanwhile.
 */
export function* joinFromQueue(waiting: Sequence[], cache: PrefixCache, sort = (): void => undefined): Generator<Joined, void, void> {
  for (;;) {
    if (cache.freeSlots > 0) sort();
    const next = cache.freeSlots > 0 ? choose(waiting, cache) : undefined;
    if (!next) return;
    cache.take(next.placement, next.sequence);
    waiting.splice(waiting.indexOf(next.sequence), 1);
    yield next;
  }
}

export interface Joined {
  sequence: Sequence;
  placement: Placement;
}

/**
 * The first that may start. Where there is room for all, those that take nothing away go first: the
 * places of the others come free for them then.
 */
function choose(waiting: readonly Sequence[], cache: PrefixCache): Joined | undefined {
  const roomForAll = waiting.length <= cache.freeSlots;
  let first: Joined | undefined;
  for (const sequence of waiting.slice(0, lookahead)) {
    const placement = cache.place(sequence);
    if (placement === 'wait') continue;
    if (!roomForAll || !displaces(placement)) return { sequence, placement };
    first ??= { sequence, placement };
  }
  return first;
}
