// Runs one batch at a time: the oldest of the API key whose turn it is, that no other server works
// on. While another key waits, each key's turn is limited. Made by dialect.
import { RecuaError, type ErrorCode } from '../../errors.js';
import { atTime, lookMs } from '../../system/clock.js';
import { tryLock, type Lock } from '../../system/lock-file.js';
import { lifeOf, ownIdentity, sameProcess } from '../../system/process-identity.js';
import { StoreFull } from '../files/file-store.js';
import { isDamage } from '../kept/damaged-files.js';
import { keepingError } from '../kept/kept-folder.js';
import { everyone } from '../kept/owner.js';
import { isOver, type BatchRecord } from './batch-store.js';
import { modelsOfOthers } from './requests.js';
import { BatchWork, type Places } from './work.js';

/** Most waiting batches; more are refused. */
const mostWaiting = 100;
/** Most of those of one API key. */
const mostWaitingOfKey = 50;
const times = {
  /** How long a batch runs while batches of other keys wait. */
  turnMs: 5 * 60_000,
  /** When to check again for a batch that another server works on. */
  lockedMs: 2_000,
  /** When to check again whether the server lives in whose queue a batch is. */
  elsewhereMs: 10_000,
  /** When to check again for a batch of another server's key or models. */
  strangerMs: 60_000,
  /** When to try again if the folder cannot be read or written: perhaps the disk is full. */
  unwritableMs: 30_000,
  /** How often to look at the clock, which may be set. */
  lookMs,
};

/** The batch is fine, and goes on once the disk or the system has room. */
const unwritable: ReadonlySet<ErrorCode> = new Set(['disk_full', 'store_unwritable', 'too_many_open_files']);

interface Waiting {
  id: string;
  /** Name of the API key that it belongs to. */
  by: string | undefined;
  /** Another run of the server or another server made it, which may have other keys and models. */
  isFound?: true;
  /** It is another server's, so it takes no place here. */
  isOthers?: boolean;
  /** The models of its file, which never changes, once this server had none of them. */
  models?: ReadonlySet<string | undefined> | undefined;
}

export class BatchQueue {
  readonly #places: Places;
  readonly #times: typeof times;
  /** Oldest first. */
  readonly #waiting: Waiting[] = [];
  /** Batches that cannot run before some time, by id. */
  readonly #later = new Map<string, { stop: () => void; entry: Waiting }>();
  /** Places of batches that are being created. */
  readonly #arriving = new Set<Pick<Waiting, 'by'>>();
  /** The number of the last turn of each key. */
  readonly #lastTurns = new Map<string | undefined, number>();
  /** Names of API keys that the log says are missing. */
  readonly #lackedKeys = new Set<string>();
  #turns = 0;
  /** What was answered for batches that are being cancelled while they do not run, by id. */
  readonly #cancelling = new Map<string, Promise<BatchRecord>>();
  #work: BatchWork | undefined;
  /** Resolves when it is known whether the next batch can run here. */
  #picked: Promise<unknown> = Promise.resolve();
  /** Its id. */
  #picking: string | undefined;
  #isBusy = false;
  #going: Promise<void> = Promise.resolve();

  constructor(places: Places, own: Partial<typeof times> = {}) {
    this.#places = places;
    this.#times = { ...times, ...own };
    places.gateway.traffic.onDrain(() => {
      this.#work?.stop();
      return this.#going;
    });
  }

  /** Queues the batches that an earlier run of the server left unfinished. */
  async resume(): Promise<void> {
    await this.#places.store.removeLeftOvers();
    const { store } = this.#places;
    const unread: string[] = [];
    const left = (await store.list(everyone, (id) => unread.push(id))).filter(({ batch }) => !isOver(batch));
    for (const { batch, by } of left.reverse()) this.#enqueue({ id: batch.id, by, isFound: true });
    // Once such a batch can be read, the queue drops it if it is over.
    for (const id of unread) this.#enqueue({ id, by: undefined, isFound: true });
  }

