// A model's current activity, for lists of models, and an engine's generation rate: tokens per
// second over the last seconds, for all requests together, from the token count in each of the
// engine's messages. Used by both kinds of pool, engine/gateway/client and engine/in-process/local.
import type { Engine } from '../api.js';
import type { Activity } from '../pool-api.js';

/** `asked`: requests that wait for the model to be loaded. */
export function activityOf(engine: Engine | undefined, asked = 0): Activity {
  const status = engine?.state.state === 'ready' ? engine.state.status : undefined;
  return {
    running: status?.running ?? 0,
    waiting: (status?.waiting ?? 0) + asked,
    tokensPerSecond: engine?.tokensPerSecond ?? 0,
    kv: status?.kv,
  };
}

/** Length of the window. */
const windowMs = 5_000;
/** Shortest time between two marks, so that few are kept. */
const markEveryMs = 250;
/** Shorter times count as this long: a very short answer says little about the rate. */
const leastMs = 1_000;

export class TokenRate {
  /** Times at which tokens arrived, with the total before them. */
  #marks: { atMs: number; before: number }[] = [];
  #total = 0;

  /** `total`: tokens that the engine has generated since it was loaded. */
  note(total: number, nowMs: number): void {
    // A new engine process starts at 0.
    if (total < this.#total) this.#marks = [];
    else if (total > this.#total && nowMs - (this.#marks.at(-1)?.atMs ?? -Infinity) >= markEveryMs) {
      this.#forget(nowMs);
      this.#marks.push({ atMs: nowMs, before: this.#total });
    }
    this.#total = total;
  }

  perSecond(nowMs: number): number {
    this.#forget(nowMs);
    const [first] = this.#marks;
    return first ? (this.#total - first.before) * 1_000 / Math.max(leastMs, nowMs - first.atMs) : 0;
  }

  #forget(nowMs: number): void {
    const at = this.#marks.findIndex(({ atMs }) => nowMs - atMs <= windowMs);
    this.#marks.splice(0, at < 0 ? this.#marks.length : at);
  }
}
