// What a pool is told from above: which models there are, by which names, and how each is loaded.
// The command line and the library make it from the store and the settings. Types only: the pool
// does not read files.
import type { FileChange } from '../pool-api.js';
import type { EngineOptions } from '../protocol.js';

/** A model that could be loaded. */
export interface CatalogueModel {
  /** The name that clients see; no two models have the same. */
  readonly id: string;
  /** Other names that find it and are listed. */
  readonly aliases: readonly string[];
  /** When its file was made, in seconds since 1970. */
  readonly createdSeconds: number;
}

/** How a model is loaded, as its file and the settings are now. */
export interface LoadPlan {
  readonly options: EngineOptions;
  /** RAM that it is expected to take; 0 where nobody knows. */
  readonly needBytes: number;
  /** Memory of devices that it is expected to take, by their names. */
  readonly deviceBytes?: Readonly<Record<string, number>>;
  /** Another one where the file is another: a failed load is tried again then. */
  readonly fingerprint: string;
  /**
   * Stays loaded for so long after its last request, unless that says otherwise; Infinity: for
   * ever.
   */
  readonly keepAliveMs: number;
  /** It is unloaded when someone asks for that, and never else. */
  readonly pinned: boolean;
  /** Of the models of one group at most one is loaded. */
  readonly group?: string | undefined;
}

export interface Catalogue {
  list(): Promise<readonly CatalogueModel[]>;
  /**
   * The model of that name; the default one where `name` is undefined, empty or `default`. Called
   * with each request.
   * @throws RecuaError `model_not_found`, with the nearest names
   */
  find(name: string | undefined): Promise<CatalogueModel>;
  /**
   * Called before a load, not for a model that is loaded. What it throws goes to who asked for the
   * model.
   */
  plan(model: CatalogueModel): Promise<LoadPlan>;
  /** What became of the file since then; undefined where it is the same. */
  changeOf(plan: LoadPlan): Promise<FileChange | undefined>;
}
