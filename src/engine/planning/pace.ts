// What steps took, and from that how many prompt tokens the next one reads. Pure. The engine tells
// it of each step, and asks before the next.
import { readable, streams, tileRows, unread, type Plan } from './scheduler.js';
import type { Sequence } from './sequence.js';

/** Prompt tokens beside running streams while the machine's speed is not known yet. */
const firstBudget = 128;
/**
 * A step with fewer prompt rows and nothing beside them says little about the speed: it mostly
 * reads the weights.
 */
const tellingRows = 32;
/** A step without streams aims at this long: it bounds how late a cancel or a newcomer is seen. */
const prefillStepMs = 1000;
/** … or a little longer, where that ends all prompts at once. */
const toTheEnd = 1.25;
/**
 * So many tokens of a stream are its beginning, which does not hold up the prompts that came with
 * its own.
 */
const beginning = 4;
/**
 * Beside rows that decode, reading a prompt takes at least so much longer than alone: the last
 * tokens may as well come first.
 */
const besideOthers = 1 / 3;
/** Less than a tile is read in these sizes. */
const smallSizes = [32, 16, 8];
/**
 * All but the largest only where attention is at least this part of a row's time: else they read
 * the weights in vain.
 */
const mostlyAttention = 1 / 2;
/** Less than a tile is worth it where its rate is at least this part of a whole one's. */
const worthLess = 0.8;
/** … or this part, where it keeps to what a stream may wait and the tile does not. */
const worthKeeping = 0.5;
/**
 * What else runs may have made less than a tile seem slow: after so many whole ones, the smallest
 * part is tried again.
 */
const triedAgain = 32;
/**
 * A step beside streams is at most so many times as large as the largest seen: how the cost grows
 * may not be known yet.
 */
const farther = 4;
/** Of what was known, so much stays when a step is noted. */
const remembered = 0.75;

/**
 * Milliseconds per row, as a line over its depth: how many tokens of its sequence come before it.
 */
class RowCost {
  // Sums over the steps noted, the older the less.
  #weight = 0;
  #depth = 0;
  #depthSquared = 0;
  #ms = 0;
  #depthMs = 0;
  #slope = 0;

  get known(): boolean {
    return this.#weight > 0;
  }

