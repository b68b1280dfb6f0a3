// The scheduler: decides which sequences leave the queue (`joinFromQueue`) and what one step
// evaluates (`planStep`). Pure: no await, no clock, no I/O. The engine's loop calls it between two
// steps, when nothing is in flight.
//
// The batch is continuous: each step gives every decoding sequence one token, and fills the rest
// with prompt tokens (chunked prefill). More prompt rows read prompts faster, but the step takes
// longer and delays the next token of every stream. So planStep:
//
//   1. adds one row for each decoding sequence;
//   2. sets the step's time limit: `maxStallMs` while clients receive streams, at most `longestMs`;
//   3. chooses the whole prompts that the step can read within the limit, by the times that
//      step-costs.ts predicts;
//   4. if the oldest prompt is not among them, chooses a piece of a long prompt, too: of the sizes
//      within the limit, the one that reads fastest;
//   5. takes whole prompts and the piece in turns, so that neither short nor long prompts starve;
//   6. adds no prompt rows if all streams end before the prompts could be read beside them.
import { displaces, type Placement } from './placement.js';
import type { PrefixCache } from './prefix.js';
import type { Sequence } from './sequence.js';
import type { Costs, Part } from './step-costs.js';

/**
 * What a step evaluates: `counts[i]` tokens of `sequences[i]`. One object is reused for all steps.
 */
export class Plan {
  readonly sequences: Sequence[] = [];
  readonly counts: number[] = [];
  rows = 0;
  /**
   * Whose turn it was, kept from step to step: whole prompts or a piece, and of which long prompt.
   */
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

  /** For StepCosts. `guesses` adds this many rows to each decoding sequence. */
  parts(guesses = 0): Part[] {
    return this.sequences.map((sequence, i) => part(sequence, this.counts[i]! + (sequence.state === 'decode' ? guesses : 0)));
  }

