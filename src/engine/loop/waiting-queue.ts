// Prompts that wait for a free sequence: in whose turn, and for how long at most. Called by the
// engine's loop.
import { RecuaError } from '../../errors.js';
import type { Asker } from '../protocol.js';
import { FairOrder } from '../planning/fair-order.js';
import type { Sequence } from '../planning/sequence.js';

export class WaitingQueue {
  /** Who joins leaves it. */
  readonly sequences: Sequence[] = [];
  readonly #order = new FairOrder();
  readonly #sinceMs = new Map<Sequence, number>();
  readonly #timeoutMs: number;
  readonly #overdue: (sequence: Sequence, error: RecuaError) => void;
  #timer: NodeJS.Timeout | undefined;

  /** `overdue` hears of those that waited `timeoutMs`, and are in it no more; 0 is never. */
  constructor(timeoutMs: number, overdue: (sequence: Sequence, error: RecuaError) => void) {
    this.#timeoutMs = timeoutMs;
    this.#overdue = overdue;
  }

  get length(): number {
    return this.sequences.length;
  }

  /** Its place; 1 is next. */
  add(sequence: Sequence, asker: Asker | undefined): number {
    this.#order.enter(sequence, asker);
    this.#sinceMs.set(sequence, performance.now());
    this.sequences.push(sequence);
    this.sort();
    if (this.#timeoutMs > 0) this.#timer ??= this.#timerFor(this.#timeoutMs);
    return this.sequences.indexOf(sequence) + 1;
  }

  sort(): void {
    this.#order.sort(this.sequences);
  }

  /** False where it does not wait. */
  remove(sequence: Sequence): boolean {
    const at = this.sequences.indexOf(sequence);
    if (at >= 0) this.sequences.splice(at, 1);
    return at >= 0;
  }

  /** It neither waits nor runs from now on. */
  left(sequence: Sequence): void {
    this.#order.leave(sequence);
    this.#sinceMs.delete(sequence);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #timerFor(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#look(), Math.max(1, ms)).unref();
  }

  #look(): void {
    const dueMs = performance.now() - this.#timeoutMs;
    const late = this.sequences.filter((sequence) => this.#sinceMs.get(sequence)! <= dueMs);
    for (const sequence of late) {
      this.remove(sequence);
      const message = `The request waited ${this.#timeoutMs / 1_000} s for others, which is the most here (--queue-timeout); try again later.`;
      this.#overdue(sequence, new RecuaError('queue_timeout', message));
    }
    const next = Math.min(...this.sequences.map((sequence) => this.#sinceMs.get(sequence)!));
    this.#timer = this.sequences.length > 0 ? this.#timerFor(next - dueMs) : undefined;
  }
}
