// A pool of several models, each with its own process, loaded on demand and lent to requests.
// engine/leases decides which models are loaded and which requests get them; this file carries out
// its decisions with real processes and timers. Gateway process.
import { RecuaError } from '../../errors.js';
import type { Log } from '../api.js';
import { Leases } from '../leases/leases.js';
import type { LeaseCommand, LeaseEvent } from '../leases/events.js';
import type { ModelEntry } from '../leases/model-entry.js';
import type { Lease, LeaseOptions, ModelPool, ModelState, PoolModel } from '../pool-api.js';
import { SleepCache } from '../sleep/sleep-cache.js';
import { shareOfStash } from '../stash-budget.js';
import type { Catalogue, CatalogueModel, PoolSettings } from './catalogue.js';
import { LentEngine } from './lent-engine.js';
import { freeBytes, memoryForModels, promisedBytes } from './memory-use.js';
import { refusalError } from './refusal-error.js';
import { follow, stateOf, stateWithoutPlan, viewOf, type Followed } from './pool-view.js';
import { ServedModel } from './served-model.js';

export type { PoolSettings };

/** Starts no process until a model is needed. */
export function startPool(catalogue: Catalogue, settings: PoolSettings = {}): ModelPool {
  return new EnginePool(catalogue, settings);
}

const defaultLoadTimeoutMs = 600_000;
const longestTimerMs = 2 ** 31 - 1;

interface Pending {
  served: ServedModel;
  granted(): void;
  refused(error: RecuaError): void;
  onWait: LeaseOptions['onWait'];
}

class EnginePool implements ModelPool {
  readonly #catalogue: Catalogue;
  readonly #settings: PoolSettings;
  readonly #log: Log;
  readonly #leases: Leases;
  readonly #sleep: SleepCache | undefined;
  readonly #memoryBytes: number;
  /** Memory not for models; 0 if the settings limit the models' memory. */
  readonly #reserveBytes: number;
  /** Models that have been requested, by key. */
  readonly #served = new Map<string, ServedModel>();
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(model: PoolModel) => void>();
  #nextRequest = 1;
  #timer: NodeJS.Timeout | undefined;
  #untold: LeaseEvent[] = [];
  #telling = false;
  #closing: Promise<void> | undefined;

  constructor(catalogue: Catalogue, settings: PoolSettings) {
    const { maxMemoryBytes = 0, maxDeviceBytes = {}, maxModels = 0, policy = {}, sleep } = settings;
    this.#catalogue = catalogue;
    this.#settings = settings;
    this.#log = settings.log ?? (() => {});
    if (sleep) this.#sleep = new SleepCache(sleep, this.#log);
    const { bytes, reserveBytes } = maxMemoryBytes > 0 ? { bytes: maxMemoryBytes, reserveBytes: 0 } : memoryForModels();
    this.#memoryBytes = bytes;
    this.#reserveBytes = reserveBytes;
    this.#leases = new Leases({ bytes: { memory: bytes, ...maxDeviceBytes }, maxModels }, policy);
  }

