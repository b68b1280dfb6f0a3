// Decides when lines of batches may run: while the server has no other requests, and has had none
// for a moment, since people ask follow-up questions. When other requests arrive, lines continue
// only if there is room for all; otherwise the newest give way and run again later. All of them
// give way to a request for a model that is not loaded, because theirs may be in its place.
import type { ModelPool, PoolModel } from '../../engine/pool-api.js';
import type { Traffic } from '../http/traffic.js';

/** How long the server must have had no other requests. */
const quietMs = 1_000;
/** How often to look, beside other requests, whether one of them waits for its model. */
const lookMs = 100;

export class Idle {
  readonly #traffic: Traffic;
  readonly #pool: Pick<ModelPool, 'list' | 'onChange'> | undefined;
  readonly #slots: number;
  readonly #quietMs: number;
  /** How many sequences each loaded model has. */
  readonly #sequences = new Map<string, number>();
  #isWatching = false;
  /** Oldest first. */
  readonly #lines: AbortController[] = [];
  readonly #waiting: (() => void)[] = [];
  #lastPersonMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #looking: NodeJS.Timeout | undefined;

  /** `slots`: most lines at once. A loaded model with fewer sequences lowers it. */
  constructor(traffic: Traffic, slots: number, quiet = quietMs, pool?: Pick<ModelPool, 'list' | 'onChange'>) {
    this.#traffic = traffic;
    this.#slots = slots;
    this.#quietMs = quiet;
    this.#pool = pool;
    traffic.watchPeople(() => this.#look());
  }

  /** Most servers never get a batch. */
  #watchModels(): void {
    if (this.#isWatching || !this.#pool) return;
    this.#isWatching = true;
    this.#traffic.onDrain(this.#pool.onChange((model) => this.#note(model)));
    void this.#pool.list().then((models) => models.forEach((model) => this.#note(model)), () => undefined);
  }

  /** Most lines at once. */
  get slots(): number {
    return this.#slots;
  }

  /** A line without a sequence would wait in the queue of its model. */
  get #room(): number {
    return Math.min(this.#slots, ...this.#sequences.values());
  }

  #note({ id, state }: PoolModel): void {
    if (state.state === 'loaded' && state.model.canGenerate) this.#sequences.set(id, state.model.parallel);
    else this.#sequences.delete(id);
    this.#stopBeyond(this.#room - this.#traffic.people);
    this.#wake();
  }

  /** The newest lines give way. */
  #stopBeyond(room: number): void {
    for (const line of this.#lines.slice(Math.max(0, room))) line.abort();
  }

  /** Runs a line once it may. Its signal aborts when the line must give way or is stopped. */
  async line<Result>(stop: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    this.#watchModels();
    const wake = (): void => this.#wake();
    stop.addEventListener('abort', wake, { once: true });
    try {
      while (!this.#mayStart()) {
        this.#schedule();
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
        stop.throwIfAborted();
      }
    } finally {
      stop.removeEventListener('abort', wake);
    }
    const own = new AbortController();
    const end = (): void => own.abort(stop.reason);
    stop.addEventListener('abort', end, { once: true });
    this.#lines.push(own);
    try {
      return await work(own.signal);
    } finally {
      stop.removeEventListener('abort', end);
      this.#lines.splice(this.#lines.indexOf(own), 1);
      this.#wake();
    }
  }

  #mayStart(): boolean {
    const { people, draining } = this.#traffic;
    return !draining && people === 0 && this.#lines.length < this.#room && performance.now() - this.#lastPersonMs >= this.#quietMs;
  }

  /** A request of a client arrived or left. */
  #look(): void {
    const { people } = this.#traffic;
    this.#lastPersonMs = performance.now();
    this.#stopBeyond(this.#room - people);
    if (this.#waiting.length > 0) this.#schedule();
    if (people > 0) this.#looking ??= setTimeout(() => void this.#lookAtModels(), lookMs).unref();
  }

  async #lookAtModels(): Promise<void> {
    const models = this.#lines.length > 0 ? await this.#pool?.list().catch(() => []) ?? [] : [];
    this.#looking = undefined;
    if (this.#traffic.people === 0 || this.#lines.length === 0) return;
    if (models.some(({ leases, state }) => leases > 0 && state.state !== 'loaded')) this.#stopBeyond(0);
    this.#looking = setTimeout(() => void this.#lookAtModels(), lookMs).unref();
  }

  /** Wakes the waiting lines once the server has been quiet long enough. */
  #schedule(): void {
    if (this.#traffic.people > 0 || this.#lines.length >= this.#room) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wake(), Math.max(1, this.#lastPersonMs + this.#quietMs - performance.now() + 1));
    this.#timer.unref();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
