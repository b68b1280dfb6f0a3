// One model of a pool and its process: starts and ends the process, fails a load that makes no
// progress, and measures its memory. engine/leases decides whether it is loaded. Used by
// engine/model-pool/pool.
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError, type PlainError } from '../../errors.js';
import type { EngineSettings, EngineState, Log } from '../api.js';
import type { LeaseEvent } from '../leases/events.js';
import type { FileChange } from '../pool-api.js';
import type { EngineOptions, ModelDescription } from '../protocol.js';
import type { SleepCache } from '../sleep/sleep-cache.js';
import type { CatalogueModel, LoadPlan } from './catalogue.js';
import { startEngine, type ClientSettings } from '../gateway/client.js';
import { CrashRecord } from '../gateway/crash-record.js';
import type { LentEngine } from './lent-engine.js';
import { residentBytes } from './memory-use.js';
import type { EngineRequests } from '../gateway/requests.js';

export interface ServedModelSettings extends Pick<EngineSettings, 'logLevel'> {
  log: Log;
  engines: Pick<ClientSettings, 'entry' | 'keepAlive' | 'restart' | 'watch'> | undefined;
  loadTimeoutMs: number;
  /** Keeps conversations while the model is not loaded. */
  sleep: SleepCache | undefined;
  /** For a load after a crash: the model may have been pulled again, to another path. */
  planNow(model: CatalogueModel): Promise<LoadPlan>;
  changeOf(plan: LoadPlan): Promise<FileChange | undefined>;
  /** Reads its file anew, for the next load. */
  planAgain(served: ServedModel): Promise<void>;
  tell(event: LeaseEvent): void;
  /** Its state or its loading progress changed. */
  changed(): void;
}

/** Shortest time between two measurements. */
const measureEveryMs = 10_000;
/** Shortest time between two looks at a file that cannot be used. */
const tryEveryMs = 500;
/** Whoever lists the models waits this long for such a look. */
const longestTryMs = 200;
/** Loads in a row whose file changed meanwhile. */
const mostOutdated = 3;

export class ServedModel {
  readonly #settings: ServedModelSettings;
  /** Its names may change while it is loaded. */
  model: CatalogueModel;
  readonly key: string;
  /** For its next load. */
  plan: LoadPlan | undefined;
  /** Of its last load; undefined if its process loaded another file. */
  loadedPlan: LoadPlan | undefined;
  /** Why it could not be planned, if so: its file cannot be used. */
  problem: PlainError | undefined;
  #triedMs = 0;
  /** Shared by all requests that arrive at the same time. */
  planning: Promise<void> | undefined;
  /** How the loaded file has changed. */
  fileChange: FileChange | undefined;
  /** The state that listeners were told last. */
  told = 'unloaded';
  readonly whenUnloaded: (() => void)[] = [];
  #engine: EngineRequests | undefined;
  /** As requests have it that may be moved to its next engine. */
  readonly lent = new Set<LentEngine>();
  #known: ModelDescription | undefined;
  /** When the file of the last load was made. */
  #loadedSeconds = 0;
  #fraction = 0;
  /** The plan's fingerprint at the last load. */
  #fingerprint: string | undefined;
  /** The fingerprint of the file that its engine loaded first. */
  #loadedFile: string | undefined;
  #loadTimer: NodeJS.Timeout | undefined;
  #measuredMs = 0;
  #stashMib = 0;
  #loads = 0;
  #outdated = 0;
  /** Crashes of previous engines. */
  #crashesBefore = 0;
  /** Of this file with these settings. */
  #record = new CrashRecord();

  constructor(model: CatalogueModel, settings: ServedModelSettings) {
    this.model = model;
    this.key = model.key;
    this.#settings = settings;
  }

  get id(): string {
    return this.model.id;
  }

  get engine(): EngineRequests | undefined {
    return this.#engine;
  }

  /** How often it became ready. */
  get loads(): number {
    return this.#loads;
  }

  get crashes(): number {
    return this.#crashesBefore + (this.#engine?.crashes ?? 0);
  }

  /** Its description from the last load. */
  get known(): ModelDescription | undefined {
    return this.#known;
  }

