// Runs one batch after the other: the oldest that has not ended and that no other server works on.
// Made by dialect.
import { RecuaError } from '../../errors.js';
import { tryLock, type Lock } from '../../system/lock-file.js';
import { isOver, type BatchRecord } from './batch-store.js';
import { BatchWork, type Places } from './work.js';

/** Most waiting batches; more are refused. */
const mostWaiting = 100;
/** When to check again for a batch that another server works on. */
const lockedMs = 2_000;

export class BatchQueue {
  readonly #places: Places;
  readonly #waiting: string[] = [];
  #work: BatchWork | undefined;
  /** Resolves when it is known whether the next batch can run here. */
  #picked: Promise<unknown> = Promise.resolve();
  #isBusy = false;
  #going: Promise<void> = Promise.resolve();

  constructor(places: Places) {
    this.#places = places;
    places.gateway.traffic.onDrain(() => {
      this.#work?.stop();
      return this.#going;
    });
  }

  /** Queues the batches that an earlier run of the server left unfinished. */
  async resume(): Promise<void> {
    const left = (await this.#places.store.list()).filter(({ batch }) => !isOver(batch));
    for (const { batch } of left.reverse()) this.add(batch.id);
  }

  get isFull(): boolean {
    return this.#waiting.length >= mostWaiting;
  }

  add(id: string): void {
    this.#waiting.push(id);
    if (!this.#isBusy) this.#going = this.#go();
  }

  /** Its current state, if it runs here. */
  find(id: string): BatchRecord | undefined {
    return this.#work?.isCounted && this.#work.record.batch.id === id ? this.#work.record : undefined;
  }

  async cancel(record: BatchRecord): Promise<BatchRecord> {
    const { id } = record.batch;
    await this.#picked;
    if (this.#work?.record.batch.id === id) {
      await this.#work.cancel();
      return this.#work.record;
    }
    if (!this.#waiting.includes(id)) throw new RecuaError('invalid_value', `The batch ${id} is running on another server; only that one can cancel it.`);
    record.batch.status = 'cancelling';
    record.batch.cancelling_at = Math.floor(Date.now() / 1_000);
    await this.#places.store.put(record);
    return record;
  }

  async #go(): Promise<void> {
    this.#isBusy = true;
    for (let id = this.#waiting.shift(); id !== undefined && !this.#places.gateway.traffic.draining; id = this.#waiting.shift()) {
      let lock: Lock | undefined;
      try {
        const picking = this.#pick(id);
        this.#picked = picking.catch(() => undefined);
        lock = await picking;
        await this.#work?.run();
      } catch (thrown) {
        await this.#fail(id, RecuaError.from(thrown));
      } finally {
        this.#work = undefined;
        await lock?.release();
      }
    }
    this.#isBusy = false;
  }

  /** Sets `#work`, if this server can run the batch. */
  async #pick(id: string): Promise<Lock | undefined> {
    const { store } = this.#places;
    const lock = await tryLock(await store.lockOf(id));
    if (!lock) {
      // Another server holds it, perhaps one that is about to stop.
      setTimeout(() => this.add(id), lockedMs).unref();
      return undefined;
    }
    const record = await store.get(id);
    if (!isOver(record.batch)) this.#work = new BatchWork(record, this.#places);
    return lock;
  }

  /** For errors of the batch itself, such as unusable files, not of its requests. */
  async #fail(id: string, { code, message }: RecuaError): Promise<void> {
    const { store, gateway } = this.#places;
    gateway.log('error', `${id} ${code}: ${message}`);
    const record = this.#work?.record;
    if (!record) return;
    record.batch.status = 'failed';
    record.batch.failed_at = Math.floor(Date.now() / 1_000);
    record.batch.errors = { object: 'list', data: [{ code, message, param: null, line: null }] };
    await store.put(record).catch(() => undefined);
    await store.dropInput(id).catch(() => undefined);
  }
}