  note(depth: number, msPerRow: number): void {
    this.#weight = this.#weight * remembered + 1;
    this.#depth = this.#depth * remembered + depth;
    this.#depthSquared = this.#depthSquared * remembered + depth * depth;
    this.#ms = this.#ms * remembered + msPerRow;
    this.#depthMs = this.#depthMs * remembered + depth * msPerRow;
    const spread = this.#weight * this.#depthSquared - this.#depth ** 2;
    // Steps of about one depth do not say how the cost changes with it; what was known of that
    // stays.
    if (spread < (this.#weight * tileRows) ** 2) return;
    this.#slope = Math.max(0, (this.#weight * this.#depthMs - this.#depth * this.#ms) / spread);
  }

  at(depth: number): number {
    const mean = this.#ms / this.#weight;
    return Math.max(mean / 8, mean + this.#slope * (depth - this.#depth / this.#weight));
  }
}

/**
 * What a row's attention takes where it goes row by row: as much for each token before it. The rest
 * of the row is as in tiles.
 */
class SmallCost {
  readonly #tiles: RowCost;
  #attentionMs = 0;
  #noted = 0;

  constructor(tiles: RowCost) {
    this.#tiles = tiles;
  }

  get known(): boolean {
    return this.#noted > 0;
  }

  note(depth: number, msPerRow: number): void {
    // Rows without much before them say nothing of it.
    if (depth < tileRows) return;
    const now = Math.max(0, msPerRow - this.#tiles.at(0)) / depth;
    this.#attentionMs = this.#noted++ === 0 ? now : average(this.#attentionMs, now);
  }

  at(depth: number): number {
    return this.#tiles.at(0) + this.#attentionMs * depth;
  }

  /** The part of a row's time. */
  attention(depth: number): number {
    return (this.#attentionMs * depth) / this.at(depth);
  }
}

export class Pace {
  /** A step in which all decode. */
  decodeMs = 0;
  /** The last step. */
  stepMs = 0;
  /** Prompt rows in passes of whole tiles, and of less than one. */
  readonly #tiles = new RowCost();
  readonly #small = new SmallCost(this.#tiles);
  #wholeSinceSmall = 0;
  #depth = 0;
  #largest = tileRows;

  /**
   * Prompt tokens, the decoding rows beside them not counted, where the last were read; 0 is
   * unknown.
   */
  get tokensPerMs(): number {
    return this.#tiles.known ? 1 / this.#tiles.at(this.#depth) : 0;
  }

  /**
   * Before what the step brought is accepted: its sequences' states are those it was planned with.
   * One with guesses takes longer than a plain one.
   */
  note(plan: Plan, stepMs: number, guesses = 0): void {
    this.stepMs = stepMs;
    if (stepMs <= 0) return;
    let decoding = 0;
    let least = Infinity;
    let depths = 0;
    for (const [i, { state, evaluated }] of plan.sequences.entries()) {
      if (state === 'decode') decoding++;
      else {
        least = Math.min(least, plan.counts[i]!);
        depths += (evaluated + plan.counts[i]! / 2) * plan.counts[i]!;
      }
    }
    const rows = plan.rows - decoding;
    this.#largest = Math.max(this.#largest, rows);
    if (rows === 0 && guesses === 0) this.decodeMs = average(this.decodeMs, stepMs);
    if (rows < (decoding > 0 && this.decodeMs > 0 ? smallSizes.at(-1)! : tellingRows)) return;
    // At least half is for the prompt, whatever the others took last.
    const perRow = Math.max(stepMs - (decoding > 0 ? this.decodeMs : 0), stepMs / 2) / rows;
    this.#depth = depths / rows;
    // One row of the prompt goes with those that decode.
    const whole = least - (decoding > 0 ? 1 : 0) >= tileRows;
    this.#wholeSinceSmall = whole ? this.#wholeSinceSmall + 1 : 0;
    if (whole || !this.#tiles.known) this.#tiles.note(this.#depth, perRow);
    if (!whole) this.#small.note(this.#depth, perRow);
  }

  /**
   * How long reading so many prompt tokens takes, from some depth on, with nothing beside them; 0
   * while the speed is not known. Those of several prompts are each behind their own only:
   * `longest` of them at most.
   */
  readMs(tokens: number, depth = 0, longest = tokens): number {
    return this.#tiles.known ? tokens * this.#tiles.at(depth + Math.min(tokens, longest) / 2) : 0;
  }

  /** How long all takes that is to be evaluated before these decode. */
  unreadMs(sequences: readonly Sequence[]): number {
    return sequences.reduce((sum, { state, evaluated, pending }) => (state === 'waiting' || state === 'prefill' ? sum + this.readMs(pending, evaluated) : sum), 0);
  }

  /**
   * Prompt tokens the next step is to evaluate, at most; 0 where all that decode are so near to
   * their limits that the prompts gain by waiting.
   */
  promptRows(running: readonly Sequence[], batchSize: number, maxStallMs: number): number {
    const rest = unread(running);
    const prompts = running.filter(({ state }) => state === 'prefill');
    const depth = prompts[0]?.evaluated ?? 0;
    const longest = prompts.reduce((most, { pending }) => Math.max(most, pending), 0);
    const restMs = this.unreadMs(running);
    const streaming = running.filter(streams);
    if (streaming.length > 0) {
      const last = Math.max(...streaming.map(({ limit, length }) => limit - length));
      const decodes = streaming.some(({ state }) => state === 'decode');
      if (decodes && this.decodeMs > 0 && last * this.decodeMs < Math.min(restMs * besideOthers, maxStallMs)) return 0;
      const begun = streaming.some(({ generated }) => generated > beginning);
      if (begun || !this.#tiles.known) {
        return this.budget(true, batchSize, maxStallMs, depth, longest);
      }
    }
    if (this.#tiles.known && restMs < prefillStepMs * toTheEnd) return Math.min(batchSize, rest);
    return this.budget(false, batchSize, maxStallMs, depth, longest);
  }

  /**
   * Prompt tokens the next step may evaluate, behind `depth` others, of prompts with at most
   * `longest` to come. A stream's gap is one step, so a step beside streams aims at no longer than
   * `maxStallMs`, of which their own rows take a part. Few sizes only, each a half or a third more
   * than the one before, so that small changes of the rate leave chunk bounds (and with them
   * rounding) alone; from 64 on, whole tiles. Less than a tile only where that is really sooner
   * done.
   */
  budget(streaming: boolean, batchSize: number, maxStallMs: number, depth = 0, longest = batchSize): number {
    if (!this.#tiles.known) return Math.min(batchSize, streaming ? firstBudget : batchSize);
    const room = streaming ? Math.min(maxStallMs, prefillStepMs) - this.decodeMs : prefillStepMs;
    let size = 0;
    const most = streaming ? Math.min(batchSize, this.#largest * farther) : batchSize;
    for (let power = tileRows; power < 2 * most && this.readMs(power, depth, longest) <= room; power *= 2) {
      size = power;
      if (power > tileRows && this.readMs(power * 1.5, depth, longest) <= room) size = power * 1.5;
    }
    return Math.min(most, size || this.#lessThanTile(room, depth));
  }

  /**
   * Where a tile takes longer than there is room for: the largest that fits, the least if none
   * does; the tile, where less is hardly sooner done.
   */
  #lessThanTile(room: number, depth: number): number {
    const least = smallSizes.at(-1)!;
    if (!this.#small.known) return depth < tileRows ? smallSizes[0]! : least;
    if (this.#wholeSinceSmall > triedAgain && least * this.#small.at(depth) <= room) return least;
    const rate = this.#tiles.at(depth) / this.#small.at(depth);
    const sizes = this.#small.attention(depth) >= mostlyAttention ? smallSizes : smallSizes.slice(0, 1);
    const fitting = sizes.find((rows) => rows * this.#small.at(depth) <= room);
    if (rate > worthLess) return fitting ?? sizes.at(-1)!;
    return fitting !== undefined && rate > worthKeeping ? fitting : tileRows;
  }

  /**
   * How much of a prompt longer than `most` is read in a step: `most`, but what is left behind it
   * is a tile at least, or nothing, where less would be slow behind a long context.
   */
  part(sequence: Sequence, most: number, maxStallMs: number): number {
    const left = readable(sequence) - most - 1;
    if (most < tileRows || left <= 0 || left >= tileRows) return most;
    if (most >= 2 * tileRows) return most - tileRows;
    const depth = sequence.evaluated + most;
    const apartMs = this.#small.known ? left * this.#small.at(depth) : Infinity;
    const together = most + left;
    return apartMs + this.decodeMs <= maxStallMs || apartMs < this.readMs(together, sequence.evaluated) ? most : together;
  }
}

/** Of what was and what is; 0 is unknown. */
const average = (before: number, now: number): number => (before === 0 ? now : (before + now) / 2);