  /** The same, unless it is not loaded and another file has its name now. */
  knownOf({ createdSeconds }: CatalogueModel): ModelDescription | undefined {
    return this.#engine || createdSeconds === this.#loadedSeconds ? this.#known : undefined;
  }

  /** Loading progress, from 0 to 1. */
  get fraction(): number {
    return this.#fraction;
  }

  /** Its share of the models' common stash budget, while it has a process. */
  get stashMib(): number {
    return this.#engine === undefined ? 0 : this.#stashMib;
  }

  /** `stashMib`: its share of the common stash budget, unless its settings have a value. */
  load(stashMib: number): void {
    const { id, key } = this;
    const plan = this.plan!;
    const { fingerprint } = plan;
    this.#stashMib = plan.options.cacheRamMib < 0 ? stashMib : 0;
    const { log, logLevel, engines, sleep, planNow, tell, changed } = this.#settings;
    const optionsOf = ({ options }: LoadPlan): EngineOptions => (
      { ...options, cacheRamMib: options.cacheRamMib < 0 ? stashMib : options.cacheRamMib, sleep: sleep?.placeOf(key, id) }
    );
    if (this.#fingerprint !== undefined && this.#fingerprint !== fingerprint) {
      log('warn', `${id}: its file or its settings changed since it was loaded last; loading the current ones`);
      sleep?.drop(key);
      this.#known = undefined;
      this.#record = new CrashRecord();
    }
    this.#fingerprint = fingerprint;
    this.#loadedSeconds = this.model.createdSeconds;
    this.loadedPlan = plan;
    this.#loadedFile = undefined;
    this.#fraction = 0;
    this.fileChange = undefined;
    const engine = startEngine(optionsOf(plan), {
      ...engines,
      record: this.#record,
      optionsNow: async () => optionsOf(await planNow(this.model).catch(() => plan)),
      log: (level, text) => log(level, `${this.id}: ${text}`),
      ...(logLevel ? { logLevel } : {}),
      onState: (state) => {
        if (this.#engine !== engine) return;
        this.#turned(state);
        changed();
      },
    });
    this.#crashesBefore = this.crashes;
    this.#engine = engine;
    this.#watchLoading();
    engine.ready().then(() => {
      if (this.#engine !== engine) return;
      clearTimeout(this.#loadTimer);
      const memory = residentBytes(engine.pid);
      tell({ kind: 'loaded', model: key, measured: memory === undefined ? undefined : { memory } });
    }, (thrown: unknown) => void this.#notLoaded(engine, plan, thrown));
  }

  /**
   * If another file took the place of its file meanwhile, that one is loaded. The engine's sandbox
   * may open only the one that was there when it started.
   */
  async #notLoaded(engine: EngineRequests, plan: LoadPlan, thrown: unknown): Promise<void> {
    const { changeOf, planAgain, tell, log } = this.#settings;
    const { id, key } = this;
    let error = thrown;
    if (this.#engine === engine && this.#outdated < mostOutdated && await changeOf(plan).catch(() => undefined) === 'changed') {
      this.#outdated++;
      log('warn', `${id}: its file changed while it was loaded; loading the one that is there now`);
      try {
        await planAgain(this);
        if (this.#engine === engine) return tell({ kind: 'outdated', model: key });
      } catch (unplanned) {
        error = unplanned;
      }
    }
    if (this.#engine !== engine) return;
    this.#outdated = 0;
    tell({ kind: 'failed', model: key, error: RecuaError.from(error).toPlain() });
  }

  /**
   * Lets running answers end, at most `drainMs`, then ends the process. `sleeps`: keeps its
   * conversations.
   */
  async end(drainMs: number, sleeps = false): Promise<void> {
    clearTimeout(this.#loadTimer);
    const engine = this.#engine;
    await engine?.close(drainMs, sleeps);
    if (this.#engine === engine) this.#crashesBefore += engine?.crashes ?? 0;
    this.#engine = undefined;
  }

  /** Notices a changed or missing file. The loaded model keeps serving. */
  async lookAtFile(): Promise<void> {
    const { id, loadedPlan } = this;
    const engine = this.#engine;
    if (!engine || !loadedPlan) return;
    const change = await this.#settings.changeOf(loadedPlan);
    if (this.#engine !== engine || this.fileChange === change) return;
    this.fileChange = change;
    if (change) this.#settings.log('warn', `${id}: its file ${change === 'gone' ? 'is gone' : 'has changed'}; the loaded model keeps serving, and the next load reads the file that exists then`);
  }

  /**
   * What it has not begun asks again, unless its file may not load again. `isRecalled`: whether it
   * still has to leave, once its file was looked at.
   */
  async recall(isRecalled: () => boolean): Promise<void> {
    const engine = this.#engine;
    await this.lookAtFile();
    if (this.#engine === engine && !this.fileChange && isRecalled()) engine?.recall(this.lent);
  }

  /** It need not leave after all. */
  stay(): void {
    this.#engine?.endRecall();
    for (const lent of this.lent) lent.stay();
  }

  /** Whether its engine has to end what it has: its file may not load again. */
  async mustEnd(): Promise<boolean> {
    await this.lookAtFile();
    if (!this.fileChange) return false;
    this.#engine?.endRecall();
    return this.#engine !== undefined;
  }

  /** Calls the listeners that wait for its end. */
  tellUnloaded(): void {
    for (const unloaded of this.whenUnloaded.splice(0)) unloaded();
  }

  /**
   * Reads its file again if that could not be used, now and then. `hasFailed`: it did not load.
   */
  async tryFile(hasFailed: boolean): Promise<void> {
    const nowMs = performance.now();
    if (!(this.problem || hasFailed) || this.#engine || nowMs - this.#triedMs < tryEveryMs) return;
    this.#triedMs = nowMs;
    // The disk may hang.
    await Promise.race([this.#settings.planAgain(this).catch(() => undefined), wait(longestTryMs, undefined, { ref: false })]);
  }

  /** Whether it is time to check its process and file; true at most every `measureEveryMs`. */
  isDue(): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#measuredMs < measureEveryMs) return false;
    this.#measuredMs = nowMs;
    return true;
  }

  /**
   * Its memory after work, which touches its buffers; undefined if unknown. `foreseenBytes`: the
   * expected memory.
   */
  measure(foreseenBytes: number): number | undefined {
    const memory = residentBytes(this.#engine?.pid);
    // A low value shows that the system dropped pages of mapped weights, which will come back.
    return memory !== undefined && memory >= foreseenBytes / 2 ? memory : undefined;
  }

  #turned(state: EngineState): void {
    if (state.state === 'loading' || state.state === 'restarting') {
      if (state.fraction > this.#fraction && state.state === 'loading') this.#watchLoading();
      this.#fraction = state.fraction;
    } else if (state.state === 'ready') {
      this.#loads++;
      this.#outdated = 0;
      this.#known = state.model;
      this.problem = undefined;
      // After a crash, it may be another file that was loaded, which no plan describes.
      const { fingerprint } = state.model;
      if (fingerprint !== (this.#loadedFile ??= fingerprint)) this.loadedPlan = this.fileChange = this.#fingerprint = undefined;
    } else if (state.state === 'failed') {
      // If it was never ready, the rejection of ready() reports the failure, and this is ignored.
      this.#settings.tell({ kind: 'died', model: this.key, error: state.error.toPlain(), pauseMs: (state.retryAtMs ?? 0) - Date.now() });
    }
  }

  /** Restarts the load timeout, with each progress. */
  #watchLoading(): void {
    clearTimeout(this.#loadTimer);
    const { id, key } = this;
    const { loadTimeoutMs, log, tell } = this.#settings;
    this.#loadTimer = setTimeout(() => {
      const text = `${id} made no progress for ${Math.round(loadTimeoutMs / 100) / 10} s while it was loaded (at ${Math.round(this.#fraction * 100)} %); the load was stopped.`;
      log('error', text);
      tell({ kind: 'failed', model: key, error: new RecuaError('model_unusable', text).toPlain() });
    }, loadTimeoutMs);
    this.#loadTimer.unref();
  }
}
