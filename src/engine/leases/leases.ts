// Which models are loaded, and who works with them: events in, commands out. A model that is lent
// to a request is never unloaded; models that do not fit together take turns; a failed load is
// tried again when something has changed. Pure: times come in as numbers and processes are someone
// else's. Driven by engine/gateway/pool.
import type { PlainError } from '../../errors.js';
import { atMost, atMostRoom, fits, groupPlace, isSound, shareDevice, wholeRoom, without, withMore, type Budget, type Bytes, type Room } from './budget.js';
import type { LeaseCommand, LeaseEvent, Refusal } from './events.js';
import { ModelEntry, type ModelPlan } from './model-entry.js';
import { chooseVictims, defaultTurns, worth, type TurnPolicy } from './turns.js';

export interface LeasePolicy extends TurnPolicy {
  /** Models that are loaded at the same time. */
  mostLoading: number;
  /** Pause after a failed load; doubles with each further one, … */
  retryMs: number;
  /** … up to this. */
  mostRetryMs: number;
  /** A first guess of how fast models are loaded. */
  loadBytesPerMs: number;
}

export const defaultPolicy: LeasePolicy = { ...defaultTurns, mostLoading: 2, retryMs: 2_000, mostRetryMs: 300_000, loadBytesPerMs: 500_000 };

