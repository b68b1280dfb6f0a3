// The queue of prompts that wait for a free sequence: its order and its timeout. Called by the
// engine's loop.
import { RecuaError } from '../../errors.js';
import { gaveWay } from '../give-way.js';
import type { Asker } from '../protocol.js';
import { FairOrder } from '../planning/fair-order.js';
import type { Sequence } from '../planning/sequence.js';

export class WaitingQueue {
  /** A sequence that joins is removed. */
  readonly sequences: Sequence[] = [];
  readonly #order = new FairOrder();
  readonly #sinceMs = new Map<Sequence, number>();
  /** Those that wait without a limit, and give way to nobody. */
  readonly #staying = new Set<Sequence>();
  /** Those that found every place taken. */
  readonly #placeless = new Set<Sequence>();
  readonly #timeoutMs: number;
  readonly #giveUp: (sequence: Sequence, error: RecuaError) => void;
  #timer: NodeJS.Timeout | undefined;

  /**
   * Sequences wait `timeoutMs` at most while all places are taken; 0: no limit. `giveUp` ends those
   * that leave unserved. Both concern neither those that have run before nor those of an asker that
   * `follows`.
   */
  constructor(timeoutMs: number, giveUp: (sequence: Sequence, error: RecuaError) => void) {
    this.#timeoutMs = timeoutMs;
    this.#giveUp = giveUp;
  }

  /** The next one: whether it has run before, its priority, and when its request arrived. */
  get first(): { continues: boolean; priority: number; arrived: number } | undefined {
    const [first] = this.sequences;
    return first && { ...this.#order.entryOf(first), continues: first.continues };
  }

  get length(): number {
    return this.sequences.length;
  }

  /** Returns its position; 1 is next. `sinceMs`: when its request arrived, to be prepared first. */
  add(sequence: Sequence, asker: Asker | undefined, sinceMs: number): number {
    this.#order.enter(sequence, asker, sinceMs);
    if (sequence.continues || asker?.follows === true) this.#staying.add(sequence);
    this.#sinceMs.set(sequence, this.#staying.has(sequence) ? Infinity : sinceMs);
    this.sequences.push(sequence);
    this.sort();
    return this.sequences.indexOf(sequence) + 1;
  }

  sort(): void {
    this.#order.sort(this.sequences);
  }

  /** Those that may give way: of whom they are, and when their requests arrived. */
  get movable(): { client: string; priority: number; arrived: number; sequence: Sequence }[] {
    return this.sequences.flatMap((sequence) => (this.#staying.has(sequence) ? [] : [{ ...this.#order.entryOf(sequence), sequence }]));
  }

  giveWay(sequence: Sequence): void {
    this.remove(sequence);
    this.#giveUp(sequence, gaveWay());
  }

  /** False if it is not in the queue. */
  remove(sequence: Sequence): boolean {
    const at = this.sequences.indexOf(sequence);
    if (at >= 0) this.sequences.splice(at, 1);
    return at >= 0;
  }

  /** The sequence neither waits nor runs any more. */
  left(sequence: Sequence): void {
    this.#order.leave(sequence);
    this.#sinceMs.delete(sequence);
    this.#staying.delete(sequence);
    this.#placeless.delete(sequence);
  }

  /**
   * After the loop has given places away. Those that wait although one is free wait for a prefix
   * that is being read; their time counts from when all places are taken again.
   */
  looked(isFull: boolean): void {
    if (this.#timeoutMs === 0) return;
    if (!isFull) {
      const nowMs = performance.now();
      for (const sequence of this.sequences) if (!this.#staying.has(sequence)) this.#sinceMs.set(sequence, nowMs);
      return this.#placeless.clear();
    }
    const { size } = this.#placeless;
    for (const sequence of this.sequences) this.#placeless.add(sequence);
    if (this.#placeless.size > size) this.#endLate();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #endLate(): void {
    const lateMs = performance.now() - this.#timeoutMs;
    let nextMs = Infinity;
    for (const sequence of this.sequences.filter((one) => this.#placeless.has(one))) {
      const sinceMs = this.#sinceMs.get(sequence)!;
      if (sinceMs > lateMs) {
        nextMs = Math.min(nextMs, sinceMs);
        continue;
      }
      this.remove(sequence);
      const message = `The request waited ${this.#timeoutMs / 1_000} s in the queue, which is the limit (--queue-timeout); try again later.`;
      this.#giveUp(sequence, new RecuaError('queue_timeout', message));
    }
    clearTimeout(this.#timer);
    this.#timer = nextMs < Infinity ? setTimeout(() => this.#endLate(), Math.max(1, nextMs - lateMs)).unref() : undefined;
  }
}
