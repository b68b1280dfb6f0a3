// Decides what one step evaluates: who joins, who decodes, how much of each prompt is fed. What
// that takes, step-costs.ts says. Pure: no await, no clock, no I/O. The engine calls it between two
// steps, when nothing is in flight.
import { displaces, type Placement, type PrefixCache } from './prefix.js';
import type { Sequence } from './sequence.js';
import type { Costs, Part } from './step-costs.js';

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

  /** What it costs depends on these; with guesses, a row more for each of those that decode. */
  parts(guesses = 0): Part[] {
    return this.sequences.map((sequence, i) => part(sequence, this.counts[i]! + (sequence.state === 'decode' ? guesses : 0)));
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

/** So many tokens of a stream are its beginning: what came with it is not held up for its sake. */
const beginning = 4;
/** A step without streams takes no longer: it bounds how late a cancel or a newcomer is seen. */
const longestMs = 1250;
/** Of a prompt a step reads so many rows or all: few sizes, so that small changes move no bound. */
const sizes = [8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/**
 * Fewer rows are a choice only where they are read at this part of the best rate of up to so many:
 * else the weights are read in vain.
 */
const usual = 128;
const leastRate = 3 / 4;
/** Prompt rows beside streams before any step was measured. */
const firstRows = 128;

const part = ({ slot, evaluated }: Sequence, rows: number, from = evaluated): Part => ({ slot, depth: from, rows });

interface Choice {
  rows: number;
  /** At most. */
  stepMs: number;
  /** Prompt tokens per millisecond, those of the steps that follow it included. */
  rate: number;
}

/**
 * Fills `plan`: every decoding sequence first, one token each; what is left of `batchSize` goes to
 * prompts: whole ones, the oldest and then the shortest, or a part of a long one. Those two kinds
 * take turns, so that a short prompt is not stuck behind a long one, nor a long one behind many
 * short ones. Of each kind that choice is taken which reads fastest, of those that streams can
 * wait for.
 */
export function planStep(running: readonly Sequence[], batchSize: number, costs: Costs, maxStallMs: number, plan: Plan): void {
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
  const room = batchSize - plan.rows;
  if (prompts.length === 0 || room <= 0) return plan.order();
  const streaming = running.filter(streams);
  const limitMs = streaming.some(({ generated }) => generated > beginning) ? Math.min(maxStallMs, longestMs) : longestMs;
  const most = costs.known || streaming.length === 0 ? room : Math.min(room, firstRows);
  const decoding = plan.parts();

  const parts = partsOf(prompts[0]!, most, decoding, costs);
  // Where even the least takes longer than it may, as long as that.
  const allowedMs = Math.max(limitMs, chosen(parts, limitMs).stepMs);
  const whole = wholePrompts(prompts, most, decoding, costs, allowedMs);
  const long = whole.includes(prompts[0]!) ? undefined : nextLong(prompts.filter((one) => !whole.includes(one)), plan.longBefore);
  const piece = long && chosen(long === prompts[0] ? parts : partsOf(long, most, decoding, costs), limitMs);
  if (costs.known && endSooner(streaming, decoding, prompts, piece?.rows ?? unread(whole), costs, maxStallMs)) return plan.order();

  plan.wholeBefore = long === undefined || (whole.length > 0 && !plan.wholeBefore);
  if (piece && !plan.wholeBefore) {
    plan.add(long, piece.rows);
    plan.longBefore = long;
  } else {
    for (const sequence of whole) plan.add(sequence, readable(sequence));
  }
  plan.order();
}

/** The fastest of those that take no longer than they may; else the one soonest done. */
function chosen(choices: readonly Choice[], limitMs: number): Choice {
  const fitting = choices.filter(({ stepMs }) => stepMs <= limitMs);
  if (fitting.length > 0) return fitting.reduce((best, one) => (one.rate >= best.rate ? one : best));
  return choices.reduce((best, one) => (one.stepMs < best.stepMs ? one : best));
}

/** How much of a prompt a step may read; its rate is that of all steps, to the prompt's end. */
function partsOf(prompt: Sequence, most: number, decoding: readonly Part[], costs: Costs): Choice[] {
  const all = readable(prompt);
  const choices: Choice[] = [];
  // A row more beside those that decode: their pass takes it along.
  const extra = decoding.length > 0 ? 1 : 0;
  for (const wanted of [...sizes, all]) {
    const rows = Math.min(wanted + (wanted < all ? extra : 0), most, all);
    if (choices.some((one) => one.rows === rows)) continue;
    const added = (count: number, from: number): Part[] => [...decoding, part(prompt, count, from)];
    const steps = Math.floor(all / rows);
    const rest = all - steps * rows;
    const halfway = prompt.evaluated + Math.floor(((steps - 1) * rows) / 2);
    const allMs = steps * costs.stepMs(added(rows, halfway)) + (rest > 0 ? costs.stepMs(added(rest, prompt.evaluated + all - rest)) : 0);
    choices.push({ rows, stepMs: costs.mostMs(added(rows, prompt.evaluated)), rate: all / allMs });
  }
  const best = Math.max(...choices.flatMap(({ rows, rate }, i) => (i === 0 || rows <= usual + extra ? [rate] : [])));
  return choices.filter(({ rate }) => rate >= leastRate * best);
}

/** Of the oldest and then the shortest as many as a step may read to their ends. */
function wholePrompts([oldest, ...others]: readonly Sequence[], most: number, decoding: readonly Part[], costs: Costs, limitMs: number): Sequence[] {
  const whole: Sequence[] = [];
  const parts = [...decoding];
  let rows = 0;
  for (const sequence of [oldest!, ...others.sort((a, b) => readable(a) - readable(b))]) {
    if (rows + readable(sequence) > most) continue;
    parts.push(part(sequence, readable(sequence)));
    if (costs.mostMs(parts) > limitMs) {
      parts.pop();
      continue;
    }
    whole.push(sequence);
    rows += readable(sequence);
  }
  return whole;
}

/**
 * Whether all answers end before the prompts could be read beside them: reading waits for that, no
 * longer than a stream would. It is the same work in fewer passes.
 */
function endSooner(streaming: readonly Sequence[], decoding: readonly Part[], prompts: readonly Sequence[], rows: number, costs: Costs, maxStallMs: number): boolean {
  if (decoding.length === 0 || rows === 0) return false;
  const steps = streaming.reduce((last, { limit, length }) => Math.max(last, limit - length), 0);
  const needed = unread(prompts) / rows;
  return steps <= needed && steps * costs.stepMs(decoding) <= maxStallMs;
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
