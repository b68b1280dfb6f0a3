// The pending requests of an engine: ids, cancelling, and events → answers. The common base of
// engine/gateway/client (over a child process) and engine/in-process/local (in this process), which
// implement how a message reaches the engine.
import { RecuaError } from '../../errors.js';
import { RunningAnswer } from './answer.js';
import { PendingRequest, type Lent } from './pending-request.js';
import { checkEvent } from './checked-message.js';
import { gaveWay, givingWay } from '../give-way.js';
import type { Answer, Embedded, Engine, EngineState, Released, Reranked } from '../api.js';
import type {
  Asker,
  ChatRequest,
  CompletionRequest,
  Delta,
  EmbedRequest,
  EngineEvent,
  ModelDescription,
  Rendered,
  RequestMessage,
  RerankRequest,
  SavedState,
} from '../protocol.js';

export abstract class EngineRequests implements Engine {
  /** In order of arrival. */
  protected readonly requests = new Map<number, PendingRequest>();
  #nextId = 1;
  #recalls = false;

  abstract readonly state: EngineState;
  abstract readonly tokensPerSecond: number;
  abstract readonly crashes: number;
  abstract readonly pid: number | undefined;
  abstract ready(): Promise<ModelDescription>;
  abstract close(drainMs?: number, sleeps?: boolean): Promise<void>;

  /** Why no request can be accepted now; undefined if one can. */
  protected abstract refusal(): RecuaError | undefined;
  /** Sends a new call to the engine, or settles it if that is impossible. */
  protected abstract submit(call: PendingRequest): void;
  /** Keeps a call for the next process, as far as the queue has room. */
  protected keep(_call: PendingRequest): void {}
  /** Cancels the request in the engine. */
  protected abstract withdraw(id: number): void;
  protected abstract endThinking(id: number): void;
  /** A call was added or settled. */
  protected changed(): void {}

  protected get working(): number {
    return [...this.requests.values()].filter(({ evaluates }) => evaluates).length;
  }

  chat(request: ChatRequest, signal?: AbortSignal, released?: Released, lent?: Lent): Answer {
    return this.#answer((id) => ({ type: 'chat', id, request }), signal, released, lent);
  }

  complete(request: CompletionRequest, signal?: AbortSignal, released?: Released, lent?: Lent): Answer {
    return this.#answer((id) => ({ type: 'complete', id, request }), signal, released, lent);
  }

  embed(request: EmbedRequest, signal?: AbortSignal, released?: Released, lent?: Lent): Promise<Embedded> {
    return this.#vectors((id) => ({ type: 'embed', id, request }), signal, released, lent);
  }

  async rerank(request: RerankRequest, signal?: AbortSignal, released?: Released, lent?: Lent): Promise<Reranked> {
    const { vectors, tokenCounts } = await this.#vectors((id) => ({ type: 'rerank', id, request }), signal, released, lent);
    // A head with several labels gives several numbers. The first is the score, as in llama-server.
    return { scores: Float32Array.from(vectors, (vector) => vector[0]!), tokenCounts };
  }

  render(request: ChatRequest, signal?: AbortSignal, released?: Released, lent?: Lent): Promise<Rendered> {
    return this.#ask((id) => ({ type: 'render', id, request }), signal, released, lent);
  }

  tokenize(
    text: string, addSpecial: boolean, parseSpecial: boolean, signal?: AbortSignal, asker?: Asker, lent?: Lent,
  ): Promise<Int32Array> {
    return this.#ask((id) => ({ type: 'tokenize', id, text, addSpecial, parseSpecial, asker }), signal, undefined, lent);
  }

  detokenize(tokens: Int32Array, special: boolean, signal?: AbortSignal, asker?: Asker, lent?: Lent): Promise<string> {
    return this.#ask((id) => ({ type: 'detokenize', id, tokens, special, asker }), signal, undefined, lent);
  }

  pieces(tokens: Int32Array, lent?: Lent): Promise<Uint8Array[]> {
    return this.#ask((id) => ({ type: 'pieces', id, tokens }), undefined, undefined, lent);
  }

  saveState(path: string): Promise<SavedState> {
    return this.#ask((id) => ({ type: 'save', id, path }));
  }

  restoreState(path: string): Promise<SavedState> {
    return this.#ask((id) => ({ type: 'restore', id, path }));
  }

  async forget(): Promise<void> {
    await this.#ask((id) => ({ type: 'forget', id }));
  }