  async list(): Promise<readonly PoolModel[]> {
    const { listed, here, gone } = await this.#look();
    // A loaded model stays, even if its file is gone.
    const loaded = gone.filter(({ engine }) => engine);
    await Promise.all([...here, ...loaded].map((served) => this.#lookAtFile(served)));
    return [...listed, ...loaded.map(({ model }) => model)].map((model) => this.#view(model));
  }

  async find(name: string | undefined): Promise<PoolModel> {
    const model = await this.#find(name);
    await this.#lookAtFile(this.#served.get(model.key));
    return this.#view(model);
  }

  /** The catalogue's models, and what became of those that were requested. */
  async #look(): Promise<{ listed: readonly CatalogueModel[] } & Followed> {
    const listed = await this.#catalogue.list();
    const followed = follow(this.#served.values(), listed);
    for (const { id, key } of followed.replaced) {
      const entry = this.#leases.model(key);
      if (!entry?.present || entry.stopFrom !== undefined) continue;
      this.#log('warn', `${id}: its file is gone, and another model has its name; the loaded one is unloaded`);
      this.#tell({ kind: 'unload', model: key });
    }
    return { listed, ...followed };
  }

  async #lookAtFile(served: ServedModel | undefined): Promise<void> {
    await served?.tryFile(this.#leases.model(served.key)?.failed !== undefined);
    await served?.lookAtFile();
  }

  async lease(name: string | undefined, options: LeaseOptions = {}): Promise<Lease> {
    this.#refuseClosed();
    if (options.signal?.aborted) throw cancelled();
    return this.#ask(await this.#find(name), options, false);
  }

  async load(name: string, options: Pick<LeaseOptions, 'keepAliveMs'> = {}): Promise<PoolModel> {
    this.#refuseClosed();
    const model = await this.#find(name);
    const lease = await this.#ask(model, options, true);
    lease.release();
    return this.#view(model);
  }

  async unload(name: string): Promise<PoolModel> {
    this.#refuseClosed();
    const model = await this.#find(name);
    const served = this.#served.get(model.key);
    if (served && this.#leases.model(served.key)?.present) {
      const unloaded = new Promise<void>((resolve) => served.whenUnloaded.push(resolve));
      this.#tell({ kind: 'unload', model: served.key });
      await unloaded;
    }
    return this.#view(model);
  }

  onChange(listener: (model: PoolModel) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(drainMs = 0, work?: Promise<unknown>): Promise<void> {
    return (this.#closing ??= this.#close(drainMs, work));
  }

  async #close(drainMs: number, work?: Promise<unknown>): Promise<void> {
    const endMs = performance.now() + drainMs;
    // After this await #closing is set: no model is loaded any more.
    await Promise.resolve();
    clearTimeout(this.#timer);
    for (const { refused } of [...this.#pending.values()]) refused(stopping());
    for (const served of this.#served.values()) served.stay();
    await work;
    await Promise.all([...this.#served.values()].map(async (served) => {
      await served.end(Math.max(0, endMs - performance.now()), this.#sleep?.lasts);
      served.tellUnloaded();
    }));
    await this.#sleep?.close();
  }

  #refuseClosed(): void {
    if (this.#closing) throw stopping();
  }

  async #find(name: string | undefined): Promise<CatalogueModel> {
    try {
      const model = await this.#catalogue.find(name);
      // It is new here, or has another name than before.
      if (this.#served.get(model.key)?.id !== model.id) await this.#look();
      return model;
    } catch (thrown) {
      const same = (one: string): boolean => one.toLowerCase() === name?.toLowerCase();
      const loaded = [...this.#served.values()].find(({ engine, model }) => engine && [model.id, ...model.aliases].some(same));
      if (!loaded || RecuaError.from(thrown).code !== 'model_not_found') throw thrown;
      // A model that is still there has only its current names.
      if ((await this.#catalogue.list()).some((one) => one.key === loaded.key)) throw thrown;
      return loaded.model;
    }
  }

  #serve(model: CatalogueModel): ServedModel {
    let served = this.#served.get(model.key);
    if (!served) {
      const { engines, logLevel, loadTimeoutMs = defaultLoadTimeoutMs } = this.#settings;
      served = new ServedModel(model, {
        engines,
        loadTimeoutMs,
        sleep: this.#sleep,
        log: this.#log,
        ...(logLevel ? { logLevel } : {}),
        planNow: (one) => this.#catalogue.plan(one),
        changeOf: (plan) => this.#catalogue.changeOf(plan),
        planAgain: async (one) => await (one.planning ??= this.#plan(one)),
        tell: (event) => this.#tell(event),
        changed: () => this.#tellListeners(),
      });
      this.#served.set(served.key, served);
    }
    served.model = model;
    return served;
  }

  async #ask(model: CatalogueModel, options: LeaseOptions, explicit: boolean): Promise<Lease> {
    const served = this.#serve(model);
    return await this.#granted(served, options, { explicit }, (request) => this.#lease(served, request, options));
  }

  /** Resolves to what `take` makes of the request's id once the request has the model. */
  async #granted<T>(
    served: ServedModel, options: LeaseOptions, kind: { explicit?: boolean; again?: boolean }, take: (request: number) => T,
  ): Promise<T> {
    const { client, priority, keepAliveMs, signal, onWait } = options;
    const { key } = served;
    const entry = this.#leases.model(key);
    // Read the file before each load, not while the model is loaded and takes requests.
    const planned = entry && (takesRequests(entry) || (entry.waiting.length > 0 && !entry.failure));
    if (!planned) await (served.planning ??= this.#plan(served));
    this.#refuseClosed();
    if (signal?.aborted) throw cancelled();
    return await new Promise((resolve, reject) => {
      const request = this.#nextRequest++;
      const settle = (): void => {
        this.#pending.delete(request);
        signal?.removeEventListener('abort', abort);
      };
      const abort = (): void => {
        settle();
        reject(cancelled());
        this.#tell({ kind: 'cancel', model: key, request });
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#pending.set(request, {
        served, onWait,
        granted: () => {
          settle();
          resolve(take(request));
        },
        refused: (error) => {
          settle();
          reject(error);
        },
      });
      this.#tell({ kind: 'request', model: key, request, client, priority, keepAliveMs, ...kind });
      if (this.#pending.has(request)) onWait?.(this.#state(served));
    });
  }

  async #plan(served: ServedModel): Promise<void> {
    try {
      const plan = await this.#catalogue.plan(served.model);
      served.plan = plan;
      served.problem = undefined;
      const { needBytes, deviceBytes, fingerprint, keepAliveMs, pinned, group, options: { parallel, queueSize } } = plan;
      const need = { memory: needBytes, ...deviceBytes };
      this.#tell({ kind: 'planned', model: served.key, plan: { need, fingerprint, keepAliveMs, pinned, group, mostWaiting: parallel + queueSize } });
    } catch (thrown) {
      served.problem = RecuaError.from(thrown).toPlain();
      throw thrown;
    } finally {
      served.planning = undefined;
      this.#tellListeners();
    }
  }

  #lease(served: ServedModel, granted: number, options: LeaseOptions): Lease {
    const { engine, known, id, key } = served;
    const { mayMove = false, onWait: _, ...asker } = options;
    let request: number | undefined = granted;
    const over = new AbortController();
    const give = (): void => {
      served.lent.delete(lent);
      if (request === undefined) return;
      this.#tell({ kind: 'release', model: key, request });
      request = undefined;
      this.#measure(served);
    };
    const lent = new LentEngine(engine!, async () => {
      if (await served.mustEnd()) return served.engine!;
      give();
      const signal = AbortSignal.any([over.signal, ...(asker.signal ? [asker.signal] : [])]);
      return await this.#granted(served, { ...asker, signal }, { again: true }, (next) => {
        request = next;
        served.lent.add(lent);
        return served.engine!;
      });
    });
    if (mayMove) served.lent.add(lent);
    return {
      id, engine: mayMove ? lent : engine!, model: known!,
      release: () => {
        over.abort();
        give();
      },
    };
  }

  #measure(served: ServedModel): void {
    const { key } = served;
    const entry = this.#leases.model(key);
    if (this.#closing || entry?.phase !== 'ready' || entry.leases.size > 0 || !served.isDue()) return;
    void served.lookAtFile();
    const memory = served.measure(entry.plan.need['memory']!);
    if (memory !== undefined) this.#tell({ kind: 'measured', model: key, bytes: { memory } });
  }

  /** Handles one event at a time: carrying out commands may cause further events. */
  #tell(event: LeaseEvent): void {
    if (this.#closing) return;
    this.#untold.push(event);
    if (this.#telling) return;
    this.#telling = true;
    try {
      for (let next = this.#untold.shift(); next; next = this.#untold.shift()) {
        for (const command of this.#leases.handle(next, performance.now(), this.#freeFor(next))) this.#obey(command);
      }
    } finally {
      this.#telling = false;
    }
    // A program stays alive for its own requests, not for models to be unloaded.
    if (this.#pending.size > 0) this.#timer?.ref();
    else this.#timer?.unref();
    this.#tellListeners();
  }

  /**
   * Memory left for models, beyond what those with a process count for. Measured only when a load
   * may depend on it, since other programs come and go.
   */
  #freeFor(event: LeaseEvent): { memory: number } | undefined {
    const asks = event.kind === 'request' && this.#leases.model(event.model)?.phase !== 'ready';
    if (!asks && !this.#leases.waitsForRoom) return undefined;
    const free = (this.#settings.freeBytes ?? freeBytes)();
    if (free === undefined) return undefined;
    const counted = [...this.#served.values()].filter(({ engine }) => engine)
      .map(({ key, engine }) => ({ pid: engine!.pid, needBytes: this.#leases.model(key)?.need['memory'] ?? 0 }));
    return { memory: free - this.#reserveBytes - promisedBytes(counted) };
  }

  #obey(command: LeaseCommand): void {
    if (command.kind === 'wake') {
      clearTimeout(this.#timer);
      const delayMs = Math.min(longestTimerMs, Math.max(0, Math.ceil(command.atMs - performance.now())));
      this.#timer = setTimeout(() => this.#tell({ kind: 'tick' }), delayMs);
      return;
    }
    const served = this.#served.get(command.model)!;
    if (command.kind === 'load') this.#load(served);
    else if (command.kind === 'unload') void this.#unload(served);
    else if (command.kind === 'recall') void served.recall(() => this.#leases.model(served.key)?.draining === true);
    else if (command.kind === 'stay') served.stay();
    else if (command.kind === 'grant') {
      const pending = this.#pending.get(command.request);
      if (pending) pending.granted();
      else this.#tell({ kind: 'release', model: command.model, request: command.request });
    } else this.#pending.get(command.request)?.refused(refusalError(served.id, command.why));
  }

  /** A load that cannot even begin has failed: nothing else would end its waiting. */
  #load(served: ServedModel): void {
    try {
      served.load(this.#stashShare(served));
    } catch (thrown) {
      this.#tell({ kind: 'failed', model: served.key, error: RecuaError.from(thrown).toPlain() });
    }
  }

  #stashShare({ key }: ServedModel): number {
    const taken = [...this.#served.values()].reduce((sum, { stashMib }) => sum + stashMib, 0);
    const part = (this.#leases.model(key)?.need['memory'] ?? 0) / Math.max(1, this.#memoryBytes);
    const { maxModels = 0 } = this.#settings;
    return shareOfStash(maxModels > 0 ? Math.max(part, 1 / maxModels) : part, taken);
  }

  async #unload(served: ServedModel): Promise<void> {
    await served.end(0, true);
    await this.#sleep?.settle(served.key, [...this.#served.keys()]);
    this.#tell({ kind: 'ended', model: served.key });
    served.tellUnloaded();
  }

  #tellListeners(): void {
    if (this.#closing) return;
    for (const served of this.#served.values()) {
      const state = this.#state(served);
      const now = state.state === 'loading' ? `loading ${state.fraction}` : state.state;
      if (now === served.told) continue;
      served.told = now;
      for (const pending of [...this.#pending.values()]) if (pending.served === served) pending.onWait?.(state);
      if (this.#listeners.size === 0) continue;
      const model = this.#view(served.model);
      for (const listener of this.#listeners) listener(model);
    }
  }

  #state(served: ServedModel): ModelState {
    return stateOf(served, this.#closing ? undefined : this.#leases.model(served.key), this.#sleep);
  }

  #view(model: CatalogueModel): PoolModel {
    const { key } = model;
    const served = this.#served.get(key);
    return viewOf(model, served ? this.#state(served) : stateWithoutPlan(model), served, this.#leases.model(key));
  }
}

function takesRequests({ phase, draining, stopFrom }: Readonly<ModelEntry>): boolean {
  return (phase === 'loading' || phase === 'ready') && !draining && stopFrom === undefined;
}

const stopping = (): RecuaError => new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
const cancelled = (): RecuaError => new RecuaError('cancelled', 'The request was cancelled.');
