// Background responses. Each is a request that the server makes to itself. Its events are kept
// while it runs, and a while longer, for clients that return to its stream.
import { RecuaError } from '../../errors.js';
import { errorBody, type ErrorBody } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import type { CarriedHeaders } from '../http/inner.js';
import type { Frame } from '../http/stream.js';
import { weighJson } from '../../request/json-weight.js';
import type { Lock } from '../../system/lock-file.js';
import type { Beginning } from './answer.js';
import type { Owner } from '../kept/owner.js';
import type { ResponseStore, StoredResponse, WireResponse } from './store.js';

/** Most waiting and running ones; more are refused. */
const mostUnfinished = 128;
/** Most of those for one API key, or for one address without keys. */
const mostOfOneClient = mostUnfinished / 4;
/** Memory for their bodies and events. */
const mostUnfinishedBytes = 2 ** 27;
/** Memory for completed ones, for clients that return. */
const mostEndedBytes = 2 ** 25;
/** Memory of an event, in addition to its text. */
const bytesPerEvent = 256;
const bytesPerLetter = 2;

export class BackgroundRun implements Beginning {
  readonly response: WireResponse;
  readonly input: readonly object[];
  readonly previous: string | undefined;
  readonly by: string | undefined;
  /** The key, or without keys the address, that it counts towards. */
  readonly who: string;
  /** Held until the end is stored. */
  mark: Lock | undefined;
  /** Resolves when its own request has passed the limits of its key, and counts as running. */
  readonly begun: Promise<void>;
  #begin: () => void = () => undefined;
  #bytes: number;
  readonly #events: Frame[] = [];
  readonly #abort = new AbortController();
  readonly #waiting = new Set<() => void>();
  #now: () => WireResponse;
  #ended: StoredResponse | undefined;
  #isCancelled = false;
  /** A writer produces the answer and reports its end. */
  #isWritten = false;
  #isConcluded = false;

