// The native addon's types for one step of a context. A part of addon.ts, which gives them to all
// others.
import type { NativeSampler } from './sampling-types.js';

/**
 * One decode and its sampling. Arrays are parallel; row i is one token. They must not be touched
 * until the promise settles.
 */
export interface StepInput {
  tokens: Int32Array;
  positions: Int32Array;
  sequences: Int32Array;
  /** 1 where the row's logits are wanted, else 0. */
  outputs: Uint8Array;
  /** Rows of the arrays that are in use. */
  rows: number;
  /** One entry per wanted row, in order; null decodes without sampling. */
  samplers: (NativeSampler | null)[];
  /**
   * For each of these the most tokens it may give, and steps that follow included. Where it is
   * there, every row of the step wants a token and the samplers draft, guesses are evaluated behind
   * the rows if that pays, and those that came true are tokens like any other.
   */
  rooms?: Int32Array | undefined;
  /**
   * For each of these the token that follows in the prompt: its sampler notes how likely that was,
   * and samples nothing. -1 samples. Absent where all do.
   */
  known?: Int32Array | undefined;
}

/** Of one wanted row's sampler; `code` is one of src/errors.ts. */
export interface StepFailure {
  row: number;
  code: string;
  message: string;
}

export interface StepResult {
  /**
   * One token per wanted row, in order; -1 where there was no sampler. A failed sampler gives -2
   * and an entry in `failures`; -3 is yet to be decided (NativeSampler.decide), and the row's KV is
   * in the sequence; -4 is a row whose next token was known.
   */
  tokens: Int32Array;
  /**
   * Where guesses were evaluated: how many of the tokens each wanted row gave. The KV of all of
   * them but the last is in the sequence then.
   */
  counts?: Int32Array;
  /** NativeSampler.draws of each wanted row's sampler after the step; absent where all are 0. */
  draws?: Int32Array;
  /** Guesses that were evaluated for each of the rows. */
  guesses?: number;
  failures: StepFailure[] | undefined;
  decodeMs: number;
  /** For benchmarks. */
  sampleMs: number;
}
