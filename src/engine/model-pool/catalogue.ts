// What a pool is given: its settings, and a catalogue that says which models exist, under which
// names, and how to load each. The command line and the library make it from the model store and
// the settings. Types only: the pool does not read files.
import type { PlainError } from '../../errors.js';
import type { EngineSettings } from '../api.js';
import type { LeasePolicy } from '../leases/leases.js';
import type { FileChange } from '../pool-api.js';
import type { EngineOptions } from '../protocol.js';
import type { SleepSettings } from '../sleep/sleep-cache.js';
import type { ClientSettings } from '../gateway/client.js';

/** A model that could be loaded. */
export interface CatalogueModel {
  /** The name that clients see; no two models have the same. Another model may have it later. */
  readonly id: string;
  /** The same for this model under each of its names, and no other's. */
  readonly key: string;
  /** Other names that find it and are listed. */
  readonly aliases: readonly string[];
  /** When its file was made, in seconds since 1970. */
  readonly createdSeconds: number;
  /** Size of its files; absent if unknown. */
  readonly fileBytes?: number;
  /** Why it could not be used when the server started; counts until its file is read again. */
  readonly problem?: PlainError | undefined;
}

/** How to load a model, from its file and settings as they are now. */
export interface LoadPlan {
  readonly options: EngineOptions;
  /** Expected RAM; 0: unknown. */
  readonly needBytes: number;
  /** Expected memory of devices, by device name. */
  readonly deviceBytes?: Readonly<Record<string, number>>;
  /** Changes with the file and its template: then a failed load is retried. */
  readonly fingerprint: string;
  /**
   * How long it stays loaded after its last request, unless that request says otherwise; Infinity:
   * forever.
   */
  readonly keepAliveMs: number;
  /** Unloaded only on an explicit request. */
  readonly pinned: boolean;
  /** At most one model of a group is loaded. */
  readonly group?: string | undefined;
}

export interface Catalogue {
  list(): Promise<readonly CatalogueModel[]>;
  /**
   * The model of that name; the default model if `name` is undefined, empty or `default`. Called
   * with each request.
   * @throws RecuaError `model_not_found`, with the nearest names
   */
  find(name: string | undefined): Promise<CatalogueModel>;
  /**
   * Called before a load, not while the model is loaded. Its errors go to the requests for the
   * model.
   * @throws RecuaError `model_not_found` if another model has its name now
   */
  plan(model: CatalogueModel): Promise<LoadPlan>;
  /** How the file has changed since the plan; undefined if it has not. */
  changeOf(plan: LoadPlan): Promise<FileChange | undefined>;
}

export interface PoolSettings extends Pick<EngineSettings, 'log' | 'logLevel'> {
  /** RAM for all models together; 0 or absent: the memory free at start, less a reserve. */
  maxMemoryBytes?: number;
  /** Device memory for all models together, by device name; devices not named have no bound. */
  maxDeviceBytes?: Readonly<Record<string, number>>;
  /** Most loaded models; 0 or absent: as many as fit. */
  maxModels?: number;
  /** A load without progress for this long fails. Default: ten minutes. */
  loadTimeoutMs?: number;
  /** How to keep conversations of unloaded models; absent: they are not kept. */
  sleep?: SleepSettings;
  /** Memory that the machine has left now; undefined if unknown. Tests pass their own. */
  freeBytes?: () => number | undefined;
  /** How to run the engine processes. Tests pass an entry with a fake addon. */
  engines?: Pick<ClientSettings, 'autoSandbox' | 'entry' | 'keepAlive' | 'restart' | 'stateFolder' | 'watch'>;
  policy?: Partial<LeasePolicy>;
}
