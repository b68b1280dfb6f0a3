// Decides what one step evaluates: who joins, who decodes, how much of each prompt is fed.
// Pure: no await, no clock, no I/O. The engine calls it between two steps, when nothing is in flight.
import { displaces, type Placement, type PrefixCache } from './prefix.js';
import type { Sequence } from './sequence.js';

/** A step's choice: `counts[i]` tokens of `sequences[i]`. One object is filled again and again. */
export class Plan {
  readonly sequences: Sequence[] = [];
  readonly counts: number[] = [];
  rows = 0;

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

  /** By slot, rising: llama.cpp computes rows of several sequences in one pass only where their ids follow each other. */
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

/** Prompt tokens beside running streams while the machine's speed is not known yet. */
const firstBudget = 128;
/** A step with fewer prompt rows says little about the speed. */
const tellingRows = 32;
/** A step without streams aims at this long: it bounds how late a cancel or a newcomer is seen. */
const prefillStepMs = 1000;
/** … or a little longer, where that ends all prompts at once. */
const toTheEnd = 1.25;
/** So many tokens of a stream are its beginning, which does not hold up the prompts that came with its own. */
const beginning = 4;
/** Beside rows that decode, reading a prompt takes at least so much longer than alone: the last tokens may as well come first. */
const besideOthers = 1 / 3;
/** Below this, a chunk wastes more on reading the weights than it saves in latency. */
const smallestBudget = 32;
/** llama.cpp's attention on the CPU works in tiles of so many rows; a pass with fewer goes row by row, which may cost as much as the tile. */
const tileRows = 64;
/** Half a tile is worth it where its rate is at least this part of a whole one's: then it takes less than two thirds as long. */
const worthHalf = 0.8;
/** How slow half a tile is changes with the context: after some 25 whole ones it is tried again. */
const fading = 1 / 64;

/** What steps took, which is what the next ones are planned by. */
export class Pace {
  /** Prompt tokens, the decoding rows beside them not counted; 0 is unknown. */
  tokensPerMs = 0;
  /** The same in steps of less than a tile. */
  #smallTokensPerMs = 0;
  /** A step in which all decode. */
  decodeMs = 0;
  /** The last step. */
  stepMs = 0;

