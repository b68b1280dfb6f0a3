// What is known of one model of a pool. Pure state; changed by engine/leases/leases alone.
import type { PlainError } from '../../errors.js';
import type { Bytes } from './budget.js';

/**
 * `loading`, `ready` and `unloading` have a process. An `unloaded` model that requests wait for
 * waits for room; one with a failure failed when it was loaded last.
 */
export type Phase = 'unloaded' | 'loading' | 'ready' | 'unloading';

/** How a model is loaded, as far as it matters here. */
export interface ModelPlan {
  /** What it is expected to take. */
  need: Bytes;
  /** Another one where the file is another. */
  fingerprint: string;
  keepAliveMs: number;
  pinned: boolean;
  /** Of the models of one group at most one has a process. */
  group?: string | undefined;
  /** Requests that may wait for it. */
  mostWaiting: number;
}

export interface WaitingRequest {
  /** Given by who asks; the lease has the same. */
  readonly id: number;
  /** Requests are numbered as they come, over all models. */
  readonly arrival: number;
  readonly sinceMs: number;
  readonly keepAliveMs: number | undefined;
}

/** The last load failed. */
export interface LoadFailure {
  error: PlainError;
  /** Of the file that did not load. */
  fingerprint: string;
  /** How often in a row. */
  times: number;
  /** From then on it is tried again, even where nothing is known to have changed. */
  retryAtMs: number;
  /** Models that had been unloaded by then. */
  unloads: number;
}

export class ModelEntry {
  phase: Phase = 'unloaded';
  plan: ModelPlan;
  /** What it took the last time, as far as it was measured. */
  measured: Bytes | undefined;
  /** What is counted for it while it has a process, and foreseen while not. */
  need: Bytes;
  /** What a load takes: measured, or guessed from its size. */
  loadMs: number;
  /** In the order of arrival. */
  waiting: WaitingRequest[] = [];
  /** Keep-alive that each asks for, by lease. */
  readonly leases = new Map<number, number | undefined>();
  /** It was ready since its process began. */
  served = false;
  /** When this phase began. */
  sinceMs = 0;
  /** When it was last worked with. */
  usedMs = 0;
  /** Keep-alive that counts now. */
  keepAliveMs: number;
  failure: LoadFailure | undefined;
  /** It was asked to be unloaded: requests from this arrival on wait for the next load. */
  stopFrom: number | undefined;
  /** Others need its room and its turn is over: it takes no new requests. */
  draining = false;
  /**
   * Since when others wait for room while it is loaded, and how many requests it was lent to since.
   */
  turn: { sinceMs: number; granted: number } | undefined;

  constructor(readonly id: string, plan: ModelPlan, loadMs: number) {
    this.plan = plan;
    this.need = plan.need;
    this.keepAliveMs = plan.keepAliveMs;
    this.loadMs = loadMs;
  }

  /** It has a process, whose memory counts. */
  get present(): boolean {
    return this.phase !== 'unloaded';
  }

  /** When it is unloaded if nobody asks for it; undefined: not at all, or it is in use. */
  get expiresMs(): number | undefined {
    if (this.phase !== 'ready' || this.leases.size > 0 || this.plan.pinned || this.keepAliveMs === Infinity) return undefined;
    return this.usedMs + this.keepAliveMs;
  }

  /** The first request that it could be lent to now, if it were ready. */
  get next(): WaitingRequest | undefined {
    const first = this.waiting[0];
    return first && (this.stopFrom === undefined || first.arrival < this.stopFrom) ? first : undefined;
  }

  /** Someone works with it, or would if it were ready. */
  get wanted(): boolean {
    return this.leases.size > 0 || this.next !== undefined;
  }

  enter(phase: Phase, nowMs: number): void {
    this.phase = phase;
    this.sinceMs = nowMs;
    this.turn = undefined;
    this.draining = false;
    if (phase === 'loading') this.served = false;
    if (phase === 'ready') this.served = true;
    if (phase === 'unloaded') this.stopFrom = undefined;
  }
}
