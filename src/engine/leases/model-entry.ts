// The state of one model of a pool. Only engine/leases/leases changes it.
import type { PlainError } from '../../errors.js';
import type { Bytes } from './budget.js';

/**
 * `loading`, `ready` and `unloading` models have a process. An `unloaded` model with waiting
 * requests waits for room; `failure` is set if its last load failed.
 */
export type Phase = 'unloaded' | 'loading' | 'ready' | 'unloading';

/** The part of a load plan that matters here. */
export interface ModelPlan {
  /** Expected memory. */
  need: Bytes;
  /** Changes with the file. */
  fingerprint: string;
  keepAliveMs: number;
  pinned: boolean;
  /** At most one model of a group has a process. */
  group?: string | undefined;
  /** Most requests that may wait for it. */
  mostWaiting: number;
}

export interface WaitingRequest {
  /** Chosen by the driver; the lease has the same id. */
  readonly id: number;
  readonly client: string;
  /** Below 0, it takes no place from others. */
  readonly priority: number;
  /** It had the model, which was recalled. */
  readonly again: boolean;
  /** Sequential number over all models, in order of arrival. */
  readonly arrival: number;
  readonly sinceMs: number;
  readonly keepAliveMs: number | undefined;
}

/** The last load failed. */
export interface LoadFailure {
  error: PlainError;
  /** Fingerprint of the file that failed to load. */
  fingerprint: string;
  /** Failures in a row. */
  times: number;
  /** From then on the load is retried, even if nothing is known to have changed. */
  retryAtMs: number;
  /** The pool's count of unloads at that time. */
  unloads: number;
}

export class ModelEntry {
  /** Why it is not loaded, as far as known: another file has not been tried. */
  get failed(): LoadFailure | undefined {
    return this.failure?.fingerprint === this.plan.fingerprint ? this.failure : undefined;
  }

  phase: Phase = 'unloaded';
  plan: ModelPlan;
  /** Its memory at the last measurement. */
  measured: Bytes | undefined;
  /** Memory counted for it while it has a process; otherwise the expected memory. */
  need: Bytes;
  /** Duration of a load: measured, or estimated from its size. */
  loadMs: number;
  /** In order of arrival. */
  waiting: WaitingRequest[] = [];
  /** The keep-alive that each lease asks for, by lease id. */
  readonly leases = new Map<number, number | undefined>();
  /** The current process has become ready. */
  served = false;
  /** When this phase began. */
  sinceMs = 0;
  /** When it was last used. */
  usedMs = 0;
  /** Current keep-alive. */
  keepAliveMs: number;
  /** What an explicit load asked for: for requests that ask for none, until it is unloaded. */
  loadKeepAliveMs: number | undefined;
  failure: LoadFailure | undefined;
  /** An unload was requested: requests from this arrival on wait for the next load. */
  stopFrom: number | undefined;
  /** Other models need its room and its turn is over: it takes no new requests. */
  draining = false;
  /** It drains, and its requests were told so. */
  recalled = false;
  /** Since when others wait for room while it is loaded, and the requests served since then. */
  turn: { sinceMs: number; served: number } | undefined;

  constructor(readonly id: string, plan: ModelPlan, loadMs: number) {
    this.plan = plan;
    this.need = plan.need;
    this.keepAliveMs = plan.keepAliveMs;
    this.loadMs = loadMs;
  }

  /** Whether it has a process, whose memory counts. */
  get present(): boolean {
    return this.phase !== 'unloaded';
  }

  /** When it is unloaded without further requests; undefined: never, or it is in use. */
  get expiresMs(): number | undefined {
    if (this.phase !== 'ready' || this.leases.size > 0 || this.plan.pinned || this.keepAliveMs === Infinity) return undefined;
    return this.usedMs + this.keepAliveMs;
  }

  /** The first waiting request that may still get it, once it is ready. */
  get next(): WaitingRequest | undefined {
    const first = this.waiting[0];
    return first && (this.stopFrom === undefined || first.arrival < this.stopFrom) ? first : undefined;
  }

  /** Whether a request has it, or waits for it and may still get it. */
  get wanted(): boolean {
    return this.leases.size > 0 || this.next !== undefined;
  }

  enter(phase: Phase, nowMs: number): void {
    this.phase = phase;
    this.sinceMs = nowMs;
    this.turn = undefined;
    this.draining = this.recalled = false;
    if (phase === 'loading') this.served = false;
    if (phase === 'ready') this.served = true;
    if (phase === 'unloaded') this.stopFrom = this.loadKeepAliveMs = undefined;
  }
}
