// A machine of simulated processes: it does what the leases of a pool command, in simulated time,
// and records each breach of their promises. Used by the tests of engine/leases.
import { Leases, type LeasePolicy } from '#recua/engine/leases/leases.js';
import { groupPlace, type Budget } from '#recua/engine/leases/budget.js';
import type { LeaseCommand, LeaseEvent, Refusal } from '#recua/engine/leases/events.js';
import type { ModelPlan } from '#recua/engine/leases/model-entry.js';

export interface SimulatedModel extends ModelPlan {
  id: string;
  /** The real need of its process; absent: that of the plan. */
  takes?: number;
  /** The outcome of the next load. */
  load(): { ms: number; fails?: boolean };
  unloadMs(): number;
}

interface Process {
  state: 'loading' | 'ready' | 'ending';
  /** The memory that is counted for it. */
  bytes: number;
  /** It died or did not load; its requests fail. */
  broken: boolean;
  life: number;
}

export interface Asked {
  id: number;
  model: string;
  atMs: number;
  runMs: number;
  grantedMs?: number;
  refused?: Refusal;
  cancelled?: boolean;
  /** Later requests for other models that were granted before. */
  overtaken: number;
}

export const failed = { code: 'model_unusable' as const, message: 'It does not load.' };

export class SimulatedMachine {
  readonly leases: Leases;
  readonly breaches: string[] = [];
  readonly asked = new Map<number, Asked>();
  readonly processes = new Map<string, Process>();
  readonly counts = { load: 0, unload: 0, grant: 0, recall: 0, stay: 0, refuse: 0, wake: 0, died: 0 };
  readonly log: string[] = [];
  nowMs = 0;
  /** Memory used by other programs; undefined: the machine does not report it. */
  foreign: number | undefined;
  #lives = 0;
  readonly #recalled = new Set<string>();
  #requests = 0;
  #agenda: { atMs: number; order: number; what: () => void }[] = [];
  #order = 0;
  #wakeMs = Infinity;

  constructor(readonly budget: Budget, readonly models: readonly SimulatedModel[], policy: Partial<LeasePolicy> = {}) {
    this.leases = new Leases(budget, policy);
  }

  at(atMs: number, what: () => void): void {
    this.#agenda.push({ atMs, order: this.#order++, what });
  }

