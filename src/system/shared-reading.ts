// One reading of thousands of files for all who ask at about the same time: each reading of its own
// would hold them all in memory, also after its client has left. Used by servers' stores of files,
// batches and saved chats, and for the models of a store.
export class SharedReading<Result> {
  readonly #read: () => Promise<Result>;
  #now: Promise<Result> | undefined;
  #next: Promise<Result> | undefined;

  constructor(read: () => Promise<Result>) {
    this.#read = read;
  }

  /** The result of a reading that begins after this call, since others may lack what was stored. */
  async get(): Promise<Result> {
    if (!this.#now) return await this.#begin();
    return await (this.#next ??= this.#now.catch(() => undefined).then(() => {
      this.#next = undefined;
      return this.#now ?? this.#begin();
    }));
  }

  #begin(): Promise<Result> {
    return (this.#now = this.#read().finally(() => (this.#now = undefined)));
  }
}
