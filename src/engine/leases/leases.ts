// Decides which models are loaded, and which requests get them: events in, commands out. A model
// lent to a request is never unloaded; models that do not fit together take turns; a failed load is
// retried when something has changed. Pure: times come in as numbers, and the driver
// (engine/model-pool/pool) runs the processes.
//
// After each event, `#settle` repeats three steps until no request can be granted: `#retire`
// unloads models that nobody wants, `#makeRoom` starts loads and chooses models to leave for them,
// and `#grantOne` lends a ready model to the first request in its queue.
import type { PlainError } from '../../errors.js';
import { givingWay, rivalsOf } from '../give-way.js';
import { atMost, atMostRoom, fits, groupPlace, isSound, shareDevice, wholeRoom, without, withMore, type Budget, type Bytes, type Room } from './budget.js';
import type { LeaseCommand, LeaseEvent, Refusal } from './events.js';
import { ModelEntry, type ModelPlan, type WaitingRequest } from './model-entry.js';
import { chooseVictims, defaultTurns, worth, type TurnPolicy } from './turns.js';

export interface LeasePolicy extends TurnPolicy {
  /** Most loads at the same time. */
  mostLoading: number;
  /** Pause after a failed load; doubles with each further failure, … */
  retryMs: number;
  /** … up to this. */
  mostRetryMs: number;
  /** Initial estimate of the loading speed. */
  loadBytesPerMs: number;
}

export const defaultPolicy: LeasePolicy = {
  ...defaultTurns,
  mostLoading: 2,
  retryMs: 2_000,
  mostRetryMs: 300_000,
  loadBytesPerMs: 500_000,
};

/** Shortest estimate of a load: a process has to start. */
const leastLoadMs = 200;

export class Leases {
  #budget: Budget;
  readonly #policy: LeasePolicy;
  readonly #models = new Map<string, ModelEntry>();
  #arrivals = 0;
  #unloads = 0;
  #commands: LeaseCommand[] = [];
  #wakeMs = Infinity;
  #free: Bytes | undefined;

  constructor(budget: Budget, policy: Partial<LeasePolicy> = {}) {
    this.#budget = budget;
    this.#policy = { ...defaultPolicy, ...policy };
  }

  /** A model's entry; undefined before it was planned. */
  model(id: string): Readonly<ModelEntry> | undefined {
    return this.#models.get(id);
  }

  /** Requests wait for a model that is neither loaded nor loading. */
  get waitsForRoom(): boolean {
    return [...this.#models.values()].some(waitsForRoom);
  }

  /**
   * `free`: memory that the machine has left now, beyond what models with a process count for. It
   * limits loads like the budget does. Absent: not measured.
   */
  handle(event: LeaseEvent, nowMs: number, free?: Bytes): LeaseCommand[] {
    this.#commands = [];
    this.#free = free;
    // The driver has only one timer, which has fired.
    if (event.kind === 'tick') this.#wakeMs = Infinity;
    if (event.kind === 'planned') this.#planned(event.model, event.plan);
    else if (event.kind !== 'tick') this.#happened(event, this.#entry(event.model), nowMs);
    this.#settle(nowMs);
    return this.#commands;
  }

  #entry(id: string): ModelEntry {
    const entry = this.#models.get(id);
    if (!entry) throw new Error(`no plan for the model ${id}`);
    return entry;
  }

