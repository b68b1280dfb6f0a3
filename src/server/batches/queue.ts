// Runs one batch at a time: the oldest of the API key whose turn it is, that no other server works
// on. While another key waits, each key's turn is limited. Made by dialect.
import { RecuaError } from '../../errors.js';
import { tryLock, type Lock } from '../../system/lock-file.js';
import { isOver, type BatchRecord } from './batch-store.js';
import { BatchWork, type Places } from './work.js';

/** Most waiting batches; more are refused. */
const mostWaiting = 100;
/** Most of those of one API key. */
const mostWaitingOfKey = 50;
/** How long a batch runs while batches of other keys wait. */
const usualTurnMs = 5 * 60_000;
/** When to check again for a batch that another server works on. */
const lockedMs = 2_000;

interface Waiting {
  id: string;
  /** Name of the API key that it belongs to. */
  by: string | undefined;
}

export class BatchQueue {
  readonly #places: Places;
  readonly #turnMs: number;
  /** Oldest first. */
  readonly #waiting: Waiting[] = [];
  /** Batches that cannot run before some time, by id. */
  readonly #later = new Map<string, { timer: NodeJS.Timeout; by: string | undefined }>();
  /** The number of the last turn of each key. */
  readonly #lastTurns = new Map<string | undefined, number>();
  #turns = 0;
  #work: BatchWork | undefined;
  /** Resolves when it is known whether the next batch can run here. */
  #picked: Promise<unknown> = Promise.resolve();
  #isBusy = false;
  #going: Promise<void> = Promise.resolve();

  constructor(places: Places, turnMs = usualTurnMs) {
    this.#places = places;
    this.#turnMs = turnMs;
    places.gateway.traffic.onDrain(() => {
      this.#work?.stop();
      return this.#going;
    });
  }

  /** Queues the batches that an earlier run of the server left unfinished. */
  async resume(): Promise<void> {
    const left = (await this.#places.store.list()).filter(({ batch }) => !isOver(batch));
    for (const { batch, by } of left.reverse()) this.add(batch.id, by);
  }

  /** Whether no batch of the key named `by` can be added. */
  isFullFor(by: string | undefined): boolean {
    const all = [...this.#waiting, ...this.#later.values()];
    return all.length >= mostWaiting || (by !== undefined && all.filter((one) => one.by === by).length >= mostWaitingOfKey);
  }

  add(id: string, by: string | undefined): void {
    this.#waiting.push({ id, by });
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
    const { store } = this.#places;
    const isWaiting = this.#take(id);
    const lock = isWaiting ? await tryLock(await store.lockOf(id)) : undefined;
    if (!lock) {
      if (isWaiting) this.#addLater({ id, by: record.by }, lockedMs);
      throw new RecuaError('invalid_value', `The batch ${id} is running on another server; only that one can cancel it.`);
    }
    record.batch.status = 'cancelling';
    record.batch.cancelling_at = Math.floor(Date.now() / 1_000);
    await store.put(record);
    const answer = structuredClone(record);
    // Nothing of it runs, so it need not wait for its turn.
    void this.#run(new BatchWork(record, this.#places)).finally(() => lock.release());
    return answer;
  }

  /** Takes a batch out of those that wait. */
  #take(id: string): boolean {
    const later = this.#later.get(id);
    clearTimeout(later?.timer);
    const at = this.#waiting.findIndex((one) => one.id === id);
    return this.#later.delete(id) || (at >= 0 && this.#waiting.splice(at, 1).length > 0);
  }

  async #go(): Promise<void> {
    this.#isBusy = true;
    for (let next = this.#next(); next && !this.#places.gateway.traffic.draining; next = this.#next()) {
      let lock: Lock | undefined;
      try {
        const picking = this.#pick(next);
        this.#picked = picking.catch(() => undefined);
        lock = await picking;
        if (this.#work) await this.#turn(this.#work, next.by);
      } catch (thrown) {
        this.#logError(next.id, thrown);
      } finally {
        const resumesAtMs = this.#work?.resumesAtMs;
        this.#work = undefined;
        await lock?.release();
        if (resumesAtMs !== undefined) this.#addLater(next, resumesAtMs - Date.now());
      }
    }
    this.#isBusy = false;
  }

  /** The oldest batch of the key whose last turn is longest ago. */
  #next(): Waiting | undefined {
    const lastTurn = ({ by }: Waiting): number => this.#lastTurns.get(by) ?? 0;
    const [next] = [...this.#waiting].sort((a, b) => lastTurn(a) - lastTurn(b));
    if (!next) return undefined;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#lastTurns.set(next.by, ++this.#turns);
    return next;
  }

  /** Runs the batch to its end, or until another key has waited long enough. */
  async #turn(work: BatchWork, by: string | undefined): Promise<void> {
    const timer = setInterval(() => {
      if (this.#waiting.some((one) => one.by !== by)) work.leave();
    }, this.#turnMs);
    await this.#run(work);
    clearInterval(timer);
  }

  async #run(work: BatchWork): Promise<void> {
    try {
      await work.run();
    } catch (thrown) {
      this.#logError(work.record.batch.id, thrown);
      await work.fail(RecuaError.from(thrown));
    }
  }

  #logError(id: string, thrown: unknown): void {
    const { code, message } = RecuaError.from(thrown);
    this.#places.gateway.log('error', `${id} ${code}: ${message}`);
  }

  #addLater({ id, by }: Waiting, ms: number): void {
    if (ms <= 0) return void this.#waiting.push({ id, by });
    const timer = setTimeout(() => {
      this.#later.delete(id);
      this.add(id, by);
    }, ms);
    this.#later.set(id, { timer: timer.unref(), by });
  }

  /** Sets `#work`, if this server can run the batch. */
  async #pick({ id, by }: Waiting): Promise<Lock | undefined> {
    const { store } = this.#places;
    const lock = await tryLock(await store.lockOf(id));
    if (!lock) {
      // Another server holds it, perhaps one that is about to stop.
      this.#addLater({ id, by }, lockedMs);
      return undefined;
    }
    const record = await store.get(id);
    if (!isOver(record.batch)) this.#work = new BatchWork(record, this.#places);
    return lock;
  }
}
