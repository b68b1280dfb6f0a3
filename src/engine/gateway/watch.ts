// Tells a stuck engine process from a busy one. Used by engine/gateway/client while a model is
// loaded. It counts looks, not time: a gateway that was suspended or starved itself must not blame
// the engine.
import type { Pulse } from '../protocol.js';

export interface WatchPolicy {
  /** Time between two looks. */
  everyMs: number;
  /** If a part with work gives no sign of life for this long, the process is ended. */
  stuckMs: number;
  /** A process that has given no sign of life by then has not started: Node lacks threads. */
  startMs: number;
}

export const defaultWatch: WatchPolicy = { everyMs: 5_000, stuckMs: 60_000, startMs: 30_000 };

/** The parts of an engine process that can get stuck, with texts for the log. */
const parts = {
  compute: 'its computing makes no progress',
  pool: 'its preparation of requests (tokens, templates, grammars) makes no progress',
} as const satisfies Record<keyof Pulse, string>;

export type Part = keyof Pulse | 'process' | 'start';

export class Watch {
  readonly #everyMs: number;
  readonly #mostLooks: number;
  /** Undefined once the process has answered. */
  #mostFirstLooks: number | undefined;
  readonly #look: () => void;
  readonly #stuck: (part: Part, why: string) => void;
  /** Looks without a sign of life, by part. */
  readonly #still = new Map<Part, number>();
  #last: Pulse | undefined;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `look` asks the process for its pulse. `stuck` is called once, and the watch has then ended.
   * Without `startMs`, the process has started.
   */
  constructor(policy: Omit<WatchPolicy, 'startMs'> & Partial<WatchPolicy>, look: () => void, stuck: (part: Part, why: string) => void) {
    this.#everyMs = policy.everyMs;
    this.#mostLooks = Math.ceil(policy.stuckMs / policy.everyMs);
    if (policy.startMs !== undefined) this.#mostFirstLooks = Math.ceil(policy.startMs / policy.everyMs);
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
    this.#mostFirstLooks = undefined;
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
    // A machine under load may take longer to start a process than a process to answer.
    if (part === 'process' && this.#mostFirstLooks !== undefined) {
      if (count === this.#mostFirstLooks) this.#end('start', 'it gave no sign of life', count);
    } else if (count === this.#mostLooks) this.#end(part, why, count);
  }

  #end(part: Part, why: string, looks: number): void {
    this.stop();
    this.#stuck(part, `${why} for ${Math.round(looks * this.#everyMs / 1_000)} s`);
  }
}
