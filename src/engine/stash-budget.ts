// Memory for conversations that left their context (stashes): of one engine, and of several engines
// that share one budget. Used by engine/loop and engine/model-pool/pool.
import { machineMemory } from '../system/machine-memory.js';

/** A model gets at least this share, however little of the models' memory it takes. */
const leastShare = 1 / 8;

/**
 * Bytes for a setting in MiB; -1: an eighth of the machine's memory (or of what this process may
 * use), at most 8 GiB.
 */
export function stashBudget(mib: number): number {
  if (mib >= 0) return mib * 2 ** 20;
  return Math.min(8 * 2 ** 30, machineMemory().totalBytes / 8);
}

/**
 * The setting, in MiB, for one of several models whose setting is -1: its share of the budget that
 * a single model would have, and no more than is left of it. `part`: the model's share of the
 * models' memory, from 0 to 1.
 */
export function shareOfStash(part: number, takenMib: number, budgetBytes = stashBudget(-1)): number {
  const wholeMib = Math.floor(budgetBytes / 2 ** 20);
  return Math.max(0, Math.min(wholeMib - takenMib, Math.floor(wholeMib * Math.min(1, Math.max(part, leastShare)))));
}