  constructor({ response, input, previous, by }: StoredResponse, bodyBytes: number, who = '') {
    this.#bytes = bodyBytes;
    this.who = who;
    this.response = response;
    this.input = input;
    this.previous = previous;
    this.by = by;
    this.#now = () => response;
    this.begun = new Promise((resolve) => (this.#begin = resolve));
    for (const type of ['response.created', 'response.queued']) this.tell({ event: type, data: { type, sequence_number: this.sequence, response } });
  }

  get sequence(): number {
    return this.#events.length;
  }

  /** Its approximate memory. */
  get bytes(): number {
    return this.#bytes;
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

  begin(): void {
    this.#begin();
  }

  follow(now: () => WireResponse): void {
    this.#isWritten = true;
    this.#now = now;
  }

  tell(frame: Frame): void {
    if (this.#isConcluded) return;
    this.#events.push(this.#held(frame));
    this.#wake();
  }

  /**
   * The event as it is kept, and counted: deltas as text, and the log probabilities in them once
   * more, since the response holds those as objects. All other events share the response's objects.
   */
  #held(frame: Frame): Frame {
    const { event, data } = frame;
    this.#bytes += bytesPerEvent;
    if (!event?.endsWith('.delta')) return frame;
    const text = JSON.stringify(data);
    const { logprobs = [] } = data as { logprobs?: object[] };
    this.#bytes += text.length * bytesPerLetter + (logprobs.length > 0 ? weighJson(Buffer.from(text), 'The event') : 0);
    return { event, data: text };
  }

  /** The last event ends the stream. Events of an answer that is still running are ignored. */
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

  /** Yields the events from that number on, as they arrive, until the last or the abort. */
  async *from(sequence: number, signal: AbortSignal): AsyncGenerator<Frame> {
    for (let at = sequence; !signal.aborted;) {
      if (at < this.#events.length) yield this.#events[at++]!;
      else if (this.#isOver) return;
      else await this.#change(signal);
    }
  }

  /** Resolves when its writer has reported the end. */
  async settled(): Promise<void> {
    while (!this.#ended) await this.#change();
  }

  /** Resolves when it is over and stored. */
  async over(): Promise<void> {
    while (!this.#isOver) await this.#change();
  }

  /** Resolves when something has changed, or at the abort. */
  async #change(signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener('abort', wake);
    });
  }

  #isOver = false;

  /** No further events. */
  close(): void {
    this.#isOver = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

export class BackgroundRuns {
  readonly #gateway: Gateway;
  readonly #store: ResponseStore;
  /** Oldest first, including those that have ended. */
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
   * Stores it as queued and starts it. `who`: the client that it counts towards. `itemBytes`: size
   * of the items that the body refers to.
   * @throws RecuaError `queue_full`; the errors of storing
   */
  async start(stored: StoredResponse, body: object, who: string, itemBytes = 0, carried?: CarriedHeaders): Promise<BackgroundRun> {
    const text = JSON.stringify({ ...body, stream: true });
    // The text with the items, what it echoes, and its own request.
    const held = 4 * (text.length + itemBytes) + 2 * weighJson(Buffer.from(text), 'The request');
    const unfinished = [...this.#runs.values()].filter(({ ended }) => !ended);
    const bytes = unfinished.reduce((sum, run) => sum + run.bytes, 0);
    if (unfinished.length >= mostUnfinished || (unfinished.length > 0 && bytes + held > mostUnfinishedBytes)) {
      throw new RecuaError('queue_full', `${unfinished.length} background responses are waiting or running; wait until some are complete.`);
    }
    const own = unfinished.filter((run) => run.who === who);
    if (own.length >= mostOfOneClient) {
      throw new RecuaError('queue_full', `${own.length} background responses of this client are waiting or running; wait until some are complete.`);
    }
    // From here on, it counts towards the limits.
    const run = new BackgroundRun(stored, held, who);
    this.#runs.set(stored.response.id, run);
    try {
      run.mark = await this.#store.mark(stored.response.id);
      await this.#store.put(stored);
    } catch (thrown) {
      this.drop(stored.response.id);
      await run.mark?.release();
      throw thrown;
    }
    void this.#work(run, text, carried);
    return run;
  }

  /**
   * Stores its end, and forgets a response that another server has deleted.
   * @throws RecuaError `response_not_found`; the errors of storing
   */
  async save(run: BackgroundRun, stored: StoredResponse): Promise<void> {
    try {
      await this.#store.replace({ ...stored, by: run.by }, run.mark!);
    } catch (thrown) {
      if (RecuaError.from(thrown).code === 'response_not_found') this.drop(run.response.id);
      throw thrown;
    }
  }

  async #work(run: BackgroundRun, body: string, carried?: CarriedHeaders): Promise<void> {
    const { id } = run.response;
    const cancelMark = await this.#store.cancelMarkOf(id).catch(() => undefined);
    const unwatch = cancelMark?.watch(() => run.cancel());
    let failure: ErrorBody;
    try {
      const { status, body: reply } = await this.#gateway.inner.ask({ path: '/v1/responses', body, reason: run, by: run.by, client: run.who, carried, signal: run.signal, dropsBody: true });
      failure = status === 200 ? errorBody(new RecuaError('internal_error', 'A background response ended without a result.')) : JSON.parse(reply.toString()) as ErrorBody;
    } catch (thrown) {
      failure = errorBody(new RecuaError('internal_error', `A background response ended without a reply: ${(thrown as Error).message}`, { cause: thrown }));
    }
    // Its writer learns a moment later that the connection was closed.
    if (run.isWritten) await run.settled();
    if (!run.ended) this.#fail(run, failure);
    await this.#keep(run);
    unwatch?.();
    await run.mark?.release().catch(() => undefined);
    await cancelMark?.clear();
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

  /** Stores the result. A successful response was already stored before its last event. */
  async #keep(run: BackgroundRun): Promise<void> {
    const { status } = run.now;
    if (status === 'completed' || status === 'incomplete') return;
    await this.save(run, run.ended!).catch((thrown: unknown) => {
      if (RecuaError.from(thrown).code !== 'response_not_found') this.#gateway.log('warn', `${run.response.id} is not stored: ${RecuaError.logText(thrown)}`);
    });
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
