// A ModelPool without processes: each model is a FakeEngine that loads when the test says so. Keeps
// the contract of engine/pool-api: a lease waits for its model, and counts until it is released.
import type { Lease, LeaseOptions, ModelPool, ModelState, PoolModel } from '#recua/engine/pool-api.js';
import { RecuaError } from '#recua/errors.js';
import { FakeEngine, description } from './fake-engine.js';

interface Entry {
  id: string;
  aliases: string[];
  engine: FakeEngine;
  state: ModelState;
  leases: number;
  hasFailed?: boolean;
  waiting: ((error?: RecuaError) => void)[];
}

export class FakePool implements ModelPool {
  readonly models: Entry[];
  /** Ids that start to load on request and finish when the test calls `finish`. */
  readonly slow = new Set<string>();
  /** Ids whose load fails. */
  readonly broken = new Map<string, RecuaError>();
  /** The keep-alive of each lease and load, in order. */
  readonly keepAlives: (number | undefined)[] = [];
  cancelled = 0;
  readonly #listeners = new Set<(model: PoolModel) => void>();

  constructor(...ids: string[]) {
    this.models = ids.map((id) => ({
      id, aliases: [`${id}-alias`], engine: new FakeEngine(), state: { state: 'unloaded' }, leases: 0, waiting: [],
    }));
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  entry(id: string): Entry {
    return this.models.find((model) => model.id === id)!;
  }

  async list(): Promise<readonly PoolModel[]> {
    return this.models.map((model) => this.#shown(model));
  }

  async find(name: string | undefined): Promise<PoolModel> {
    return this.#shown(this.#named(name));
  }

  async lease(name: string | undefined, { signal, onWait, keepAliveMs }: LeaseOptions = {}): Promise<Lease> {
    const entry = this.#named(name);
    this.keepAlives.push(keepAliveMs);
    entry.leases++;
    try {
      await this.#loaded(entry, onWait, signal);
    } catch (thrown) {
      entry.leases--;
      throw thrown;
    }
    let released = false;
    return {
      id: entry.id, engine: entry.engine, model: description,
      release: () => {
        if (!released) entry.leases--;
        released = true;
      },
    };
  }

  async load(name: string, { keepAliveMs }: Pick<LeaseOptions, 'keepAliveMs'> = {}): Promise<PoolModel> {
    const entry = this.#named(name);
    this.keepAlives.push(keepAliveMs);
    await this.#loaded(entry);
    return this.#shown(entry);
  }

  async unload(name: string): Promise<PoolModel> {
    const entry = this.#named(name);
    this.change(entry.id, { state: 'unloaded' });
    return this.#shown(entry);
  }

  onChange(listener: (model: PoolModel) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> { /* There is nothing to end. */ }

  change(id: string, state: ModelState): void {
    const entry = this.entry(id);
    entry.state = state;
    for (const listener of this.#listeners) listener(this.#shown(entry));
  }

  /** Ends a slow load. */
  finish(id: string, error?: RecuaError): void {
    this.change(id, error ? { state: 'failed', error: error.toPlain() } : { state: 'loaded', model: description });
    for (const end of this.entry(id).waiting.splice(0)) end(error);
  }

  async #loaded(entry: Entry, onWait?: LeaseOptions['onWait'], signal?: AbortSignal): Promise<void> {
    if (entry.state.state === 'loaded') return;
    const error = this.broken.get(entry.id);
    if (error) throw error;
    if (!this.slow.has(entry.id)) return this.change(entry.id, { state: 'loaded', model: description });
    this.change(entry.id, { state: 'loading', fraction: 0.5 });
    await new Promise<void>((resolve, reject) => {
      entry.waiting.push((error) => (error ? reject(error) : resolve()));
      signal?.addEventListener('abort', () => {
        this.cancelled++;
        reject(new RecuaError('cancelled', 'Aborted.'));
      }, { once: true });
      onWait?.(entry.state);
    });
  }

  #named(name: string | undefined): Entry {
    const wanted = name === undefined || name === '' || name === 'default' ? this.models[0]?.id : name;
    const entry = this.models.find(({ id, aliases }) => id === wanted || aliases.includes(wanted!));
    if (!entry) throw new RecuaError('model_not_found', `There is no model ${name}. Did you mean ${this.models[0]?.id}?`, { param: 'model' });
    return entry;
  }

  #shown({ id, aliases, engine, state, leases, waiting, hasFailed = false }: Entry): PoolModel {
    return {
      id, aliases, createdSeconds: 7, state, hasFailed, known: state.state === 'loaded' ? description : undefined, pinned: false, leases,
      activity: { running: engine.running.size, waiting: waiting.length, tokensPerSecond: engine.tokensPerSecond, kv: undefined },
      expiresMs: state.state === 'loaded' ? 1_700_000_000_500 : undefined, sizeBytes: 4_000, loads: state.state === 'loaded' ? 1 : 0, crashes: engine.crashes, pid: undefined,
    };
  }
}