  /** Runs until nothing is left to happen, or until a time. */
  run(untilMs = Infinity): void {
    for (;;) {
      const next = this.#agenda.reduce((a, b) => (b.atMs < a.atMs || (b.atMs === a.atMs && b.order < a.order) ? b : a), {
        atMs: Infinity,
        order: 0,
        what: () => {},
      });
      const atMs = Math.min(next.atMs, this.#wakeMs);
      if (atMs === Infinity || atMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, atMs);
      if (this.#wakeMs < next.atMs) {
        this.#wakeMs = Infinity;
        this.tell({ kind: 'tick' });
      } else {
        this.#agenda.splice(this.#agenda.indexOf(next), 1);
        next.what();
      }
    }
  }

  /** Like a driver: plans an unloaded model before it asks. */
  ask(model: SimulatedModel, runMs: number, { explicit = false, keepAliveMs }: { explicit?: boolean; keepAliveMs?: number } = {}): Asked {
    const one: Asked = { id: this.#requests++, model: model.id, atMs: this.nowMs, runMs, overtaken: 0 };
    this.asked.set(one.id, one);
    if (!this.processes.has(model.id)) this.tell({ kind: 'planned', model: model.id, plan: { ...model } });
    this.tell({ kind: 'request', model: model.id, request: one.id, explicit, keepAliveMs });
    return one;
  }

  cancel(one: Asked): void {
    if (!this.waits(one)) return;
    one.cancelled = true;
    this.tell({ kind: 'cancel', model: one.model, request: one.id });
  }

  crash(model: SimulatedModel): void {
    const process = this.processes.get(model.id);
    if (process?.state !== 'ready') return;
    process.broken = true;
    this.counts.died++;
    this.tell({ kind: 'died', model: model.id, error: { code: 'model_crashed', message: 'It died.' } });
  }

  waits(one: Asked): boolean {
    return one.grantedMs === undefined && one.refused === undefined && !one.cancelled;
  }

  get waiting(): Asked[] {
    return [...this.asked.values()].filter((one) => this.waits(one));
  }

  tell(event: LeaseEvent): void {
    this.log.push(`${Math.round(this.nowMs)} ${JSON.stringify(event)}`);
    for (const command of this.leases.handle(event, this.nowMs, this.#free())) {
      this.log.push(`    ${JSON.stringify(command)}`);
      this.counts[command.kind]++;
      this.#obey(command);
    }
  }

  #free(): { memory: number } | undefined {
    if (this.foreign === undefined) return undefined;
    const counted = [...this.processes].map(([id, { bytes }]) => Math.max(bytes, this.leases.model(id)!.need['memory']!));
    return { memory: this.budget.bytes['memory']! - this.foreign - counted.reduce((sum, bytes) => sum + bytes, 0) };
  }

  #breach(text: string): void {
    this.breaches.push(`${Math.round(this.nowMs)}: ${text}`);
  }

  #obey(command: LeaseCommand): void {
    if (command.kind === 'wake') {
      if (!(command.atMs > this.nowMs)) this.#breach('a time to wake that is over');
      this.#wakeMs = command.atMs;
    } else if (command.kind === 'load') this.#load(command.model);
    else if (command.kind === 'unload') this.#unload(command.model);
    // Here every request begins when it is granted.
    else if (command.kind === 'recall' || command.kind === 'stay') this.#recall(command);
    else this.#answer(command);
  }

  #recall({ model, kind }: { model: string; kind: 'recall' | 'stay' }): void {
    if (this.#recalled.has(model) === (kind === 'recall')) this.#breach(`${kind} of ${model} again`);
    if (kind === 'recall') this.#recalled.add(model);
    else this.#recalled.delete(model);
  }

  #load(id: string): void {
    const model = this.models.find((one) => one.id === id)!;
    if (this.processes.has(id)) return this.#breach(`${id} is loaded twice`);
    const process: Process = { state: 'loading', bytes: model.need['memory']!, broken: false, life: this.#lives++ };
    this.processes.set(id, process);
    const all = [...this.processes.values()];
    const taken = all.reduce((sum, one) => sum + one.bytes, 0);
    // Nobody knew before that a model takes more than planned.
    if (taken + (this.foreign ?? 0) > this.budget.bytes['memory']!) this.#breach(`${id} makes ${taken} bytes beside ${this.foreign ?? 0}`);
    const others = this.models.filter(
      (one) => one.id !== id && one.group !== undefined && one.group === model.group && this.processes.has(one.id),
    );
    if (others.length > 0) this.#breach(`${id} is loaded beside ${others.map((one) => one.id).join()} in the ${groupPlace(model.group!)}`);
    if (this.budget.maxModels > 0 && all.length > this.budget.maxModels) this.#breach(`${id} makes ${all.length} models`);
    if (all.filter(({ state }) => state === 'loading').length > 2) this.#breach(`${id} is the third to load`);
    const { ms, fails } = model.load();
    this.at(this.nowMs + ms, () => {
      // It may have been ended meanwhile.
      if (this.processes.get(id)?.life !== process.life || process.state !== 'loading') return;
      if (fails) {
        process.broken = true;
        return this.tell({ kind: 'failed', model: id, error: failed });
      }
      process.state = 'ready';
      process.bytes = Math.max(process.bytes, model.takes ?? 0);
      this.tell({ kind: 'loaded', model: id, ...(model.takes === undefined ? {} : { measured: { memory: model.takes } }) });
    });
  }

  #unload(id: string): void {
    this.#recalled.delete(id);
    const process = this.processes.get(id);
    if (!process || process.state === 'ending') return this.#breach(`${id} is unloaded and has no process`);
    if (!process.broken && this.#lent(id) > 0) this.#breach(`${id} is unloaded while it is in use`);
    process.state = 'ending';
    this.at(this.nowMs + this.models.find((one) => one.id === id)!.unloadMs(), () => {
      this.processes.delete(id);
      this.tell({ kind: 'ended', model: id });
    });
  }

  readonly #holders = new Map<string, Set<number>>();

  #lent(id: string): number {
    return this.#holders.get(id)?.size ?? 0;
  }

  #answer(command: Extract<LeaseCommand, { kind: 'grant' | 'refuse' }>): void {
    const one = this.asked.get(command.request);
    if (!one || !this.waits(one)) return this.#breach(`request ${command.request} is answered and waits for nothing`);
    if (one.model !== command.model) return this.#breach(`request ${one.id} gets another model`);
    if (command.kind === 'refuse') {
      one.refused = command.why;
      return;
    }
    const process = this.processes.get(one.model);
    if (process?.state !== 'ready' || process.broken) this.#breach(`request ${one.id} gets ${one.model}, which is ${process?.state}`);
    one.grantedMs = this.nowMs;
    for (const other of this.asked.values()) if (other.id < one.id && other.model !== one.model && this.waits(other)) other.overtaken++;
    const holders = this.#holders.get(one.model) ?? new Set();
    this.#holders.set(one.model, holders);
    holders.add(one.id);
    this.at(this.nowMs + one.runMs, () => {
      holders.delete(one.id);
      this.tell({ kind: 'release', model: one.model, request: one.id });
    });
  }
}
