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

export interface ModelShelf {
  /** Finds a model at the hub; nothing is downloaded yet. */
  open(name: string, signal: AbortSignal): Promise<Pull>;
  /** Only what has exactly that name. */
  remove(name: string): Promise<void>;
  /** A second name; no bytes are copied. */
  copy(source: string, name: string): Promise<void>;
  /**
   * What the header of the model's file says, long lists as null; undefined where there is none.
   */
  describe(name: string): Promise<ShelfModel | undefined>;
}

export interface ShelfModel {
  metadata: Readonly<Record<string, unknown>>;
  architecture: string;
  parameters: number;
  quantisation: string;
  sizeBytes: number;
}