/** What a load takes at least: a process starts. */
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

  /** What is known of a model; undefined before it was planned. Not to be changed. */
  model(id: string): Readonly<ModelEntry> | undefined {
    return this.#models.get(id);
  }

  /** Requests wait for a model that neither is there nor is loaded. */
  get waitsForRoom(): boolean {
    return [...this.#models.values()].some(waitsForRoom);
  }

  /**
   * `free`: what the machine has left now, beyond what the models count for that have a process. A
   * load is bound by it as by the budget. Absent: it was not measured.
   */
  handle(event: LeaseEvent, nowMs: number, free?: Bytes): LeaseCommand[] {
    this.#commands = [];
    this.#free = free;
    // Whoever tells of it has no other.
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

  /** To have a process takes the group's only place. */
  #withGroup(plan: ModelPlan): ModelPlan {
    if (plan.group === undefined) return plan;
    const place = { [groupPlace(plan.group)]: 1 };
    this.#budget = { ...this.#budget, bytes: { ...this.#budget.bytes, ...place } };
    return { ...plan, need: { ...plan.need, ...place } };
  }

  #happened(event: Exclude<LeaseEvent, { kind: 'planned' | 'tick' }>, entry: ModelEntry, nowMs: number): void {
    switch (event.kind) {
      case 'request':
        return this.#requested(entry, event.request, event.keepAliveMs, event.explicit ?? false, nowMs);
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
      case 'died':
        if (entry.phase === 'ready') this.#broken(entry, event.error, nowMs);
        return;
      case 'ended':
        if (entry.phase !== 'unloading') return;
        if (entry.served) this.#unloads++;
        // Its own end frees nothing that its own load did not have.
        if (entry.failure && entry.served) entry.failure.unloads++;
        entry.need = entry.measured ?? entry.plan.need;
        return entry.enter('unloaded', nowMs);
      case 'unload':
        if (entry.phase === 'loading' || entry.phase === 'ready') entry.stopFrom ??= this.#arrivals;
        return;
    }
  }

  #requested(entry: ModelEntry, id: number, keepAliveMs: number | undefined, explicit: boolean, nowMs: number): void {
    const { failure, plan } = entry;
    if (failure && entry.phase !== 'loading') {
      const changed = explicit || failure.fingerprint !== plan.fingerprint || failure.unloads < this.#unloads || nowMs >= failure.retryAtMs;
      // Others who wait for it wait for another try, which serves this one as well.
      if (!changed && entry.waiting.length === 0) return this.#refuse(entry, id, { kind: 'failed', error: failure.error });
    }
    if (entry.waiting.length >= plan.mostWaiting) return this.#refuse(entry, id, { kind: 'queue_full', most: plan.mostWaiting });
    entry.waiting.push({ id, arrival: this.#arrivals++, sinceMs: nowMs, keepAliveMs });
  }

  #released(entry: ModelEntry, id: number, nowMs: number): void {
    if (!entry.leases.has(id)) return;
    entry.keepAliveMs = entry.leases.get(id) ?? entry.plan.keepAliveMs;
    entry.leases.delete(id);
    entry.usedMs = nowMs;
  }

  #loaded(entry: ModelEntry, measured: Bytes | undefined, nowMs: number): void {
    if (entry.phase !== 'loading') return;
    entry.loadMs = Math.max(1, nowMs - entry.sinceMs);
    // What is not touched yet is not measured: less than was foreseen may still become more.
    if (measured) {
      const both = { ...entry.plan.need, ...measured };
      entry.measured = Object.fromEntries(Object.entries(both).map(([place, bytes]) => [place, Math.max(bytes, entry.plan.need[place] ?? 0)]));
      entry.need = entry.measured;
    }
    entry.failure = undefined;
    entry.keepAliveMs = entry.plan.keepAliveMs;
    entry.usedMs = nowMs;
    entry.enter('ready', nowMs);
  }

  /** Who asked hears why; the process goes. */
  #broken(entry: ModelEntry, error: PlainError, nowMs: number): void {
    const times = (entry.failure?.times ?? 0) + 1;
    const pauseMs = Math.min(this.#policy.mostRetryMs, this.#policy.retryMs * 2 ** (times - 1));
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
    } while (this.#grantOne(nowMs));
    for (const entry of this.#models.values()) if (!entry.wanted) wakeMs = Math.min(wakeMs, entry.expiresMs ?? Infinity);
    if (wakeMs !== this.#wakeMs && wakeMs !== Infinity) this.#commands.push({ kind: 'wake', atMs: wakeMs });
    this.#wakeMs = wakeMs;
  }

  /**
   * Unloads what nobody wants any more: its time is over, it was asked for, or it took more than
   * there is room for.
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

  /** What no process takes. */
  #room(): Room {
    let room = wholeRoom(this.#budget);
    for (const entry of this.#models.values()) if (entry.present) room = without(room, entry.need);
    return room;
  }

  /**
   * Starts what fits, and has others leave for what does not, in the order of arrival. Returns when
   * to look again if nothing happens until then.
   */
  #makeRoom(nowMs: number): number {
    const all = [...this.#models.values()];
    for (const entry of all) entry.draining = false;
    const candidates = all.filter(waitsForRoom)
      .sort((a, b) => a.waiting[0]!.arrival - b.waiting[0]!.arrival);
    /**
     * What is free now, and what will be when all have left that leave, less what candidates before
     * have a claim on.
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
        // Else its last process has yet to end, or others load: both come to an end by themselves.
        if (entry.phase === 'unloaded' && this.#mayStart(need)) this.#load(entry, need, nowMs);
        claim(need);
        continue;
      }
      blocked = true;
      if (fits(need, later)) {
        claim(need);
        continue;
      }
      for (const one of all) if (one.phase === 'ready' && !one.plan.pinned) one.turn ??= { sinceMs: nowMs, granted: 0 };
      const choice = chooseVictims(entry, need, later, all.filter((one) => !one.draining), this.#policy, nowMs);
      if (choice.victims) {
        for (const victim of choice.victims) {
          later = withMore(later, victim.need);
          if (victim.leases.size > 0) victim.draining = true;
          else this.#unload(victim, nowMs);
        }
        claim(need);
        continue;
      }
      // Smaller ones may use what is free meanwhile, but not for ever.
      const firstMs = entry.waiting[0]!.sinceMs + this.#policy.turnMs;
      againMs = Math.min(againMs, choice.againMs);
      if (firstMs <= nowMs) break;
      againMs = Math.min(againMs, firstMs);
    }
    if (!blocked) for (const entry of all) entry.turn = undefined;
    return againMs;
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
   * What to count for a model that is to be loaded. One that can never fit is refused: undefined.
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
   * One request gets its model, if one can: whoever waits for room may have a say before the next.
   */
  #grantOne(nowMs: number): boolean {
    for (const entry of this.#models.values()) {
      const next = entry.next;
      if (entry.phase !== 'ready' || entry.draining || !next) continue;
      entry.waiting.shift();
      entry.leases.set(next.id, next.keepAliveMs);
      entry.usedMs = nowMs;
      if (entry.turn) entry.turn.granted++;
      this.#commands.push({ kind: 'grant', model: entry.id, request: next.id });
      return true;
    }
    return false;
  }
}

function waitsForRoom({ phase, waiting }: ModelEntry): boolean {
  return phase !== 'ready' && phase !== 'loading' && waiting.length > 0;
}
