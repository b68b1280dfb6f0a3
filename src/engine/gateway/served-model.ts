// One model of a pool and its process: starts and ends that, gives up a load that makes no
// progress, and measures what it takes. Whether it is loaded is decided by engine/leases. Used by
// engine/gateway/pool.
import { RecuaError } from '../../errors.js';
import type { Engine, EngineSettings, EngineState, Log } from '../api.js';
import type { LeaseEvent } from '../leases/events.js';
import type { FileChange } from '../pool-api.js';
import type { ModelDescription } from '../protocol.js';
import type { SleepCache } from '../sleep/sleep-cache.js';
import type { CatalogueModel, LoadPlan } from './catalogue.js';
import { startEngine, type ClientSettings } from './client.js';
import { residentBytes } from './memory-use.js';

export interface ServedModelSettings extends Pick<EngineSettings, 'logLevel'> {
  log: Log;
  engines: Pick<ClientSettings, 'entry' | 'keepAlive' | 'restart' | 'watch'> | undefined;
  loadTimeoutMs: number;
  /** Where conversations are kept while the model is not loaded. */
  sleep: SleepCache | undefined;
  tell(event: LeaseEvent): void;
  /** Its state is another, or how far its load is. */
  changed(): void;
}

/** Between two looks at what a process takes. */
const measureEveryMs = 10_000;

export class ServedModel {
  readonly #settings: ServedModelSettings;
  model: CatalogueModel;
  plan: LoadPlan | undefined;
  /** One for all who ask at the same time. */
  planning: Promise<void> | undefined;
  /** What became of the file that is loaded. */
  fileChange: FileChange | undefined;
  /** What listeners were told last. */
  told = 'unloaded';
  readonly whenUnloaded: (() => void)[] = [];
  #engine: Engine | undefined;
  #known: ModelDescription | undefined;
  #fraction = 0;
  /** Of the file that was loaded last. */
  #fingerprint: string | undefined;
  #loadTimer: NodeJS.Timeout | undefined;
  #measuredMs = 0;
  #stashMib = 0;
  #loads = 0;
  /** Of engines that were ended. */
  #crashesBefore = 0;

  constructor(model: CatalogueModel, settings: ServedModelSettings) {
    this.model = model;
    this.#settings = settings;
  }

  get id(): string {
    return this.model.id;
  }

  get engine(): Engine | undefined {
    return this.#engine;
  }

  /** How often it became ready. */
  get loads(): number {
    return this.#loads;
  }

  get crashes(): number {
    return this.#crashesBefore + (this.#engine?.crashes ?? 0);
  }

  /** What it was when it was last loaded. */
  get known(): ModelDescription | undefined {
    return this.#known;
  }

  /** How far its load is, from 0 to 1. */
  get fraction(): number {
    return this.#fraction;
  }

  /** Of the memory for conversations that models share, while it has a process. */
  get stashMib(): number {
    return this.#engine === undefined ? 0 : this.#stashMib;
  }

  /** `stashMib`: its share of the memory for conversations, where its settings do not say. */
  load(stashMib: number): void {
    const { id, plan } = this;
    const { options: { cacheRamMib }, fingerprint } = plan!;
    const isShared = cacheRamMib < 0;
    this.#stashMib = isShared ? stashMib : 0;
    const { log, logLevel, engines, sleep, tell, changed } = this.#settings;
    if (this.#fingerprint !== undefined && this.#fingerprint !== fingerprint) {
      log('warn', `${id}: its file or its settings changed since it was loaded last; what is there now is loaded`);
      sleep?.drop(id);
    }
    const options = { ...plan!.options, cacheRamMib: isShared ? stashMib : cacheRamMib, sleep: sleep?.placeOf(id) };
    this.#fingerprint = fingerprint;
    this.#fraction = 0;
    this.fileChange = undefined;
    const engine = startEngine(options, {
      ...engines,
      log: (level, text) => log(level, `${id}: ${text}`),
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
    engine.ready().then((known) => {
      if (this.#engine !== engine) return;
      clearTimeout(this.#loadTimer);
      this.#known = known;
      const memory = residentBytes(engine.pid);
      tell({ kind: 'loaded', model: id, measured: memory === undefined ? undefined : { memory } });
    }, (thrown: unknown) => {
      if (this.#engine === engine) tell({ kind: 'failed', model: id, error: RecuaError.from(thrown).toPlain() });
    });
  }

  /**
   * Lets running answers end, at most `drainMs`, then ends the process. `sleeps`: its conversations
   * are kept.
   */
  async end(drainMs: number, sleeps = false): Promise<void> {
    clearTimeout(this.#loadTimer);
    const engine = this.#engine;
    await engine?.close(drainMs, sleeps);
    if (this.#engine === engine) this.#crashesBefore += engine?.crashes ?? 0;
    this.#engine = undefined;
  }

  /** To who waits for its end. */
  tellUnloaded(): void {
    for (const unloaded of this.whenUnloaded.splice(0)) unloaded();
  }

  /** Whether it is time to look at its process and its file; once, then not for a while. */
  isDue(): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#measuredMs < measureEveryMs) return false;
    this.#measuredMs = nowMs;
    return true;
  }

  /**
   * What it takes after work, which touches its buffers; undefined where that is not known.
   * `foreseenBytes`: what it was expected to take.
   */
  measure(foreseenBytes: number): number | undefined {
    const memory = residentBytes(this.#engine?.pid);
    // Of mapped weights the system may have dropped pages that come back.
    return memory !== undefined && memory >= foreseenBytes / 2 ? memory : undefined;
  }

  #turned(state: EngineState): void {
    if (state.state === 'loading' || state.state === 'restarting') {
      if (state.fraction > this.#fraction && state.state === 'loading') this.#watchLoading();
      this.#fraction = state.fraction;
    } else if (state.state === 'ready') {
      this.#loads++;
    } else if (state.state === 'failed') {
      // Of one that never was ready, ready() tells.
      this.#settings.tell({ kind: 'died', model: this.id, error: state.error.toPlain() });
    }
  }

  /** Begins anew with each progress. */
  #watchLoading(): void {
    clearTimeout(this.#loadTimer);
    const { id } = this;
    const { loadTimeoutMs, log, tell } = this.#settings;
    this.#loadTimer = setTimeout(() => {
      const text = `${id} made no progress for ${Math.round(loadTimeoutMs / 100) / 10} s while it was loaded (at ${Math.round(this.#fraction * 100)} %), and was given up.`;
      log('error', text);
      tell({ kind: 'failed', model: id, error: new RecuaError('model_unusable', text).toPlain() });
    }, loadTimeoutMs);
    this.#loadTimer.unref();
  }
}
