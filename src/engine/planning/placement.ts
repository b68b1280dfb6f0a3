// Where a sequence goes, and what of the KV there is reused, removed or kept. The prefix cache
// (prefix.ts) decides it; loop/admission.ts makes the KV calls.
import type { Checkpoint } from './checkpoints.js';
import type { Sequence } from './sequence.js';

/**
 * Which slot a sequence gets, and which first `reused` tokens it takes over: from the slot `source`
 * (`slot` itself or another) or from a stash.
 */
export interface Placement {
  slot: number;
  /** -1: none. */
  source: number;
  /** Id of a stash; 0: none. */
  stash: number;
  reused: number;
  /**
   * Tokens the slot held before. Those beyond `reused` must be removed; all of them if the source
   * is another slot.
   */
  held: number;
  /** All tokens the slot held, if they should be stashed before some are removed. */
  keep: Int32Array | undefined;
  /** The checkpoint to roll the source back to; absent if it need not, or can be truncated. */
  checkpoint?: Checkpoint;
  /** Checkpoints that go to the stash with `keep`. */
  leaving?: readonly Checkpoint[];
}

/** Moves a running sequence to another slot, so that running sequences are neighbors. */
export interface SlotMove {
  sequence: Sequence;
  to: number;
  /** Tokens the gap held, and the tokens themselves if they should be stashed. */
  held: number;
  keep: Int32Array | undefined;
}

/** Losing this few tokens of a conversation is no reason to copy it. */
export const smallLoss = 64;

/** Whether this placement destroys KV that another conversation may continue from. */
export function displaces({ slot, source, reused, held }: Placement): boolean {
  return held - (source === slot ? reused : 0) > smallLoss;
}
