// The space for files that grow while a batch runs, reserved in pieces, since nobody knows how long
// its answers will be.
import { StoreFull, type FileStore, type Room } from './file-store.js';

export class GrowingRoom {
  readonly #store: Pick<FileStore, 'room' | 'pieceBytes'>;
  readonly #by: string | undefined;
  #room: Room | undefined;
  #left = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** For files of the API key named `by`. */
  constructor(store: Pick<FileStore, 'room' | 'pieceBytes'>, by: string | undefined) {
    this.#store = store;
    this.#by = by;
  }

  /**
   * Before the files grow by `bytes`.
   * @throws StoreFull
   */
  async take(bytes: number): Promise<void> {
    const taken = this.#last.then(() => this.#take(bytes));
    this.#last = taken.catch(() => undefined);
    await taken;
  }

  async #take(bytes: number): Promise<void> {
    if (bytes > this.#left) {
      // What was written of the last piece counts from now on as what is on the disk.
      this.release();
      const piece = Math.max(bytes, this.#store.pieceBytes);
      const room = await this.#store.room(this.#by, piece);
      if (room.bytes < bytes) {
        room.release();
        throw new StoreFull(`The next result has ${bytes} bytes, but only ${room.bytes} are left for files; delete some.`);
      }
      this.#room = room;
      this.#left = Math.min(room.bytes, piece);
    }
    this.#left -= bytes;
  }

  release(): void {
    this.#room?.release();
    this.#room = undefined;
    this.#left = 0;
  }
}
