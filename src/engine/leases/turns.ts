// Who must leave for another model, and when. Several models that do not fit together take turns: a
// model that is loaded serves on while others wait, but not for ever, so that neither swapping nor
// waiting takes over. Pure; used by engine/leases/leases.
import { fits, shareOfLack, withMore, type Bytes, type Room } from './budget.js';
import type { ModelEntry } from './model-entry.js';

export interface TurnPolicy {
  /** A turn ends after so many requests, where it took as long as the swap that follows … */
  requests: number;
  /** … or after so long, or two swaps where these take longer. */
  turnMs: number;
  /** A model that has nothing to do waits for its next request for a share of the swap's time, … */
  lingerShare: number;
  /** … at least and at most so long. */
  leastLingerMs: number;
  mostLingerMs: number;
}

export const defaultTurns: TurnPolicy = { requests: 32, turnMs: 10_000, lingerShare: 0.25, leastLingerMs: 50, mostLingerMs: 2_000 };

/** Victims, or the time at which to look again where time alone can bring some. */
export type Choice = { victims: ModelEntry[] } | { victims: undefined; againMs: number };

/** Time that is lost when one model goes for another and comes back. */
function swapMs(one: ModelEntry, other: ModelEntry): number {
  return one.loadMs + other.loadMs;
}

/**
 * From when on a model that is loaded may be made to leave for another, if nothing comes in
 * between; Infinity: not before something else happens.
 */
export function leavesAtMs(entry: ModelEntry, candidate: ModelEntry, policy: TurnPolicy): number {
  if (entry.plan.pinned) return Infinity;
  // Nobody waits for it any more.
  if (entry.phase === 'loading') return entry.wanted ? Infinity : 0;
  if (entry.phase !== 'ready') return Infinity;
  const swap = swapMs(entry, candidate);
  const { sinceMs, granted } = entry.turn ?? { sinceMs: entry.sinceMs, granted: 0 };
  const turnEnds = sinceMs + (granted >= policy.requests ? swap : Math.max(policy.turnMs, 2 * swap));
  if (entry.wanted) return turnEnds;
  const linger = Math.min(policy.mostLingerMs, Math.max(policy.leastLingerMs, swap * policy.lingerShare));
  return Math.min(turnEnds, entry.usedMs + linger);
}

/**
 * The one figure: milliseconds that it costs to have the model back, for each second that nobody
 * wanted it. The lowest leaves first. Of a model that frees only a part of what is lacking, several
 * must go: it counts for as much more.
 */
export function worth(entry: ModelEntry, nowMs: number, share: number): number {
  const idleSeconds = entry.wanted ? 0 : (nowMs - entry.usedMs) / 1000;
  return entry.loadMs / (idleSeconds + 1) / Math.max(share, 0.001);
}

/**
 * The models that leave, so that a need fits into the room: as few and as little worth as can be.
 */
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
  // What turned out to be needless by a larger one that came later stays.
  for (const entry of [...chosen].reverse()) {
    const others = chosen.filter((one) => one !== entry);
    if (fits(need, roomAfter(room, others))) chosen.splice(chosen.indexOf(entry), 1);
  }
  return chosen;
}

function roomAfter(room: Room, leaving: readonly ModelEntry[]): Room {
  return leaving.reduce((sum, entry) => withMore(sum, entry.need), room);
}
