// Memory for conversations that had to leave their context: of one engine, and of several that
// share what one would have. Used by engine/loop, and by engine/gateway/pool.
import { totalmem } from 'node:os';

/** However little of the models' memory a model takes, it may have this part. */
const leastShare = 1 / 8;

/**
 * Bytes for a setting in MiB; -1 is an eighth of the machine's memory (or of what this process may
 * use), at most 8 GiB.
 */
export function stashBudget(mib: number): number {
  if (mib >= 0) return mib * 2 ** 20;
  const limit = process.constrainedMemory?.() ?? 0;
  const total = totalmem();
  return Math.min(8 * 2 ** 30, (limit > 0 && limit < total ? limit : total) / 8);
}

/**
 * The setting of one of several models, in MiB, of which each says -1: its part of what one alone
 * would have, and no more than is left of that. `part`: of the models' memory, from 0 to 1.
 */
export function shareOfStash(part: number, takenMib: number, budgetBytes = stashBudget(-1)): number {
  const wholeMib = Math.floor(budgetBytes / 2 ** 20);
  return Math.max(0, Math.min(wholeMib - takenMib, Math.floor(wholeMib * Math.min(1, Math.max(part, leastShare)))));
}