  /**
   * Sorts by slot (in place, without allocating): llama.cpp computes rows of several sequences in
   * one pass only if their ids are consecutive.
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
 * Most rows in a step of a scored prompt, which needs the logits of each row. One row's logits are
 * as large as the vocabulary, so only one prompt is scored at a time.
 */
export const scoredRows = 32;

/** Whether the sequence's answer has begun, so that its next token waits for the step. */
export function streams({ state }: Sequence): boolean {
  return state === 'decode' || state === 'deciding';
}

/** Whether a long step would delay a stream. */
export function isStreaming(running: readonly Sequence[]): boolean {
  return running.some(streams);
}

/**
 * Whether there is nothing to compute: no sequences, or all running ones wait for tokens that pool
 * threads decide (loop/decisions.ts).
 */
export function isIdle(waiting: readonly Sequence[], running: readonly Sequence[]): boolean {
  if (running.length === 0) return waiting.length === 0;
  return running.every((sequence) => sequence.state === 'deciding');
}

/** Prompt tokens left to evaluate before all of these sequences decode. */
export function unread(sequences: readonly Sequence[]): number {
  return sequences.reduce((sum, { state, pending }) => (state === 'waiting' || state === 'prefill' ? sum + pending : sum), 0);
}

/**
 * A stream limits the step's time only after this many tokens, so that a stream which has just
 * begun does not slow down prompts that arrived with it.
 */
const beginning = 4;
/** Limit of every step, also without streams: cancels and new requests wait for the step's end. */
const longestMs = 1250;
/**
 * Possible sizes of a prompt's piece, besides all that is left. There are few of them, so that
 * small changes in the predicted costs do not change the choice.
 */
const sizes = [8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/**
 * A piece must read at least at `leastRate` of the best rate of pieces up to `usual` rows: smaller
 * ones would spend the step on reading the weights.
 */
const usual = 128;
const leastRate = 3 / 4;
/** Most prompt rows beside streams before any step was measured. */
const firstRows = 128;

const part = ({ slot, evaluated }: Sequence, rows: number, from = evaluated): Part => ({ slot, depth: from, rows });

/** A possible piece of a prompt. */
interface Choice {
  rows: number;
  /** Upper estimate. */
  stepMs: number;
  /** Prompt tokens per millisecond if all of the prompt is read in such pieces. */
  rate: number;
}

/**
 * Fills `plan`. Every decoding sequence gets one token. The rest of `batchSize` goes to prompts:
 * either to whole ones (the oldest first, then the shortest), or to a piece of a long one. These
 * two kinds take turns, so that a short prompt is not stuck behind a long one, nor a long one
 * behind many short ones. A piece has the size that reads fastest among those that streams can wait
 * for.
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
  // If even the smallest piece exceeds the limit, its time becomes the limit.
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

/** The choice with the best rate within the limit; if none is within it, the shortest step. */
function chosen(choices: readonly Choice[], limitMs: number): Choice {
  const fitting = choices.filter(({ stepMs }) => stepMs <= limitMs);
  if (fitting.length > 0) return fitting.reduce((best, one) => (one.rate >= best.rate ? one : best));
  return choices.reduce((best, one) => (one.stepMs < best.stepMs ? one : best));
}

/** The sizes of piece that a step may read of a prompt, without those that read too slowly. */
function partsOf(prompt: Sequence, most: number, decoding: readonly Part[], costs: Costs): Choice[] {
  const all = readable(prompt);
  const choices: Choice[] = [];
  // One row of the prompt goes into the pass of the decoding sequences, so the others keep the
  // size.
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

/** As many prompts as a step may read to their ends: the oldest, then the shortest. */
function wholePrompts(
  [oldest, ...others]: readonly Sequence[],
  most: number,
  decoding: readonly Part[],
  costs: Costs,
  limitMs: number,
): Sequence[] {
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
 * Whether all answers end before the prompts could be read beside them, `rows` in each step, and
 * within `maxStallMs`. Then the prompts wait for that end: it is the same work in fewer passes.
 */
function endSooner(
  streaming: readonly Sequence[],
  decoding: readonly Part[],
  prompts: readonly Sequence[],
  rows: number,
  costs: Costs,
  maxStallMs: number,
): boolean {
  if (decoding.length === 0 || rows === 0) return false;
  const steps = streaming.reduce((last, { limit, length }) => Math.max(last, limit - length), 0);
  const needed = unread(prompts) / rows;
  return steps <= needed && steps * costs.stepMs(decoding) <= maxStallMs;
}

/** The long prompt whose turn it is: the oldest and the shortest of the others alternate. */
function nextLong([oldest, ...others]: readonly Sequence[], before: Sequence | undefined): Sequence {
  if (oldest !== before || others.length === 0) return oldest!;
  return others.reduce((one, other) => (readable(other) < readable(one) ? other : one));
}

/**
 * Most prompt tokens of a sequence that one step may read. It stops at the end of a prefix for
 * which other sequences wait, so that they can join and all the ends are read together, and at a
 * checkpoint.
 */
export function readable({ pending, evaluated, sharedLength, checkpointAt, isScored }: Sequence): number {
  const until = sharedLength > evaluated ? sharedLength : checkpointAt;
  const wanted = until > evaluated ? until - evaluated : pending;
  return isScored ? Math.min(wanted, scoredRows) : wanted;
}

/**
 * Most steps that the compute thread runs without waiting for the loop. A request that arrives
 * meanwhile ends the run after the step in flight.
 */
const longestRun = 64;

/**
 * How many steps like this plan can follow each other. If all rows decode: until the first sequence
 * reaches its token limit. Otherwise one.
 */
export function stepsAhead(plan: Plan, asking: readonly Sequence[]): number {
  if (plan.rows !== asking.length || plan.rows !== plan.sequences.length) return 1;
  return asking.reduce((most, { limit, length }) => Math.min(most, limit - length), longestRun);
}

/**
 * Sequences of the queue that are considered, besides those known to wait for a prefill: looking
 * further costs more than it finds.
 */
const lookahead = 16;

/**
 * Moves sequences from the queue into free slots, in the queue's order, and yields each placement.
 * `sort` restores the order before each choice. The generator places one sequence at a time: by the
 * next turn, the caller has stashed what the last one displaced, so that the next can find it. A
 * sequence that would share much of a prompt being evaluated right now waits for that; others may
 * pass it meanwhile.
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

/** The prefill that it waits for is not there yet. */
function waitsForLeader({ leader, joinsAt }: Sequence): boolean {
  return leader?.state === 'prefill' && leader.sharedLength > leader.evaluated && joinsAt >= leader.sharedLength;
}

/**
 * The first sequence that may start. If there are slots for all, sequences that displace no other
 * conversation go first; the others then take what is left.
 */
function choose(waiting: readonly Sequence[], cache: PrefixCache): Joined | undefined {
  const roomForAll = waiting.length <= cache.freeSlots;
  let first: Joined | undefined;
  let considered = 0;
  for (const sequence of waiting) {
    if (waitsForLeader(sequence)) continue;
    if (++considered > lookahead) break;
    const placement = cache.place(sequence);
    if (placement === 'wait') continue;
    if (!roomForAll || !displaces(placement)) return { sequence, placement };
    first ??= { sequence, placement };
  }
  return first;
}
