// A pool of one model, over an engine that its caller starts and ends: `recua api model.gguf`, and
// servers that a program creates for a model it loaded. Leases cost nothing, and the model is never
// unloaded. Gateway process.
import { RecuaError } from '../../errors.js';
import type { Engine } from '../api.js';
import type { Lease, LeaseOptions, ModelPool, ModelState, PoolModel } from '../pool-api.js';
import type { ModelDescription } from '../protocol.js';
import { activityOf } from '../gateway/activity.js';
import { residentBytes } from './memory-use.js';

/** The model's names. */
export interface SingleName {
  id: string;
  aliases: readonly string[];
  /** Names that requests may use but answers never show. */
  unlisted?: readonly string[];
  /** When its file was made, in seconds since 1970. */
  createdSeconds: number;
  /** Size of its files; absent if unknown. */
  fileBytes?: number;
}

export interface SingleModelPool extends ModelPool {
  readonly sole: Engine;
  /** Call this with each new state of the engine (`onState` of its settings); tells listeners. */
  stateChanged(): void;
}

/** `close()` refuses new leases, and does not close the engine, which belongs to the caller. */
export function singleModel(engine: Engine, name: SingleName): SingleModelPool {
  return new SingleModel(engine, name);
}

class SingleModel implements SingleModelPool {
  readonly sole: Engine;
  readonly #name: SingleName;
  readonly #listeners = new Set<(model: PoolModel) => void>();
  #leases = 0;
  #closed = false;
  #loads = 0;
  #wasReady = false;
  /** As it was loaded last. */
  #known: ModelDescription | undefined;

  constructor(engine: Engine, name: SingleName) {
    this.sole = engine;
    this.#name = name;
    if (engine.state.state === 'ready') this.#known = engine.state.model;
  }

  async list(): Promise<readonly PoolModel[]> {
    return [this.#model()];
  }

  async find(name: string | undefined): Promise<PoolModel> {
    this.#check(name);
    return this.#model();
  }

  async lease(name: string | undefined, { signal, hasReplicas = false }: LeaseOptions = {}): Promise<Lease> {
    this.#check(name);
    if (signal?.aborted) throw new RecuaError('cancelled', 'The request was cancelled.');
    if (this.#closed) throw stopping();
    const model = this.#ready(hasReplicas);
    this.#leases++;
    let released = false;
    return {
      id: this.#name.id, engine: this.sole, model,
      release: () => {
        if (released) return;
        released = true;
        this.#leases--;
      },
    };
  }

  async load(name: string): Promise<PoolModel> {
    this.#check(name);
    await this.sole.ready();
    return this.#model();
  }

  async unload(name: string): Promise<PoolModel> {
    this.#check(name);
    throw new RecuaError('model_fixed', 'This server was started with one model, which is loaded as long as it runs. To load and unload models, start it in one of these ways: with several models, without naming any, with --models FILE, or with a --keep-alive other than 600.');
  }

  onChange(listener: (model: PoolModel) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stateChanged(): void {
    this.#count();
    const model = this.#model();
    for (const listener of this.#listeners) listener(model);
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  /**
   * The model, also while the engine starts its process again: requests wait for that, unless a
   * load balancer can send them elsewhere. Throws the coded error that says why there is none.
   */
  #ready(hasReplicas: boolean): ModelDescription {
    const { state } = this.sole;
    if (state.state === 'failed') throw state.error;
    if (state.state === 'closed') throw stopping();
    if (state.state === 'ready') return (this.#known = state.model);
    if (state.state === 'restarting' && this.#known && !hasReplicas) return this.#known;
    throw new RecuaError('model_loading', `The model is loading (${Math.round(state.fraction * 100)} %); try again in a moment.`);
  }

  /** Refuses other names. Ignores case, as on the command line: Q4_K_M and q4_k_m are the same. */
  #check(name: string | undefined): void {
    const { id, aliases, unlisted } = this.#name;
    if (name === undefined || name === '' || unlisted?.includes(name)) return;
    const listed = [id, ...aliases, 'default'];
    if (listed.some((known) => known.toLowerCase() === name.toLowerCase())) return;
    const told = name.length > 40 ? `a string of ${name.length} characters` : JSON.stringify(name);
    const names = [id, ...aliases].map((known) => JSON.stringify(known)).join(', ');
    throw new RecuaError('model_not_found', `The model ${told} does not exist here. This server has only ${names}.`, { param: 'model' });
  }

  /** Counts loads. Also called when the model is listed, for callers without `stateChanged`. */
  #count(): void {
    const isReady = this.sole.state.state === 'ready';
    if (isReady && !this.#wasReady) this.#loads++;
    this.#wasReady = isReady;
  }

  #model(): PoolModel {
    const { state } = this.sole;
    this.#count();
    if (state.state === 'ready') this.#known = state.model;
    return {
      id: this.#name.id,
      aliases: this.#name.aliases,
      createdSeconds: this.#name.createdSeconds,
      fileBytes: this.#name.fileBytes ?? 0,
      state: this.#state(),
      known: this.#known,
      pinned: true,
      leases: this.#leases,
      activity: activityOf(this.sole),
      expiresMs: undefined,
      sizeBytes: residentBytes(this.sole.pid) ?? this.#known?.sizeBytes ?? 0,
      loads: this.#loads,
      crashes: this.sole.crashes,
      pid: this.sole.pid,
    };
  }

  #state(): ModelState {
    const { state } = this.sole;
    if (state.state === 'ready') return { state: 'loaded', model: state.model };
    if (state.state === 'failed') return { state: 'failed', error: state.error.toPlain() };
    if (state.state === 'closed') return { state: 'unloaded' };
    return { state: 'loading', fraction: state.fraction };
  }
}

function stopping(): RecuaError {
  return new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
}
