// The store of models, for the routes that change it. Implemented by cli/serve/model-shelf, and by
// fakes in tests.

export interface PulledFile {
  /** Such as `sha256:…`. */
  digest: string;
  totalBytes: number;
}

export interface Pull {
  readonly files: readonly PulledFile[];
  /**
   * Downloads the files; `told` reports the bytes that each has so far, `noted` why it takes long.
   */
  run(told: (file: PulledFile, doneBytes: number) => void, noted?: (text: string) => void): Promise<void>;
}

/** A repository of the hub with models. */
export interface FoundRepository {
  name: string;
  /** Downloads in the last month. */
  downloads: number;
  likes: number;
  /** The user must accept its license at the hub first. */
  gated: boolean;
}

/** A model of such a repository. */
export interface OfferedModel {
  /** The name to pull it by. */
  name: string;
  file: string;
  /** '' if the file's name has none. */
  quantization: string;
  sizeBytes: number;
  /** Bytes of it on this machine. */
  storedBytes: number;
  /** Approximate memory when it is loaded. */
  memoryBytes: number;
  fits: boolean;
  /** The best choice for this machine. */
  recommended: boolean;
}

/** A model whose download ended early, or still runs. */
export interface UnfinishedModel {
  /** The name to delete it by. */
  name: string;
  /** The name to pull it by: that of its file. */
  source: string;
  /** Hashes of its incomplete files, which are in the digests of a Pull. */
  hashes: readonly string[];
  /** Undefined if its size is not known. */
  percent: number | undefined;
  /** A process is downloading it now. */
  pulling: boolean;
}

export interface GivenName {
  name: string;
  /** Removing the name keeps the model. */
  modelStays: boolean;
}

export interface ModelShelf {
  /** Repositories of the hub, most downloaded first. */
  search(words: string, signal: AbortSignal): Promise<readonly FoundRepository[]>;
  /** The models of a repository of the hub, smallest first. */
  offers(repository: string, signal: AbortSignal): Promise<readonly OfferedModel[]>;
  /** Finds a model at the hub; nothing is downloaded yet. */
  open(name: string, signal: AbortSignal): Promise<Pull>;
  /**
   * Removes one model, by its exact name, or a name of it. Before its files are removed, awaits
   * `begin` with the names of the models that go.
   */
  remove(name: string, begin?: (models: readonly string[]) => Promise<void>): Promise<void>;
  /** A second name; no bytes are copied. */
  copy(source: string, name: string): Promise<void>;
  /** Models of the store that are not complete. */
  unfinished(): Promise<readonly UnfinishedModel[]>;
  /** Names given by users. */
  aliases(): Promise<readonly GivenName[]>;
  /**
   * Names that the server was started with, and that do not mean the same model in the store: by
   * them nothing is removed or copied.
   */
  ownNames(): Promise<readonly string[]>;
  /**
   * The header of the file of a model that is served, with long lists as null; undefined if there
   * is no file. Rejects if the file cannot be read.
   */
  describe(id: string): Promise<ShelfModel | undefined>;
}

export interface ShelfModel {
  metadata: Readonly<Record<string, unknown>>;
  architecture: string;
  parameters: number;
  quantization: string;
  sizeBytes: number;
}
