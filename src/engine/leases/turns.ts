// Chooses which models leave for another, and when. Models that do not fit together take turns: a
// loaded model keeps serving while others wait, but not forever, which balances swapping against
// waiting. Pure; used by engine/leases/leases.
import { fits, shareOfLack, withMore, type Bytes, type Room } from './budget.js';
import type { ModelEntry } from './model-entry.js';

export interface TurnPolicy {
  /**
   * A turn ends after this many requests were served, if it took at least as long as the swap that
   * follows …
   */
  requests: number;
  /** … or after this time, or the time of two swaps if that is longer. */
  turnMs: number;
  /** An idle model waits for its next request for this share of the swap's time, … */
  lingerShare: number;
  /** … within these limits. */
  leastLingerMs: number;
  mostLingerMs: number;
}

export const defaultTurns: TurnPolicy = { requests: 32, turnMs: 10_000, lingerShare: 0.25, leastLingerMs: 50, mostLingerMs: 2_000 };

/** The models that leave; if there are none, the time at which to look again. */
export type Choice = { victims: ModelEntry[] } | { victims: undefined; againMs: number };

/** Time lost when one model leaves for the other and comes back. */
function swapMs(one: ModelEntry, other: ModelEntry): number {
  return one.loadMs + other.loadMs;
}

/**
 * The time from which a loaded model may have to leave for another, if nothing happens before;
 * Infinity: not until some event.
 */
export function leavesAtMs(entry: ModelEntry, candidate: ModelEntry, policy: TurnPolicy): number {
  if (entry.plan.pinned) return Infinity;
  // A load that no request wants any more may be stopped at once.
  if (entry.phase === 'loading') return entry.wanted ? Infinity : 0;
  if (entry.phase !== 'ready') return Infinity;
  const swap = swapMs(entry, candidate);
  const { sinceMs, served } = entry.turn ?? { sinceMs: entry.sinceMs, served: 0 };
  const turnEnds = sinceMs + (served >= policy.requests ? swap : Math.max(policy.turnMs, 2 * swap));
  if (entry.wanted) return turnEnds;
  const linger = Math.min(policy.mostLingerMs, Math.max(policy.leastLingerMs, swap * policy.lingerShare));
  return Math.min(turnEnds, entry.usedMs + linger);
}

/**
 * A model's value: milliseconds to load it again, divided by the seconds that it has been idle. The
 * model with the lowest value leaves first. If it frees only a share of the missing memory, several
 * must leave, so its value is divided by that share.
 */
export function worth(entry: ModelEntry, nowMs: number, share: number): number {
  const idleSeconds = entry.wanted ? 0 : (nowMs - entry.usedMs) / 1000;
  return entry.loadMs / (idleSeconds + 1) / Math.max(share, 0.001);
}

/** Chooses the models that leave so that the need fits: as few and as little worth as possible. */
export function chooseVictims(
  candidate: ModelEntry, need: Bytes, room: Room, loaded: readonly ModelEntry[], policy: TurnPolicy, nowMs: number,
): Choice {
  const may = loaded.filter((entry) => leavesAtMs(entry, candidate, policy) <= nowMs);
  const left = leaveRoom(need, room, may, nowMs);
  if (left) return { victims: left };
  const times = loaded.map((entry) => leavesAtMs(entry, candidate, policy)).filter((time) => time > nowMs);
  return { victims: undefined, againMs: Math.min(Infinity, ...times) };
}

function leaveRoom(need: Bytes, room: Room, may: readonly ModelEntry[], nowMs: number): ModelEntry[] | undefined {
  const ranked = may.map((entry) => ({ entry, worth: worth(entry, nowMs, shareOfLack(need, room, entry.need)) }))
    .sort((a, b) => a.worth - b.worth).map(({ entry }) => entry);
  const chosen: ModelEntry[] = [];
  for (const entry of ranked) {
    if (fits(need, roomAfter(room, chosen))) break;
    chosen.push(entry);
  }
  if (!fits(need, roomAfter(room, chosen))) return undefined;
  // A larger model added later may make earlier ones unnecessary: those stay.
  for (const entry of [...chosen].reverse()) {
    const others = chosen.filter((one) => one !== entry);
    if (fits(need, roomAfter(room, others))) chosen.splice(chosen.indexOf(entry), 1);
  }
  return chosen;
}

function roomAfter(room: Room, leaving: readonly ModelEntry[]): Room {
  return leaving.reduce((sum, entry) => withMore(sum, entry.need), room);
}