  /**
   * Reserves a place for another batch of the key named `by`, until the result is called.
   * @throws RecuaError `queue_full`
   */
  place(by: string | undefined): () => void {
    const later = [...this.#later.values()].map(({ entry }) => entry);
    const all = [...[...this.#waiting, ...later].filter(({ isOthers }) => !isOthers), ...this.#arriving];
    if (all.length >= mostWaiting || (by !== undefined && all.filter((one) => one.by === by).length >= mostWaitingOfKey)) {
      throw new RecuaError('queue_full', 'Too many batches are waiting; try again when some have ended, or cancel some.');
    }
    const place = { by };
    this.#arriving.add(place);
    return () => void this.#arriving.delete(place);
  }

  add(id: string, by: string | undefined): void {
    // It may have been noticed since it was stored.
    this.#take(id);
    this.#enqueue({ id, by });
  }

  /**
   * Somebody asks for the batch. If this server does not know it, another one made it later than
   * this one started, and may have ended.
   */
  notice({ batch, by }: BatchRecord): void {
    const { id } = batch;
    if (
      isOver(batch) ||
      id === this.#picking ||
      this.#work?.record.batch.id === id ||
      this.#later.has(id) ||
      this.#cancelling.has(id) ||
      this.#waiting.some((one) => one.id === id)
    )
      return;
    this.#addLater({ id, by, isFound: true, isOthers: true }, Date.now() + this.#times.lockedMs);
  }

  #enqueue(entry: Waiting): void {
    this.#waiting.push(entry);
    if (!this.#isBusy) this.#going = this.#go();
  }

  /** Its current state, if it runs here. */
  find(id: string): BatchRecord | undefined {
    return this.#work?.isCounted && this.#work.record.batch.id === id ? this.#work.record : undefined;
  }

  async cancel(record: BatchRecord): Promise<BatchRecord> {
    const { id } = record.batch;
    await this.#picked;
    const work = this.#work;
    if (work?.record.batch.id === id) {
      await work.cancel();
      return work.record;
    }
    const cancelling = this.#cancelling.get(id) ?? this.#cancelWaiting(record);
    this.#cancelling.set(id, cancelling);
    return await cancelling;
  }

  async #cancelWaiting(record: BatchRecord): Promise<BatchRecord> {
    const { id } = record.batch;
    const { store } = this.#places;
    const waited = this.#take(id);
    const entry = waited ?? { id, by: record.by };
    let lock: Lock | undefined;
    try {
      const lockPath = await store.lockOf(id);
      lock = await tryLock(lockPath);
      if (!lock) {
        // Another server works on it, and looks for the mark, unless it has just ended its turn.
        await (await store.cancelMarkOf(id)).set();
        lock = await tryLock(lockPath);
      }
      if (!lock) {
        if (waited) this.#addLater(entry, Date.now() + this.#times.lockedMs);
        this.#cancelling.delete(id);
        return await this.#cancelledElsewhere(id);
      }
      // Another server may just have finished it.
      record = await store.get(id);
      if (isOver(record.batch)) {
        await lock.release();
        this.#cancelling.delete(id);
        return record;
      }
      record.batch.status = 'cancelling';
      record.batch.cancelling_at = Math.floor(Date.now() / 1_000);
      await store.put(record);
    } catch (thrown) {
      await lock?.release().catch(() => undefined);
      if (waited) this.#addLater(entry, Date.now() + this.#times.lockedMs);
      this.#cancelling.delete(id);
      throw thrown;
    }
    const answer = structuredClone(record);
    // Nothing of it runs, so it need not wait for its turn.
    void this.#run(new BatchWork(record, this.#places, this.#times.lookMs), entry, lock).finally(() => this.#cancelling.delete(id));
    return answer;
  }

  /** Its state, after another server was asked to cancel it. */
  async #cancelledElsewhere(id: string): Promise<BatchRecord> {
    const { store } = this.#places;
    const record = await store.get(id);
    if (isOver(record.batch)) await (await store.cancelMarkOf(id)).clear();
    else await store.heedCancelMark(record);
    return record;
  }

  /** Takes a batch out of those that wait. */
  #take(id: string): Waiting | undefined {
    const later = this.#later.get(id);
    later?.stop();
    this.#later.delete(id);
    const at = this.#waiting.findIndex((one) => one.id === id);
    return later?.entry ?? (at < 0 ? undefined : this.#waiting.splice(at, 1)[0]);
  }

  async #go(): Promise<void> {
    this.#isBusy = true;
    for (let next = this.#next(); next && !this.#places.gateway.traffic.draining; next = this.#next()) {
      this.#picking = next.id;
      const picking = this.#pick(next);
      this.#picked = picking.catch(() => undefined);
      try {
        const lock = await picking;
        // A drain that came meanwhile has had no work to stop.
        if (lock && this.#work && !this.#places.gateway.traffic.draining) await this.#turn(this.#work, next, lock);
        else await lock?.release();
      } catch (thrown) {
        this.#logError(next.id, thrown);
        if (RecuaError.from(thrown).code !== 'batch_not_found') this.#addLater(next, Date.now() + this.#times.unwritableMs);
      }
      this.#work = undefined;
      this.#picking = undefined;
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
  async #turn(work: BatchWork, entry: Waiting, lock: Lock): Promise<void> {
    const timer = setInterval(() => {
      if (this.#waiting.some(({ by }) => by !== entry.by)) work.leave();
    }, this.#times.turnMs);
    await this.#run(work, entry, lock);
    clearInterval(timer);
  }

  /** Runs the batch, perhaps in part, and gives up its lock. */
  async #run(work: BatchWork, entry: Waiting, lock: Lock): Promise<void> {
    let resumesAtMs: number | undefined;
    let hasFailed = false;
    const { batch } = work.record;
    const mark = await this.#places.store.cancelMarkOf(entry.id).catch(() => undefined);
    let isTold = false;
    const unwatch = mark?.watch(() => {
      if (batch.status !== 'validating' && batch.status !== 'in_progress') return;
      work.cancel().catch((thrown: unknown) => {
        if (!isTold) this.#logError(entry.id, thrown);
        isTold = true;
      });
    });
    try {
      await work.run();
      ({ resumesAtMs } = work);
    } catch (thrown) {
      hasFailed = true;
      this.#logError(entry.id, thrown);
      // What cannot be read now is no fault of the batch.
      const error = isDamage(thrown) ? RecuaError.from(thrown) : keepingError(thrown);
      const later = Date.now() + this.#times.unwritableMs;
      if (unwritable.has(error.code) && !(error instanceof StoreFull)) resumesAtMs = later;
      else await work.fail(error).catch((cause: unknown) => {
        this.#logError(entry.id, cause);
        // It would wait for the next start of the server.
        if (unwritable.has(RecuaError.from(cause).code)) resumesAtMs = later;
      });
    }
    unwatch?.();
    if (this.#work === work) this.#work = undefined;
    await lock.release().catch((thrown: unknown) => this.#logError(entry.id, thrown));
    // It was cancelled in the moment in which it left its turn.
    if (!hasFailed && (batch.status === 'cancelling' || (resumesAtMs !== undefined && await mark?.setAt() !== undefined))) resumesAtMs = Date.now();
    if (resumesAtMs !== undefined) this.#addLater(entry, resumesAtMs);
  }

  #logError(id: string, thrown: unknown): void {
    this.#places.gateway.log('error', `${id} ${RecuaError.from(thrown).code}: ${RecuaError.logText(thrown)}`);
  }

  /** At that time, or when the clock is set back. */
  #addLater(entry: Waiting, atMs: number): void {
    const { id } = entry;
    if (atMs <= Date.now()) return this.#enqueue(entry);
    const due = (): void => {
      this.#later.delete(id);
      this.#enqueue(entry);
    };
    this.#later.get(id)?.stop();
    this.#later.set(id, { stop: atTime(atMs, due, this.#times.lookMs), entry });
  }

  /** Sets `#work`, if this server can run the batch. */
  async #pick(entry: Waiting): Promise<Lock | undefined> {
    const { id } = entry;
    const { store } = this.#places;
    if (entry.isFound && await isElsewhere(await store.get(id))) {
      entry.isOthers = true;
      this.#addLater(entry, Date.now() + this.#times.elsewhereMs);
      return undefined;
    }
    const lock = await tryLock(await store.lockOf(id));
    if (!lock) {
      // Another server holds it, perhaps one that is about to stop.
      this.#addLater(entry, Date.now() + this.#times.lockedMs);
      return undefined;
    }
    try {
      const record = await store.get(id);
      await store.heedCancelMark(record);
      entry.isOthers = entry.isFound === true && await this.#isOfStranger(record, entry);
      if (entry.isOthers) {
        this.#addLater(entry, Date.now() + this.#times.strangerMs);
        await lock.release();
        return undefined;
      }
      if (!isOver(record.batch)) this.#work = new BatchWork(record, this.#places, this.#times.lookMs);
      return lock;
    } catch (thrown) {
      await lock.release();
      throw thrown;
    }
  }

  /**
   * Here all its requests would fail, while another server may have its key and its models. Once
   * its time is over, any server may end it.
   */
  async #isOfStranger({ by, batch }: BatchRecord, entry: Waiting): Promise<boolean> {
    if (isOver(batch) || batch.status === 'cancelling' || Date.now() >= batch.expires_at * 1_000) return false;
    const { store, gateway: { hasKey, pool, config } } = this.#places;
    if (by !== undefined && !hasKey(by)) {
      this.#tellOfKey(by);
      return true;
    }
    const has = async (model: string | undefined): Promise<boolean> => await pool.find(model).then(() => true, () => false);
    if (entry.models) {
      for (const model of entry.models) if (await has(model)) return false;
      return true;
    }
    // A file that cannot be read is told of by the work.
    entry.models = await modelsOfOthers(has, await store.inputOf(batch.id), batch.endpoint, config.bodyLimitBytes).catch(() => undefined);
    return entry.models !== undefined;
  }

  /** Once, since the batches are looked at again and again. */
  #tellOfKey(name: string): void {
    if (this.#lackedKeys.has(name)) return;
    this.#lackedKeys.add(name);
    this.#places.gateway.log('warn', `Batches of the API key ${name} wait: this server has no such key, so it does not know its limits.`);
  }
}

/** Whether it is in the queue of another server that lives. */
async function isElsewhere({ server }: BatchRecord): Promise<boolean> {
  return server !== undefined && !sameProcess(server, await ownIdentity()) && await lifeOf(server) === 'alive';
}