  /**
   * From now on, what the engine has not begun of requests that have the model lent goes to its
   * next engine. Called when the model has to leave for another.
   */
  recall(all: Iterable<Lent>): void {
    this.#recalls = true;
    const calls = [...all].flatMap((lent) => [...lent.calls]);
    for (const call of calls.filter(({ mayMove }) => mayMove)) {
      this.requests.delete(call.id);
      if (call.sent) this.withdraw(call.id);
      call.move();
    }
    this.changed();
  }

  /** Requests may wait here again. */
  endRecall(): void {
    this.#recalls = false;
  }

  /** What the engine does not have yet, in the order of sending: answers that ran come first. */
  protected get unsent(): PendingRequest[] {
    const unsent = [...this.requests.values()].filter(({ sent }) => !sent);
    const ran = ({ soFar }: PendingRequest): boolean => soFar?.hasStarted ?? false;
    return [...unsent.filter(ran), ...unsent.filter((call) => !ran(call))];
  }

  /**
   * Makes room in a full queue for a new call, by one that waits for an engine process and has not
   * run. Returns whether it did.
   */
  protected makeRoom(call: PendingRequest): boolean {
    const last = givingWay(call, this.unsent.filter((one) => one !== call && !one.follows && !one.soFar?.hasStarted)).at(-1);
    if (!last) return false;
    this.settle(last.id)?.fail(gaveWay());
    return true;
  }

  /** Passes an event of the engine to its call. */
  protected dispatch(event: EngineEvent): void {
    const call = this.requests.get(event.id);
    // It was cancelled here.
    if (!call) return;
    checkEvent(call.type, event);
    if (event.kind === 'error' && event.error.code === 'shutting_down' && this.refusal()?.code !== 'shutting_down') {
      // Somebody else ends the process, by SIGTERM. The next one gets the request.
      call.sent = call.accepted = false;
      return this.keep(call);
    }
    if (event.kind === 'accepted') {
      call.accepted = true;
      call.soFar?.accepted(event.prompt);
    }
    if (event.kind === 'started') {
      call.begin();
      call.soFar?.started();
      call.dropLong();
    }
    if (event.kind === 'error') call.fail(RecuaError.fromPlain(event.error));
    else if (event.kind === 'done' && call.soFar?.isShorter) call.fail(differs());
    else if (event.kind === 'delta' && call.soFar) this.#tell(call, event.id, call.soFar.take(event.delta));
    else call.event(event);
    // At the end: if the event cannot be used, the call is still pending.
    if (!isLast(event)) return;
    if (event.kind !== 'error') this.survived(call);
    this.settle(event.id);
  }

