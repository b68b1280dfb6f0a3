// Tells a stuck engine process from a busy one. Used by engine/gateway/client while a model is
// loaded. It counts looks, not time: a gateway that was suspended or starved itself must not blame
// the engine.
import type { Pulse } from '../protocol.js';

export interface WatchPolicy {
  /** Time between two looks. */
  everyMs: number;
  /** If a part with work gives no sign of life for this long, the process is ended. */
  stuckMs: number;
}

export const defaultWatch: WatchPolicy = { everyMs: 5_000, stuckMs: 60_000 };

/** The parts of an engine process that can get stuck, with texts for the log. */
const parts = {
  compute: 'its computing makes no progress',
  pool: 'its preparation of requests (tokens, templates, grammars) makes no progress',
} as const satisfies Record<keyof Pulse, string>;

export type Part = keyof Pulse | 'process';

export class Watch {
  readonly #everyMs: number;
  readonly #mostLooks: number;
  readonly #look: () => void;
  readonly #stuck: (part: Part, why: string) => void;
  /** Looks without a sign of life, by part. */
  readonly #still = new Map<Part, number>();
  #last: Pulse | undefined;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `look` asks the process for its pulse. `stuck` is called once, and the watch has then ended.
   */
  constructor(policy: WatchPolicy, look: () => void, stuck: (part: Part, why: string) => void) {
    this.#everyMs = policy.everyMs;
    this.#mostLooks = Math.ceil(policy.stuckMs / policy.everyMs);
    this.#look = look;
    this.#stuck = stuck;
  }

  start(): void {
    // The watch must not keep an idle program alive.
    this.#timer = setInterval(() => this.tick(), this.#everyMs).unref();
    this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The process answered a look. */
  heard(pulse: Pulse): void {
    this.#still.delete('process');
    for (const part of Object.keys(parts) as (keyof Pulse)[]) {
      const { busy, done } = pulse[part];
      const before = this.#last?.[part];
      if (before?.busy && busy && done === before.done) this.#count(part, parts[part]);
      else this.#still.delete(part);
    }
    this.#last = pulse;
  }

  /** Time for the next look. While one is unanswered, no other is sent. */
  tick(): void {
    if (this.#still.has('process')) return this.#count('process', 'it does not answer');
    this.#still.set('process', 0);
    this.#look();
  }

  #count(part: Part, why: string): void {
    const count = (this.#still.get(part) ?? 0) + 1;
    this.#still.set(part, count);
    if (count !== this.#mostLooks) return;
    this.stop();
    this.#stuck(part, why);
  }
}
