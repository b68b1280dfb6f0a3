// Decides what one step evaluates: who joins, who decodes, how much of each prompt is fed.
// Pure: no await, no clock, no I/O. The engine calls it between two steps, when nothing is in flight.
import type { Placement, PrefixCache } from './prefix.js';
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
const firstBudget = 256;
/** A step without streams aims at this long: it bounds how late a cancel or a newcomer is seen. */
const prefillStepMs = 1000;
/** Below this, a chunk wastes more on reading the weights than it saves in latency. */
const smallestBudget = 32;

/**
 * Prompt tokens the next step may evaluate. `tokensPerMs` is the measured prefill rate, 0 if unknown. A stream's gap is one step, so a step
 * beside streams aims at no longer than `maxStallMs`.
 * Powers of two only, so that small changes of the rate leave chunk bounds (and with them rounding) alone.
 */
export function prefillBudget(streaming: boolean, tokensPerMs: number, batchSize: number, maxStallMs: number): number {
  if (tokensPerMs === 0) return Math.min(batchSize, streaming ? firstBudget : batchSize);
  const wanted = tokensPerMs * (streaming ? Math.min(maxStallMs, prefillStepMs) : prefillStepMs);
  const budget = 2 ** Math.floor(Math.log2(Math.max(wanted, smallestBudget)));
  return Math.min(batchSize, budget);
}

/** Whether any sequence decodes, which is when a long prompt must not hold the step. */
export function isStreaming(running: readonly Sequence[]): boolean {
  return running.some((sequence) => sequence.state === 'decode');
}

/**
 * Fills `plan`: every decoding sequence first, one token each; what is left of `batchSize`, at most `budget`, goes to prompts.
 * Half of the budget is split evenly among them, so that a short prompt is not stuck behind a long one;
 * the rest goes to the oldest, so that equal prompts do not all end late together.
 */
export function planStep(running: readonly Sequence[], batchSize: number, budget: number, plan: Plan): void {
  plan.clear();
  let prefilling = 0;
  for (const sequence of running) {
    if (sequence.state === 'decode') plan.add(sequence, 1);
    else if (sequence.state === 'prefill') prefilling++;
  }
  if (prefilling === 0) return plan.order();
  let left = Math.min(budget, batchSize - plan.rows);
  const share = Math.max(1, Math.floor(left / (2 * prefilling)));
  const first = plan.sequences.length;
  for (const sequence of running) {
    if (sequence.state !== 'prefill' || left === 0) continue;
    const count = Math.min(sequence.pending, share, left);
    plan.add(sequence, count);
    left -= count;
  }
  for (let i = first; i < plan.sequences.length && left > 0; i++) {
    const more = Math.min(plan.sequences[i]!.pending - plan.counts[i]!, left);
    plan.counts[i]! += more;
    plan.rows += more;
    left -= more;
  }
  plan.order();
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
 * Moves sequences from the queue into free slots, first come first served, and tells where each was placed.
 * One that would share much of a prompt being evaluated right now lets that go first; others may pass it meanwhile.
 */
export function joinFromQueue(waiting: Sequence[], cache: PrefixCache): { sequence: Sequence; placement: Placement }[] {
  const joined: { sequence: Sequence; placement: Placement }[] = [];
  for (let i = 0; i < waiting.length && i < lookahead && cache.freeSlots > 0; ) {
    const sequence = waiting[i]!;
    const placement = cache.place(sequence);
    if (placement === 'wait') {
      i++;
      continue;
    }
    cache.take(placement, sequence);
    waiting.splice(i, 1);
    joined.push({ sequence, placement });
  }
  return joined;
}
