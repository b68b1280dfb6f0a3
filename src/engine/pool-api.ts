// Several models behind one interface, as the server sees them. Implemented by
// engine/model-pool/pool with a process for each model, by engine/model-pool/single-model for a
// program that serves one model of its own, and by fakes in tests. Imported by server/ and cli/;
// knows nothing of HTTP.
import type { Engine } from './api.js';
import type { KvUse, ModelDescription } from './protocol.js';
import type { PlainError } from '../errors.js';

export type ModelState =
  | { state: 'unloaded' }
  /** Not loaded, but its conversations are kept. */
  | { state: 'sleeping' }
  | { state: 'loading'; fraction: number }
  | { state: 'loaded'; model: ModelDescription }
  /** Another model needs its memory: it is unloaded when its running requests end. */
  | { state: 'unloading' }
  /** The last load failed; it is retried when something has changed. */
  | { state: 'failed'; error: PlainError };

/** A model's current activity. */
export interface Activity {
  /** Running requests. */
  readonly running: number;
  /** Requests that wait for a sequence, or for the model to be loaded. */
  readonly waiting: number;
  /** All answers together, over the last seconds. */
  readonly tokensPerSecond: number;
  /** Undefined while the model is not loaded, and for a model that only embeds. */
  readonly kv: KvUse | undefined;
}

export type FileChange = 'changed' | 'gone';

/** A model that requests may name, loaded or not. */
export interface PoolModel {
  /** The name that clients see. */
  readonly id: string;
  /** Other names that find it and are listed. */
  readonly aliases: readonly string[];
  /** When its file was made, in seconds since 1970. */
  readonly createdSeconds: number;
  /** Size of its files; absent if unknown. */
  readonly fileBytes?: number;
  readonly state: ModelState;
  /**
   * Its description from the last load; undefined if it is not loaded and another file has its name
   * now.
   */
  readonly known: ModelDescription | undefined;
  /**
   * Whether the loaded file has changed or is gone. The loaded model keeps serving; the next load
   * reads the file that exists then.
   */
  readonly fileChange?: FileChange | undefined;
  /** Its last load failed, or its process died for good: it is only tried again. */
  readonly hasFailed?: boolean;
  /** Never unloaded for another model. */
  readonly pinned: boolean;
  /** Requests that hold it or wait for it. */
  readonly leases: number;
  readonly activity: Activity;
  /**
   * When it is unloaded without further requests, by Date.now(); undefined: never, or not loaded.
   */
  readonly expiresMs: number | undefined;
  /** Memory in bytes, measured or expected; 0: unknown. */
  readonly sizeBytes: number;
  /** How often it became ready since the start, including after crashes. */
  readonly loads: number;
  /** How often its process has died since the start. */
  readonly crashes: number;
  /** Id of its engine process; undefined while there is none. */
  readonly pid: number | undefined;
}

/** A loaded model that stays loaded until it is released. */
export interface Lease {
  readonly id: string;
  readonly engine: Engine;
  readonly model: ModelDescription;
  /** Further calls do nothing. */
  release(): void;
}

export interface LeaseOptions {
  /** Who asks: a full queue is shared among clients. */
  client?: string;
  /** Below 0, for idle work: it takes no place in the queue from others. */
  priority?: number;
  /**
   * How long the model stays loaded after its last request; 0: not at all, Infinity: forever.
   * Absent: the model's own setting.
   */
  keepAliveMs?: number;
  signal?: AbortSignal;
  /**
   * Whether the model may be taken back for another one. Its engine first ends what it has begun;
   * what waits goes on when the model is there again, which `model` may not describe any more.
   */
  mayMove?: boolean;
  /** Another server may answer, so that nobody should wait for a process that is started again. */
  hasReplicas?: boolean;
  /** Called with the model's states while the lease waits, including loading progress (0 to 1). */
  onWait?: (state: ModelState) => void;
}

export interface ModelPool {
  /** The engine of a pool with one model. Requests do not wait until it is loaded. */
  readonly sole?: Engine;
  /** All models that a request may name. */
  list(): Promise<readonly PoolModel[]>;
  /**
   * The model of that name; the default model if `name` is undefined, empty or `default`.
   * @throws RecuaError `model_not_found`, with the nearest names
   */
  find(name: string | undefined): Promise<PoolModel>;
  /**
   * Loads the model if necessary, and keeps it loaded until the lease is released.
   * @throws RecuaError `model_not_found`; what loading throws; `model_too_large` if it cannot fit;
   *   `cancelled`
   */
  lease(name: string | undefined, options?: LeaseOptions): Promise<Lease>;
  /** Loads a model if necessary, and waits until it is ready. */
  load(name: string, options?: Pick<LeaseOptions, 'keepAliveMs'>): Promise<PoolModel>;
  /** Unloads a model when its running requests end, and waits for that. */
  unload(name: string): Promise<PoolModel>;
  /**
   * Calls `listener` with each change of a model's state, including loading progress. Returns a
   * function that stops this.
   */
  onChange(listener: (model: PoolModel) => void): () => void;
  /**
   * Lets running answers end (at most `drainMs`), then ends all processes. No lease is given any
   * more, but those that exist may be used until `work` ends.
   */
  close(drainMs?: number, work?: Promise<unknown>): Promise<void>;
}