  #planned(id: string, given: ModelPlan): void {
    const plan = this.#withGroup(given);
    const guessMs = leastLoadMs + (plan.need['memory'] ?? 0) / this.#policy.loadBytesPerMs;
    const entry = this.#models.get(id) ?? new ModelEntry(id, plan, guessMs);
    this.#models.set(id, entry);
    if (entry.plan.fingerprint !== plan.fingerprint) {
      entry.measured = undefined;
      entry.loadMs = guessMs;
    }
    entry.plan = plan;
    if (!entry.present) entry.need = entry.measured ?? plan.need;
  }

  /** Adds the group's only place to the need and the budget. */
  #withGroup(plan: ModelPlan): ModelPlan {
    if (plan.group === undefined) return plan;
    const place = { [groupPlace(plan.group)]: 1 };
    this.#budget = { ...this.#budget, bytes: { ...this.#budget.bytes, ...place } };
    return { ...plan, need: { ...plan.need, ...place } };
  }

  #happened(event: Exclude<LeaseEvent, { kind: 'planned' | 'tick' }>, entry: ModelEntry, nowMs: number): void {
    switch (event.kind) {
      case 'request':
        return this.#requested(entry, event, nowMs);
      case 'cancel':
        entry.waiting = entry.waiting.filter(({ id }) => id !== event.request);
        return;
      case 'release':
        return this.#released(entry, event.request, nowMs);
      case 'loaded':
        return this.#loaded(entry, event.measured, nowMs);
      case 'measured':
        if (entry.phase === 'ready') entry.need = entry.measured = { ...entry.need, ...event.bytes };
        return;
      case 'failed':
        if (entry.phase === 'loading') this.#broken(entry, event.error, nowMs);
        return;
      case 'outdated':
        if (entry.phase === 'loading') this.#unload(entry, nowMs);
        return;
      case 'died':
        if (entry.phase === 'ready') this.#broken(entry, event.error, nowMs, event.pauseMs);
        return;
      case 'ended':
        if (entry.phase !== 'unloading') return;
        if (entry.served) this.#unloads++;
        // Unloading this model itself is no reason to retry its load.
        if (entry.failure && entry.served) entry.failure.unloads++;
        entry.need = entry.measured ?? entry.plan.need;
        return entry.enter('unloaded', nowMs);
      case 'unload':
        if (entry.phase === 'loading' || entry.phase === 'ready') entry.stopFrom ??= this.#arrivals;
        return;
    }
  }

  #requested(entry: ModelEntry, { request: id, client = '', priority = 0, keepAliveMs, explicit, again = false }: Extract<LeaseEvent, { kind: 'request' }>, nowMs: number): void {
    const { failure, plan } = entry;
    if (failure && entry.phase !== 'loading') {
      const changed =
        explicit === true || failure.fingerprint !== plan.fingerprint || failure.unloads < this.#unloads || nowMs >= failure.retryAtMs;
      // If others wait for a retry, this request waits with them.
      if (!changed && entry.waiting.length === 0) return this.#refuse(entry, id, { kind: 'failed', error: failure.error });
    }
    const isFull = !again && rivalsOf({ client, priority }, entry.waiting).length >= plan.mostWaiting;
    if (isFull && !this.#shareQueue(entry, { client, priority })) return this.#refuse(entry, id, { kind: 'queue_full', most: plan.mostWaiting });
    if (explicit && keepAliveMs !== undefined) entry.loadKeepAliveMs = keepAliveMs;
    entry.waiting.push({ id, client, priority, again, arrival: this.#arrivals++, sinceMs: nowMs, keepAliveMs });
  }

  /** Makes room in a full queue for a client with fewer requests. False if it stays full. */
  #shareQueue(entry: ModelEntry, asker: Pick<WaitingRequest, 'client' | 'priority'>): boolean {
    const own = givingWay(asker, entry.waiting);
    if (own.length === 0) return false;
    const last = own.findLast(({ again }) => !again);
    // Those that come again were accepted before. If they are still too many then, the engine that
    // gets them chooses.
    if (!last) return rivalsOf(asker, entry.waiting).filter(({ again }) => !again).length < entry.plan.mostWaiting;
    entry.waiting.splice(entry.waiting.indexOf(last), 1);
    this.#refuse(entry, last.id, { kind: 'gave_way' });
    return true;
  }

  #released(entry: ModelEntry, id: number, nowMs: number): void {
    if (!entry.leases.has(id)) return;
    if (entry.turn) entry.turn.served++;
    entry.keepAliveMs = entry.leases.get(id) ?? entry.loadKeepAliveMs ?? entry.plan.keepAliveMs;
    entry.leases.delete(id);
    entry.usedMs = nowMs;
  }

  #loaded(entry: ModelEntry, measured: Bytes | undefined, nowMs: number): void {
    if (entry.phase !== 'loading') return;
    entry.loadMs = Math.max(1, nowMs - entry.sinceMs);
    // Memory not touched yet is not measured, so a value below the expected need does not count.
    if (measured) {
      const both = { ...entry.plan.need, ...measured };
      entry.measured = Object.fromEntries(
        Object.entries(both).map(([place, bytes]) => [place, Math.max(bytes, entry.plan.need[place] ?? 0)]),
      );
      entry.need = entry.measured;
    }
    entry.failure = undefined;
    entry.keepAliveMs = entry.plan.keepAliveMs;
    entry.usedMs = nowMs;
    entry.enter('ready', nowMs);
  }

  /** Notes a failure: refuses the waiting requests and unloads the process. */
  #broken(entry: ModelEntry, error: PlainError, nowMs: number, leastPauseMs = 0): void {
    const times = (entry.failure?.times ?? 0) + 1;
    const pauseMs = Math.max(leastPauseMs, Math.min(this.#policy.mostRetryMs, this.#policy.retryMs * 2 ** (times - 1)));
    entry.failure = { error, fingerprint: entry.plan.fingerprint, times, retryAtMs: nowMs + pauseMs, unloads: this.#unloads };
    entry.leases.clear();
    this.#refuseAll(entry, { kind: 'failed', error });
    this.#unload(entry, nowMs);
  }

  #refuse(entry: ModelEntry, request: number, why: Refusal): void {
    this.#commands.push({ kind: 'refuse', model: entry.id, request, why });
  }

  #refuseAll(entry: ModelEntry, why: Refusal): void {
    for (const { id } of entry.waiting.splice(0)) this.#refuse(entry, id, why);
  }

  #unload(entry: ModelEntry, nowMs: number): void {
    entry.enter('unloading', nowMs);
    this.#commands.push({ kind: 'unload', model: entry.id });
  }

  #settle(nowMs: number): void {
    let wakeMs: number;
    do {
      this.#retire(nowMs);
      wakeMs = this.#makeRoom(nowMs);
      this.#endRecalls();
    } while (this.#grantOne(nowMs));
    for (const entry of this.#models.values()) if (!entry.wanted) wakeMs = Math.min(wakeMs, entry.expiresMs ?? Infinity);
    if (wakeMs !== this.#wakeMs && wakeMs !== Infinity) this.#commands.push({ kind: 'wake', atMs: wakeMs });
    this.#wakeMs = wakeMs;
  }

  /**
   * Unloads models that nobody wants: their keep-alive is over, an unload was requested, or memory
   * is overcommitted.
   */
  #retire(nowMs: number): void {
    for (const entry of this.#models.values()) {
      if (entry.wanted) continue;
      const asked = entry.stopFrom !== undefined && (entry.phase === 'ready' || entry.phase === 'loading');
      if (asked || (entry.expiresMs ?? Infinity) <= nowMs) this.#unload(entry, nowMs);
    }
    for (;;) {
      const present = [...this.#models.values()].filter((entry) => entry.present);
      const later = present.filter((entry) => entry.phase === 'unloading').reduce((room, entry) => withMore(room, entry.need), this.#room());
      const idle = present.filter((entry) => entry.phase === 'ready' && !entry.wanted && !entry.plan.pinned);
      if (isSound(later) || present.length < 2 || idle.length === 0) return;
      this.#unload(idle.reduce((least, entry) => (worth(entry, nowMs, 1) < worth(least, nowMs, 1) ? entry : least)), nowMs);
    }
  }

  /** The budget, less all models with a process. */
  #room(): Room {
    let room = wholeRoom(this.#budget);
    for (const entry of this.#models.values()) if (entry.present) room = without(room, entry.need);
    return room;
  }

  /**
   * Goes through the waiting models in order of arrival: loads those that fit, and makes others
   * leave for those that do not. Returns the time to look again if nothing happens before.
   */
  #makeRoom(nowMs: number): number {
    const all = [...this.#models.values()];
    for (const entry of all) entry.draining = false;
    const candidates = all.filter(waitsForRoom)
      .sort((a, b) => a.waiting[0]!.arrival - b.waiting[0]!.arrival);
    /**
     * Room now, and after all leaving models have left; both without the claims of earlier
     * candidates.
     */
    let now = this.#free ? atMostRoom(this.#room(), this.#free) : this.#room();
    let later = all.filter((entry) => entry.phase === 'unloading').reduce((room, entry) => withMore(room, entry.need), now);
    let againMs = Infinity;
    let blocked = false;
    const claim = (need: Bytes): void => {
      now = without(now, need);
      later = without(later, need);
    };
    for (const entry of candidates) {
      const need = this.#needOf(entry);
      if (need === undefined) continue;
      if (fits(need, now)) {
        // Otherwise its last process still ends, or other loads run: later events come back here.
        if (entry.phase === 'unloaded' && this.#mayStart(need)) this.#load(entry, need, nowMs);
        claim(need);
        continue;
      }
      blocked = true;
      if (fits(need, later)) {
        claim(need);
        continue;
      }
      for (const one of all) if (one.phase === 'ready' && !one.plan.pinned) one.turn ??= { sinceMs: nowMs, served: 0 };
      const choice = chooseVictims(entry, need, later, all.filter((one) => !one.draining), this.#policy, nowMs);
      if (choice.victims) {
        for (const victim of choice.victims) {
          later = withMore(later, victim.need);
          if (victim.leases.size > 0) this.#drain(victim);
          else this.#unload(victim, nowMs);
        }
        claim(need);
        continue;
      }
      // Smaller models may use the free room meanwhile, but not forever.
      const firstMs = entry.waiting[0]!.sinceMs + this.#policy.turnMs;
      againMs = Math.min(againMs, choice.againMs);
      if (firstMs <= nowMs) break;
      againMs = Math.min(againMs, firstMs);
    }
    if (!blocked) for (const entry of all) entry.turn = undefined;
    return againMs;
  }

  #drain(victim: ModelEntry): void {
    victim.draining = true;
    if (victim.recalled) return;
    victim.recalled = true;
    this.#commands.push({ kind: 'recall', model: victim.id });
  }

  /** Models that were recalled, and need not leave after all. */
  #endRecalls(): void {
    for (const entry of this.#models.values()) {
      if (!entry.recalled || entry.draining || entry.phase !== 'ready') continue;
      entry.recalled = false;
      this.#commands.push({ kind: 'stay', model: entry.id });
    }
  }

  #mayStart(need: Bytes): boolean {
    const loading = [...this.#models.values()].filter((entry) => entry.phase === 'loading');
    return loading.length < this.#policy.mostLoading && !loading.some((entry) => shareDevice(entry.need, need));
  }

  #load(entry: ModelEntry, need: Bytes, nowMs: number): void {
    entry.need = need;
    if (this.#free) this.#free = without({ bytes: this.#free, models: 0 }, need).bytes;
    entry.enter('loading', nowMs);
    this.#commands.push({ kind: 'load', model: entry.id });
  }

  /**
   * The memory to count for a model to load. If it can never fit: refuses it, returns undefined.
   */
  #needOf(entry: ModelEntry): Bytes | undefined {
    const present = [...this.#models.values()].filter((one) => one.present);
    const pinned = present.filter((one) => one.plan.pinned && one !== entry);
    const allowed = pinned.reduce((room, one) => without(room, one.need), wholeRoom(this.#budget));
    const left = this.#free && present.filter((one) => !pinned.includes(one))
      .reduce((room, one) => withMore(room, one.need), { bytes: this.#free, models: 0 }).bytes;
    const most = left ? atMostRoom(allowed, left) : allowed;
    if (fits(entry.plan.need, most)) return atMost(entry.measured ?? entry.plan.need, most);
    const places = Object.keys(this.#budget.bytes);
    this.#refuseAll(entry, {
      kind: 'too_large', need: entry.plan.need, budget: this.#budget.bytes, maxModels: this.#budget.maxModels, pinnedModels: pinned.length,
      ...(left && fits(entry.plan.need, allowed) ? { left } : {}),
      pinned: Object.fromEntries(places.map((place) => [place, pinned.reduce((sum, one) => sum + (one.need[place] ?? 0), 0)])),
    });
    return undefined;
  }

  /**
   * Grants one request, if possible. Only one, so that models waiting for room are checked next.
   */
  #grantOne(nowMs: number): boolean {
    for (const entry of this.#models.values()) {
      const next = entry.next;
      if (entry.phase !== 'ready' || entry.draining || !next) continue;
      entry.waiting.shift();
      entry.leases.set(next.id, next.keepAliveMs);
      entry.usedMs = nowMs;
      this.#commands.push({ kind: 'grant', model: entry.id, request: next.id });
      return true;
    }
    return false;
  }
}

function waitsForRoom({ phase, waiting }: ModelEntry): boolean {
  return phase !== 'ready' && phase !== 'loading' && waiting.length > 0;
}
