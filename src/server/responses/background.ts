// Responses that are made in the background: each is a request that the server asks of itself. Its
// events are kept while it runs, and a while longer, for those who come back to its stream.
import { RecuaError } from '../../errors.js';
import { errorBody, type ErrorBody } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import type { TraceHeaders } from '../http/inner.js';
import type { Frame } from '../http/stream.js';
import { ownIdentity } from '../../system/process-identity.js';
import type { Beginning } from './answer.js';
import type { Owner } from '../kept/owner.js';
import type { ResponseStore, StoredResponse, WireResponse } from './store.js';

/** That wait or run; more are refused. */
const mostUnfinished = 128;
/** What their bodies take as text, and what they repeat of them. */
const mostUnfinishedBytes = 2 ** 27;
/** Of those that have ended, for who comes back. */
const mostEndedBytes = 2 ** 25;
/** An event of a few letters, with what is around it. */
const bytesPerEvent = 256;

export class BackgroundRun implements Beginning {
  readonly response: WireResponse;
  readonly input: readonly object[];
  readonly previous: string | undefined;
  readonly by: string | undefined;
  readonly #bodyBytes: number;
  readonly #events: Frame[] = [];
  readonly #abort = new AbortController();
  readonly #waiting: (() => void)[] = [];
  #now: () => WireResponse;
  #ended: StoredResponse | undefined;
  #isCancelled = false;
  /** Somebody writes the answer, and has the last word of it. */
  #isWritten = false;
  #isConcluded = false;

  constructor({ response, input, previous, by }: StoredResponse, bodyBytes: number) {
    this.#bodyBytes = bodyBytes;
    this.response = response;
    this.input = input;
    this.previous = previous;
    this.by = by;
    this.#now = () => response;
    for (const type of ['response.created', 'response.queued']) this.tell({ event: type, data: { type, sequence_number: this.sequence, response } });
  }

  get sequence(): number {
    return this.#events.length;
  }

  /** Memory that it takes, about. */
  get bytes(): number {
    return this.#bodyBytes + this.#events.length * bytesPerEvent;
  }

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Set once it has ended. */
  get ended(): StoredResponse | undefined {
    return this.#ended;
  }

  get now(): WireResponse {
    return this.#ended?.response ?? this.#now();
  }

  get isWritten(): boolean {
    return this.#isWritten;
  }

  follow(now: () => WireResponse): void {
    this.#isWritten = true;
    this.#now = now;
  }

  tell(frame: Frame): void {
    if (this.#isConcluded) return;
    this.#events.push(frame);
    this.#wake();
  }

  /** What was told last is the end: an answer that is still being written tells nothing more. */
  conclude(): void {
    this.#isConcluded = true;
  }

  settle(stored: StoredResponse): void {
    this.#ended ??= { ...stored, by: this.by };
    this.#wake();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#abort.abort();
  }

  /** Events from that number on, as they come, until the last. */
  async *from(sequence: number): AsyncGenerator<Frame> {
    for (let at = sequence; ; ) {
      while (at < this.#events.length) yield this.#events[at++]!;
      if (this.#isOver) return;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Resolves when its writer has said the last word. */
  async settled(): Promise<void> {
    while (!this.#ended) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when it is over and stored. */
  async over(): Promise<void> {
    while (!this.#isOver) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #isOver = false;

  /** Nothing more is told. */
  close(): void {
    this.#isOver = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

export class BackgroundRuns {
  readonly #gateway: Gateway;
  readonly #store: ResponseStore;
  /** The oldest first; those that have ended among them. */
  readonly #runs = new Map<string, BackgroundRun>();

  constructor(gateway: Gateway, store: ResponseStore) {
    this.#gateway = gateway;
    this.#store = store;
  }

  find(id: string, owner: Owner): BackgroundRun | undefined {
    const run = this.#runs.get(id);
    return run && owner.has(run.by) ? run : undefined;
  }

  drop(id: string): void {
    this.#runs.delete(id);
  }

  /**
   * Stores it as queued, and begins.
   * @throws RecuaError `queue_full`; what storing throws
   */
  async start(stored: StoredResponse, body: object, trace?: TraceHeaders): Promise<BackgroundRun> {
    const text = JSON.stringify({ ...body, stream: true });
    const unfinished = [...this.#runs.values()].filter(({ ended }) => !ended);
    const bytes = unfinished.reduce((sum, run) => sum + run.bytes, 0);
    if (unfinished.length >= mostUnfinished || (unfinished.length > 0 && bytes + text.length > mostUnfinishedBytes)) {
      throw new RecuaError('queue_full', `${unfinished.length} responses are being made in the background; wait until some are complete.`);
    }
    // Counted from now on.
    const run = new BackgroundRun(stored, text.length);
    this.#runs.set(stored.response.id, run);
    try {
      await this.#store.put({ ...stored, owner: await ownIdentity() });
    } catch (thrown) {
      this.drop(stored.response.id);
      throw thrown;
    }
    void this.#work(run, text, trace);
    return run;
  }

  async #work(run: BackgroundRun, body: string, trace?: TraceHeaders): Promise<void> {
    let failure: ErrorBody;
    try {
      const { status, body: reply } = await this.#gateway.inner.ask({ path: '/v1/responses', body, reason: run, by: run.by, trace, signal: run.signal, dropsBody: true });
      failure = status === 200 ? errorBody(new RecuaError('internal_error', 'An answer in the background just ended.')) : JSON.parse(reply.toString()) as ErrorBody;
    } catch (thrown) {
      failure = errorBody(new RecuaError('internal_error', `An answer in the background ended without a reply: ${(thrown as Error).message}`, { cause: thrown }));
    }
    // Its writer hears of a connection that was hung up a moment later.
    if (run.isWritten) await run.settled();
    if (!run.ended) this.#fail(run, failure);
    await this.#keep(run);
    run.close();
    this.#forget();
  }

  #fail(run: BackgroundRun, { error: { type, message, code, param } }: ErrorBody): void {
    const { isCancelled, sequence, input, previous, by } = run;
    const response: WireResponse = { ...run.now, status: isCancelled ? 'cancelled' : 'failed', error: isCancelled ? null : { code, message } };
    run.settle({ response, input, previous, by, lastEvent: sequence });
    const tell = (event: string, data: object): void => run.tell({ event, data: { type: event, sequence_number: run.sequence, ...data } });
    tell(isCancelled ? 'response.incomplete' : 'response.failed', { response });
    if (!isCancelled) tell('error', { code, message, param, error: { type, code, message, param } });
    run.conclude();
  }

  /** One that ended well was stored before its last event. */
  async #keep(run: BackgroundRun): Promise<void> {
    const { status } = run.now;
    if (status === 'completed' || status === 'incomplete') return;
    await this.#store.put(run.ended!).catch((thrown: unknown) => this.#gateway.log('warn', `${run.response.id} is not stored: ${RecuaError.from(thrown).message}`));
  }

  #forget(): void {
    const ended = [...this.#runs].filter(([, run]) => run.ended);
    let bytes = ended.reduce((sum, [, run]) => sum + run.bytes, 0);
    for (const [id, run] of ended) {
      if (bytes <= mostEndedBytes) break;
      bytes -= run.bytes;
      this.#runs.delete(id);
    }
  }
}
