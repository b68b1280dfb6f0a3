// Several models behind one door, as the server sees them: implemented by engine/gateway/pool over
// a process for each model, by one engine alone where a program serves a model of its own, and by
// fakes in tests. Imported by server/ and cli/; knows nothing of HTTP.
import type { Engine } from './api.js';
import type { KvUse, ModelDescription } from './protocol.js';
import type { PlainError } from '../errors.js';

export type ModelState =
  | { state: 'unloaded' }
  /** It is not loaded, and its conversations are kept. */
  | { state: 'sleeping' }
  | { state: 'loading'; fraction: number }
  | { state: 'ready'; model: ModelDescription }
  /** Another model needs its memory: it goes as soon as what it works on is done. */
  | { state: 'unloading' }
  /** The last load failed; the next one is tried when something has changed. */
  | { state: 'failed'; error: PlainError };

/** What a model does just now. */
export interface Activity {
  /** Requests that it works on. */
  readonly running: number;
  /** Requests that wait for their turn, or for the model to be loaded. */
  readonly waiting: number;
  /** Of all answers together, over the last seconds. */
  readonly tokensPerSecond: number;
  /** Undefined while it is not loaded, and of a model that only embeds. */
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
  readonly state: ModelState;
  /** What it was when it was last loaded. */
  readonly known: ModelDescription | undefined;
  /**
   * The file that was loaded is another by now, or there is none. It is served on as it is; the
   * next load takes what is there.
   */
  readonly fileChange?: FileChange | undefined;
  /** It is never unloaded for another. */
  readonly pinned: boolean;
  /** Requests that hold it or wait for it. */
  readonly leases: number;
  readonly activity: Activity;
  /** When it is unloaded if nobody asks for it, by Date.now(); undefined: never, or not loaded. */
  readonly expiresMs: number | undefined;
  /** What it is expected to take, or what it took, in bytes of memory; 0 where nobody knows. */
  readonly sizeBytes: number;
  /** How often it became ready to answer since the start, after crashes too. */
  readonly loads: number;
  /** How often its process ended without being told to since the start. */
  readonly crashes: number;
  /** Process that computes it; undefined while there is none. */
  readonly pid: number | undefined;
}

/** A loaded model that stays loaded until it is released. */
export interface Lease {
  readonly id: string;
  readonly engine: Engine;
  readonly model: ModelDescription;
  /** Once; more calls do nothing. */
  release(): void;
}

export interface LeaseOptions {
  /**
   * Stays loaded for so long after its last request; 0: until then only, Infinity: for ever.
   * Absent: as the model is set.
   */
  keepAliveMs?: number;
  signal?: AbortSignal;
  /** Progress of loading, from 0 to 1, and what else is waited for. */
  onWait?: (state: ModelState) => void;
}

export interface ModelPool {
  /** Where a program serves one model alone: its engine. Requests do not wait for that to load. */
  readonly sole?: Engine;
  /** All models that a request may name. */
  list(): Promise<readonly PoolModel[]>;
  /**
   * The model of that name; the default one where `name` is undefined, empty or `default`.
   * @throws RecuaError `model_not_found`, with the nearest names
   */
  find(name: string | undefined): Promise<PoolModel>;
  /**
   * Loads the model where it is not loaded, and keeps it until the lease is released.
   * @throws RecuaError `model_not_found`; what loading throws; `model_too_large` where it cannot
   *   fit; `cancelled`
   */
  lease(name: string | undefined, options?: LeaseOptions): Promise<Lease>;
  /** Loads a model, if it is not, and waits until it is ready. */
  load(name: string, options?: Pick<LeaseOptions, 'keepAliveMs'>): Promise<PoolModel>;
  /** Unloads a model as soon as what it works on is done, and waits for that. */
  unload(name: string): Promise<PoolModel>;
  /**
   * Called with each change of a model's state, progress of loading included. Returns how to stop
   * that.
   */
  onChange(listener: (model: PoolModel) => void): () => void;
  /** Lets running answers end (at most `drainMs`), then ends all processes. */
  close(drainMs?: number): Promise<void>;
}