  #tell(call: PendingRequest, id: number, delta: Delta | 'differs' | undefined): void {
    if (delta === undefined) return;
    if (delta !== 'differs') return call.event({ id, kind: 'delta', delta });
    this.settle(id);
    this.withdraw(id);
    call.fail(differs());
  }

  /** Notes the tokens of answers, in the protocol's list format. */
  protected note(generated: Int32Array): void {
    for (let at = 0; at < generated.length;) {
      const [id, draws, count] = generated.subarray(at, at + 3) as unknown as [number, number, number];
      at += 3;
      if (count < 0) throw new Error(`Expected a number of tokens, got ${count}.`);
      const call = this.requests.get(id);
      call?.soFar?.note(generated.subarray(at, at + count), draws);
      if (call) this.progressed(call);
      at += count;
    }
  }

  /** The engine has done all of the request. */
  protected survived(_call: PendingRequest): void {}

  /** An answer has more tokens. */
  protected progressed(_call: PendingRequest): void {}

  protected settle(id: number): PendingRequest | undefined {
    const call = this.requests.get(id);
    if (this.requests.delete(id)) this.changed();
    call?.drop();
    call?.left();
    return call;
  }

  protected failAll(error: RecuaError, which: (call: PendingRequest) => boolean = () => true): void {
    for (const [id, call] of this.requests) if (which(call)) this.settle(id)?.fail(error);
  }

  /** A request with one result. */
  #ask<T>(message: (id: number) => RequestMessage, signal?: AbortSignal, released?: Released, lent?: Lent): Promise<T> {
    return new Promise((resolve, reject) => {
      this.startCall(
        message,
        signal,
        released,
        reject,
        (event) => {
          if (event.kind === 'result') resolve(event.value as T);
        },
        lent,
      );
    });
  }

  #vectors(message: (id: number) => RequestMessage, signal?: AbortSignal, released?: Released, lent?: Lent): Promise<Embedded> {
    return new Promise((resolve, reject) => {
      this.startCall(
        message,
        signal,
        released,
        reject,
        (event) => {
          if (event.kind !== 'embedded') return;
          const { vectors, dimensions, tokenCounts } = event;
          const split = Array.from(tokenCounts, (_, i) => vectors.subarray(i * dimensions, (i + 1) * dimensions));
          resolve({ vectors: split, tokenCounts });
        },
        lent,
      );
    });
  }

  #answer(message: (id: number) => RequestMessage, signal?: AbortSignal, released?: Released, lent?: Lent): Answer {
    let cancel = (): void => {};
    let known: { id: number; engine: EngineRequests } | undefined;
    let endsThinking = false;
    const endThinking = (): void => {
      endsThinking = true;
      const call = known?.engine.requests.get(known.id);
      if (call?.soFar) call.soFar.endsThinking = true;
      if (call) known!.engine.endThinking(call.id);
    };
    const answer = new RunningAnswer(() => cancel(), endThinking);
    const fail = (error: RecuaError): void => answer.fail(error);
    const make = (id: number, engine: EngineRequests): RequestMessage => {
      known = { id, engine };
      return message(id);
    };
    cancel = this.startCall(
      make,
      signal,
      released,
      fail,
      (event) => {
        if (event.kind === 'accepted') {
          answer.accept(event.promptTokens, event.position);
          // It was said to another engine.
          if (endsThinking) endThinking();
        } else if (event.kind === 'delta') answer.push(event.delta);
        else if (event.kind === 'done') {
          const { finishReason, usage, timings, seed, stop, warnings = [] } = event;
          answer.end({ finishReason, usage, timings, seed, stop, warnings });
        }
      },
      lent,
    );
    return answer;
  }

  /** In a scope of its own, so that nothing else holds the text, which `make` has. */
  static #starting(...call: Parameters<EngineRequests['startCall']>): (engine: EngineRequests) => () => void {
    return (engine) => engine.startCall(...call);
  }

  /** Sends a request, now or after a restart. Returns the function that cancels it. */
  private startCall(
    make: (id: number, engine: EngineRequests) => RequestMessage,
    signal: AbortSignal | undefined,
    released: Released = () => {},
    fail: (error: RecuaError) => void,
    event: (event: EngineEvent) => void,
    lent?: Lent,
  ): () => void {
    const refusal = signal?.aborted ? cancelled() : lent?.isMoving ? undefined : this.refusal();
    if (refusal) {
      released();
      fail(refusal);
      return () => {};
    }
    let cancelNow = (): void => {
      const call = this.settle(id);
      if (!call) return;
      call.fail(cancelled());
      this.withdraw(id);
    };
    const cancel = (): void => cancelNow();
    const stopListening = (): void => signal?.removeEventListener('abort', cancel);
    signal?.addEventListener('abort', cancel, { once: true });
    const replace = (other: () => void): void => void (cancelNow = other);
    const again =
      lent &&
      movingOn(
        lent,
        EngineRequests.#starting(make, signal, released, fail, event, lent),
        (error) => {
          released();
          fail(error);
        },
        stopListening,
        replace,
      );
    if (again && (lent.isMoving || this.#recalls)) {
      again();
      return cancel;
    }
    const id = this.#nextId++;
    const call = new PendingRequest(
      make(id, this),
      (one) => {
        if (isLast(one)) stopListening();
        event(one);
      },
      (error) => {
        stopListening();
        fail(error);
      },
      released,
      again && { lent, again },
    );
    this.requests.set(id, call);
    this.changed();
    this.submit(call);
    return cancel;
  }
}

/**
 * Starts a call in the next engine of its model. `start` returns what cancels it there, `replace`
 * takes what cancels it now.
 */
function movingOn(
  lent: Lent,
  start: (engine: EngineRequests) => () => void,
  fail: (error: RecuaError) => void,
  stopListening: () => void,
  replace: (cancel: () => void) => void,
): () => void {
  return () => {
    let isOver = false;
    const end = (error: RecuaError): void => {
      if (isOver) return;
      isOver = true;
      stopListening();
      fail(error);
    };
    replace(() => end(cancelled()));
    lent.next().then(
      (engine) => {
        if (isOver) return;
        stopListening();
        replace(start(engine));
      },
      (thrown: unknown) => end(RecuaError.from(thrown)),
    );
  };
}

export type { PendingRequest };

function cancelled(): RecuaError {
  return new RecuaError('cancelled', 'The request was cancelled.');
}

function differs(): RecuaError {
  return new RecuaError('model_crashed', 'The engine process died while it worked on this request, and the answer came out different when it was generated again.');
}

/** Whether this event is the last one of its request. */
function isLast(event: EngineEvent): boolean {
  return event.kind !== 'accepted' && event.kind !== 'started' && event.kind !== 'delta';
}
