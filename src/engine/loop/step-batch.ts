// A plan → the arrays that a native step takes. One is filled again and again: a step is only built
// when none is in flight.
import type { NativeSampler, StepInput } from '../../addon/addon.js';
import type { Plan } from '../planning/scheduler.js';
import type { Sequence } from '../planning/sequence.js';

export class StepBatch {
  readonly input: StepInput;
  /** The sequences whose rows want a token, in the order of their samplers. */
  readonly asking: Sequence[] = [];
  /** Most tokens that each of these may give; undefined where nothing is guessed ahead. */
  readonly #rooms: Int32Array | undefined;

  constructor(rows: number, sequences: number, guesses: boolean) {
    this.#rooms = guesses ? new Int32Array(sequences) : undefined;
    this.input = {
      tokens: new Int32Array(rows), positions: new Int32Array(rows), sequences: new Int32Array(rows),
      outputs: new Uint8Array(rows), rows: 0, samplers: [], ...(this.#rooms ? { rooms: this.#rooms } : {}),
    };
  }

  get guesses(): boolean {
    return this.#rooms !== undefined;
  }

  /** Wrong guesses can't be removed from this memory after all. */
  dropGuesses(): void {
    delete this.input.rooms;
  }

  fill(plan: Plan, samplerOf: (sequence: Sequence) => NativeSampler): void {
    const { tokens, positions, sequences, outputs, samplers } = this.input;
    let row = 0;
    samplers.length = this.asking.length = 0;
    for (const [i, sequence] of plan.sequences.entries()) {
      const end = sequence.evaluated + plan.counts[i]!;
      for (let position = sequence.evaluated; position < end; position++, row++) {
        tokens[row] = sequence.tokens[position]!;
        positions[row] = position;
        sequences[row] = sequence.slot;
        outputs[row] = 0;
      }
      if (end < sequence.length) continue;
      outputs[row - 1] = 1;
      if (this.#rooms) this.#rooms[samplers.length] = sequence.limit - sequence.length;
      samplers.push(samplerOf(sequence));
      this.asking.push(sequence);
    }
    this.input.rows = row;
  }
}
