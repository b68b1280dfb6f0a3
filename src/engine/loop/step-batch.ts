// A plan → the arrays of a native step. One object is reused for all steps: a step is built only
// when none is in flight.
import type { NativeSampler, StepInput } from '../../addon/addon.js';
import type { Plan } from '../planning/scheduler.js';
import type { Sequence } from '../planning/sequence.js';

/** A step's result for a scored row of a prompt, whose next token is known. */
export const scored = -4;

/** What a step needs of a request. */
export interface Asking {
  sampler: NativeSampler;
  /** Its sampler guesses ahead. */
  guesses: boolean;
}

export class StepBatch {
  readonly input: StepInput;
  /** The sequences whose rows want a token, in the order of `input.samplers`. */
  readonly asking: Sequence[] = [];
  /** Most tokens that each of them may produce. */
  readonly #rooms: Int32Array;
  /** Wrong guesses can be removed from this model's memory. */
  #mayGuess: boolean;

  constructor(rows: number, sequences: number, mayGuess: boolean) {
    this.#rooms = new Int32Array(sequences);
    this.#mayGuess = mayGuess;
    this.input = {
      tokens: new Int32Array(rows), positions: new Int32Array(rows), sequences: new Int32Array(rows),
      outputs: new Uint8Array(rows), rows: 0, samplers: [], rooms: undefined, known: undefined,
    };
  }

  /** Wrong guesses turned out not to be removable. */
  dropGuesses(): void {
    this.#mayGuess = false;
  }

  fill(plan: Plan, requestOf: (sequence: Sequence) => Asking): void {
    const { tokens, positions, sequences, outputs, samplers } = this.input;
    let row = 0;
    let guessing = 0;
    samplers.length = this.asking.length = 0;
    if (this.input.known) this.input.known = undefined;
    for (const [i, sequence] of plan.sequences.entries()) {
      const end = sequence.evaluated + plan.counts[i]!;
      for (let position = sequence.evaluated; position < end; position++, row++) {
        tokens[row] = sequence.tokens[position]!;
        positions[row] = position;
        sequences[row] = sequence.slot;
        outputs[row] = 0;
      }
      if (sequence.isScored && sequence.scored < sequence.promptLength - 1) this.#score(sequence, end, row, requestOf(sequence).sampler);
      if (end < sequence.length) continue;
      const { sampler, guesses } = requestOf(sequence);
      outputs[row - 1] = 1;
      if (guesses && samplers.length < this.#rooms.length) {
        this.#rooms[samplers.length] = sequence.limit - sequence.length;
        guessing++;
      }
      samplers.push(sampler);
      this.asking.push(sequence);
    }
    this.input.rows = row;
    // Guesses are evaluated for all rows or for none.
    this.input.rooms = this.#mayGuess && guessing > 0 && guessing === samplers.length ? this.#rooms : undefined;
  }

  /**
   * Requests the log probabilities of a prompt's tokens, whose rows end before `row`: each row
   * scores the token after it. Skips tokens that are scored already.
   */
  #score(sequence: Sequence, end: number, row: number, sampler: NativeSampler): void {
    const { outputs, samplers } = this.input;
    const known = (this.input.known ??= new Int32Array(this.input.tokens.length).fill(-1));
    const last = Math.min(end, sequence.promptLength - 1);
    for (let position = Math.max(sequence.evaluated, sequence.scored); position < last; position++) {
      outputs[row - end + position] = 1;
      known[samplers.length] = sequence.tokens[position + 1]!;
      samplers.push(sampler);
      this.asking.push(sequence);
    }
  }
}
