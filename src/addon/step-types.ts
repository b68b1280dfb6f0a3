// The native addon's types for one step of a context. Re-exported by addon.ts.
import type { NativeSampler } from './sampling-types.js';

/**
 * One decode and its sampling. The arrays are parallel: row i is one token. They must not be
 * changed until the promise settles.
 */
export interface StepInput {
  tokens: Int32Array;
  positions: Int32Array;
  sequences: Int32Array;
  /** 1: the row's logits are wanted; else 0. */
  outputs: Uint8Array;
  /** Rows of the arrays in use. */
  rows: number;
  /** One entry per wanted row, in order; null decodes without sampling. */
  samplers: (NativeSampler | null)[];
  /**
   * For each sampler, the most tokens it may produce in this step and those that follow it. If
   * present, if every row of the step wants a token and the samplers draft: evaluates guesses after
   * the rows when that pays, and returns right guesses like other tokens.
   */
  rooms?: Int32Array | undefined;
  /**
   * For each sampler, the token that follows in the prompt: the sampler notes its probability and
   * samples nothing. -1: samples. Absent: all sample.
   */
  known?: Int32Array | undefined;
}

/** Failure of one wanted row's sampler; `code` is one of src/errors.ts. */
export interface StepFailure {
  row: number;
  code: string;
  message: string;
}

export interface StepResult {
  /**
   * One token per wanted row, in order. -1: no sampler. -2: the sampler failed; see `failures`. -3:
   * not decided yet (NativeSampler.decide); the row's KV is in the sequence. -4: the row's next
   * token was known.
   */
  tokens: Int32Array;
  /**
   * If guesses were evaluated: the number of tokens from each wanted row. The KV of all of them
   * except the last is in the sequence.
   */
  counts?: Int32Array;
  /** NativeSampler.draws of each wanted row's sampler after the step; absent if all are 0. */
  draws?: Int32Array;
  /** Guesses evaluated for each of the rows. */
  guesses?: number;
  failures: StepFailure[] | undefined;
  decodeMs: number;
  /** For benchmarks. */
  sampleMs: number;
}