  /** Before what the step brought is accepted: its sequences' states are those it was planned with. */
  note(plan: Plan, stepMs: number): void {
    this.stepMs = stepMs;
    if (stepMs <= 0) return;
    let decoding = 0;
    for (const { state } of plan.sequences) if (state === 'decode') decoding++;
    const rows = plan.rows - decoding;
    if (rows === 0) this.decodeMs = average(this.decodeMs, stepMs);
    if (rows < tellingRows) return;
    // At least half is for the prompt, whatever the others took last.
    const promptMs = Math.max(stepMs - (decoding > 0 ? this.decodeMs : 0), stepMs / 2);
    if (rows < tileRows) this.#smallTokensPerMs = average(this.#smallTokensPerMs, rows / promptMs);
    if (rows < tileRows && this.tokensPerMs > 0) return;
    this.tokensPerMs = average(this.tokensPerMs, rows / promptMs);
    if (this.#smallTokensPerMs > 0) this.#smallTokensPerMs += (this.tokensPerMs - this.#smallTokensPerMs) * fading;
  }

  /** How long reading so many prompt tokens takes with nothing beside them; 0 while the speed is not known. */
  readMs(tokens: number): number {
    return this.tokensPerMs > 0 ? tokens / this.tokensPerMs : 0;
  }

  /** Prompt tokens the next step is to evaluate, at most; 0 where all that decode are so near to their limits that the prompts gain by waiting. */
  promptRows(running: readonly Sequence[], batchSize: number, maxStallMs: number): number {
    const rest = unread(running);
    if (isStreaming(running)) {
      const last = running.reduce((most, { state, limit, length }) => (state === 'decode' ? Math.max(most, limit - length) : most), 0);
      if (this.decodeMs > 0 && last * this.decodeMs < Math.min(this.readMs(rest) * besideOthers, maxStallMs)) return 0;
      const begun = running.some(({ state, generated }) => state === 'decode' && generated > beginning);
      if (begun || this.tokensPerMs === 0) return this.budget(true, batchSize, maxStallMs);
    }
    if (this.tokensPerMs > 0 && this.readMs(rest) < prefillStepMs * toTheEnd) return Math.min(batchSize, rest);
    return this.budget(false, batchSize, maxStallMs);
  }

  /**
   * Prompt tokens the next step may evaluate. A stream's gap is one step, so a step beside streams aims at no longer than `maxStallMs`, of
   * which their own rows take a part.
   * Few sizes only, each a half or a third more than the one before, so that small changes of the rate leave chunk bounds (and with them
   * rounding) alone; from 64 on, whole tiles. Less than a tile only where that is really sooner done.
   */
  budget(streaming: boolean, batchSize: number, maxStallMs: number): number {
    if (this.tokensPerMs === 0) return Math.min(batchSize, streaming ? firstBudget : batchSize);
    const wanted = this.tokensPerMs * (streaming ? Math.min(maxStallMs, prefillStepMs) - this.decodeMs : prefillStepMs);
    if (wanted < tileRows) {
      const half = this.#smallTokensPerMs === 0 || this.#smallTokensPerMs > this.tokensPerMs * worthHalf;
      return Math.min(batchSize, half ? smallestBudget : tileRows);
    }
    const power = 2 ** Math.floor(Math.log2(wanted));
    return Math.min(batchSize, power > tileRows && power * 1.5 <= wanted ? power * 1.5 : power);
  }
}

/** Of what was and what is; 0 is unknown. */
const average = (before: number, now: number): number => (before === 0 ? now : (before + now) / 2);

/** Whether any sequence decodes, which is when a long prompt must not hold the step. */
export function isStreaming(running: readonly Sequence[]): boolean {
  return running.some((sequence) => sequence.state === 'decode');
}

/** Nothing to do before something comes: nobody is there, or all who run wait for tokens that are worked out beside the steps. */
export function isIdle(waiting: readonly Sequence[], running: readonly Sequence[]): boolean {
  if (running.length === 0) return waiting.length === 0;
  return running.every((sequence) => sequence.state === 'deciding');
}

/** Prompt tokens to be evaluated before all of them decode. */
export function unread(sequences: readonly Sequence[]): number {
  return sequences.reduce((sum, { state, pending }) => (state === 'waiting' || state === 'prefill' ? sum + pending : sum), 0);
}

/**
 * Fills `plan`: every decoding sequence first, one token each; what is left of `batchSize`, at most `budget` or a little more, goes to prompts.
 * Half of the budget goes to those that end soonest, so that a short prompt is not stuck behind a long one; the rest goes to the oldest.
 * So each step reads few prompts, and whole ones where it can: llama.cpp takes rows of several sequences in lockstep, and pieces of many
 * lengths are many passes over the weights.
 */
export function planStep(running: readonly Sequence[], batchSize: number, budget: number, plan: Plan): void {
  plan.clear();
  const prompts: Sequence[] = [];
  for (const sequence of running) {
    if (sequence.state === 'decode') plan.add(sequence, 1);
    else if (sequence.state === 'prefill') prompts.push(sequence);
  }
  if (prompts.length === 0 || budget === 0) return plan.order();
  // The pass with the decoding rows takes a row of the prompt along, which costs next to nothing there. With it on top, the pass that
  // follows has the whole budget, and that is whole tiles.
  let left = Math.min(plan.rows > 0 ? budget + 1 : budget, batchSize - plan.rows);
  const room = left;
  const counts = new Map<Sequence, number>();
  const share = (among: readonly Sequence[], most: number): void => {
    for (const sequence of among) {
      const has = counts.get(sequence) ?? 0;
      const more = Math.min(readable(sequence) - has, most);
      if (more === 0) continue;
      counts.set(sequence, has + more);
      most -= more;
      left -= more;
    }
  };
  const shortest = [...prompts].sort((a, b) => a.pending - b.pending);
  if (prompts.length > 1) share(shortest, Math.floor(left / 2));
  share(prompts, left);
  leaveNoCrumbs(counts, [prompts[0]!, shortest[0]!], Math.floor(room * crumb), batchSize - plan.rows);
  for (const [sequence, count] of counts) plan.add(sequence, count);
  plan.order();
}

/** Of the step's room for prompts: a part of a prompt that is no larger is not worth a pass of its own. */
const crumb = 1 / 8;

/** Parts of different lengths are passes of their own: the small end of a prompt is read along, its small beginning not yet. */
function leaveNoCrumbs(counts: Map<Sequence, number>, moving: readonly Sequence[], small: number, room: number): void {
  let less = small;
  let more = Math.min(small, room - [...counts.values()].reduce((sum, count) => sum + count, 0));
  for (const [sequence, count] of counts) {
    const rest = readable(sequence) - count;
    if (rest === 0) continue;
    if (rest <= more) {
      counts.set(sequence, count + rest);
      more -= rest;
    } else if (count <= less && !moving.includes(sequence)) {
      counts.delete(sequence);
      less -= count;
    }
  }
}

/** Prompt tokens of a sequence that one step may read: those that others wait for first, so that all their ends are read together then. */
function readable({ pending, evaluated, sharedLength }: Sequence): number {
  return sharedLength > evaluated ? sharedLength - evaluated : pending;
}

/** Steps that run without waiting for the loop; what comes meanwhile ends the run with the step in flight. */
const longestRun = 64;

/** How many steps like this plan can follow each other: many if all rows decode, until the first sequence reaches its limit; else one. */
export function stepsAhead(plan: Plan, asking: readonly Sequence[]): number {
  if (plan.rows !== asking.length || plan.rows !== plan.sequences.length) return 1;
  return asking.reduce((most, { limit, length }) => Math.min(most, limit - length), longestRun);
}

/** Looking further down the queue than this would cost more than it finds. */
const lookahead = 16;

/**
 * Moves sequences from the queue into free slots, first come first served, and tells where each was placed. One at a time: each is
 * placed when what the one before it displaced has been put away, and so can be found again.
 * One that would share much of a prompt being evaluated right now lets that go first; others may pass it meanwhile.
 */
export function* joinFromQueue(waiting: Sequence[], cache: PrefixCache): Generator<Joined, void, void> {
  for (;;) {
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

/** The first that may start. Where there is room for all, those that take nothing away go first: the places of the others come free for them then. */
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
