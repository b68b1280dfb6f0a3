// The store of models, as routes see it that change it. Implemented by cli/serve/model-shelf, and
// by fakes in tests.

export interface PulledFile {
  /** Such as `sha256:…`. */
  digest: string;
  totalBytes: number;
}

export interface Pull {
  readonly files: readonly PulledFile[];
  /** Brings them; tells for each how many of its bytes are there. */
  run(told: (file: PulledFile, doneBytes: number) => void): Promise<void>;
}

/** A repository of the hub with models. */
export interface FoundRepository {
  name: string;
  /** Of the last month. */
  downloads: number;
  likes: number;
  /** Its license has to be accepted at the hub first. */
  gated: boolean;
}

/** A model of such a repository. */
export interface OfferedModel {
  /** By which it is pulled. */
  name: string;
  file: string;
  /** '' where the file's name tells none. */
  quantization: string;
  sizeBytes: number;
  /** What of it is on this machine. */
  storedBytes: number;
  /** What it takes when it is loaded, roughly. */
  memoryBytes: number;
  fits: boolean;
  /** The best of them for this machine. */
  recommended: boolean;
}

export interface GivenName {
  name: string;
  /** Where it is removed, the model stays. */
  modelStays: boolean;
}

export interface ModelShelf {
  /** Repositories of the hub, those that are pulled most first. */
  search(words: string, signal: AbortSignal): Promise<readonly FoundRepository[]>;
  /** The models of a repository of the hub, the smallest first. */
  offers(repository: string, signal: AbortSignal): Promise<readonly OfferedModel[]>;
  /** Finds a model at the hub; nothing is downloaded yet. */
  open(name: string, signal: AbortSignal): Promise<Pull>;
  /** Only what has exactly that name. */
  remove(name: string): Promise<void>;
  /** A second name; no bytes are copied. */
  copy(source: string, name: string): Promise<void>;
  /** The names that people gave. */
  aliases(): Promise<readonly GivenName[]>;
  /**
   * What the header of the model's file says, long lists as null; undefined where there is none.
   */
  describe(name: string): Promise<ShelfModel | undefined>;
}

export interface ShelfModel {
  metadata: Readonly<Record<string, unknown>>;
  architecture: string;
  parameters: number;
  quantization: string;
  sizeBytes: number;
}
