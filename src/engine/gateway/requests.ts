// The requests an engine has been given and not answered: ids, cancelling, and events → answers.
// What engine/gateway/client (over a child process) and engine/in-process/local (in this process)
// have in common; how a message reaches the engine is theirs.
import { RecuaError } from '../../errors.js';
import { RunningAnswer } from './answer.js';
import type { Answer, Embedded, Engine, EngineState, Released, Reranked } from '../api.js';
import type {
  ChatRequest, CompletionRequest, EmbedRequest, EngineEvent, ModelDescription, Rendered, RequestMessage, RerankRequest, SavedState,
} from '../protocol.js';

/** A request that the engine has, or will have after a restart. */
export class PendingRequest {
  readonly id: number;
  readonly type: RequestMessage['type'];
  /** The prompt is sound and fits. */
  accepted = false;
  /** Its first step has begun: it is not sent again. */
  begun = false;
  /**
   * It waits in the engine process's queue since before a crash: one that crashes it twice is not
   * sent a third time.
   */
  resent = false;
  readonly event: (event: EngineEvent) => void;
  readonly fail: (error: RecuaError) => void;
  readonly #released: Released;
  #message: RequestMessage | undefined;
  /** Sent and still in this process, waiting for the pipe to take it. */
  #onTheWay = 0;

  constructor(message: RequestMessage, event: PendingRequest['event'], fail: PendingRequest['fail'], released: Released) {
    this.id = message.id;
    this.type = message.type;
    this.#message = message;
    this.event = event;
    this.fail = fail;
    this.#released = released;
  }

  /**
   * Gives the message to `send`, which calls back when no copy is left here. Nothing happens once
   * it is dropped.
   */
  deliver(send: (message: RequestMessage, gone: () => void) => void): void {
    if (!this.#message) return;
    this.#onTheWay++;
    send(this.#message, () => {
      this.#onTheWay--;
      this.#tellReleased();
    });
  }

  /** It is not sent again: the text goes. */
  drop(): void {
    if (!this.#message) return;
    this.#message = undefined;
    this.#tellReleased();
  }

  #tellReleased(): void {
    if (!this.#message && this.#onTheWay === 0) this.#released();
  }
}

export abstract class EngineRequests implements Engine {
  /** In the order of arrival, which is the order of sending again. */
  protected readonly requests = new Map<number, PendingRequest>();
  #nextId = 1;

  abstract readonly state: EngineState;
  abstract readonly tokensPerSecond: number;
  abstract readonly crashes: number;
  abstract readonly pid: number | undefined;
  abstract ready(): Promise<ModelDescription>;
  abstract close(drainMs?: number): Promise<void>;

  /** Why no request can be taken now; undefined if one can. */
  protected abstract refusal(): RecuaError | undefined;
  /**
   * Hands a call that was just added to the engine; one that cannot be handed over is settled here.
   */
  protected abstract submit(call: PendingRequest): void;
  /** Tells the engine that nobody wants the answer any more. */
  protected abstract withdraw(id: number): void;
  protected abstract endThinking(id: number): void;
  /** A call was added or settled. */
  protected changed(): void {}

  chat(request: ChatRequest, signal?: AbortSignal, released?: Released): Answer {
    return this.#answer((id) => ({ type: 'chat', id, request }), signal, released);
  }

  complete(request: CompletionRequest, signal?: AbortSignal, released?: Released): Answer {
    return this.#answer((id) => ({ type: 'complete', id, request }), signal, released);
  }

  embed(request: EmbedRequest, signal?: AbortSignal, released?: Released): Promise<Embedded> {
    return this.#vectors((id) => ({ type: 'embed', id, request }), signal, released);
  }

  async rerank(request: RerankRequest, signal?: AbortSignal, released?: Released): Promise<Reranked> {
    const { vectors, tokenCounts } = await this.#vectors((id) => ({ type: 'rerank', id, request }), signal, released);
    // A head with several labels gives several numbers, of which the first is the score, as
    // llama-server has it.
    return { scores: Float32Array.from(vectors, (vector) => vector[0]!), tokenCounts };
  }

  render(request: ChatRequest, signal?: AbortSignal, released?: Released): Promise<Rendered> {
    return this.#ask((id) => ({ type: 'render', id, request }), signal, released);
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Promise<Int32Array> {
    return this.#ask((id) => ({ type: 'tokenize', id, text, addSpecial, parseSpecial }));
  }

  detokenize(tokens: Int32Array, special: boolean): Promise<string> {
    return this.#ask((id) => ({ type: 'detokenize', id, tokens, special }));
  }

  pieces(tokens: Int32Array): Promise<Uint8Array[]> {
    return this.#ask((id) => ({ type: 'pieces', id, tokens }));
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

  /** An event of the engine, to the call it is for. */
  protected dispatch(event: EngineEvent): void {
    const call = this.requests.get(event.id);
    // Cancelled here already.
    if (!call) return;
    if (event.kind === 'accepted') call.accepted = true;
    if (event.kind === 'started') {
      call.begun = true;
      call.drop();
    }
    if (isLast(event)) this.settle(event.id);
    if (event.kind === 'error') call.fail(RecuaError.fromPlain(event.error));
    else call.event(event);
  }

  protected settle(id: number): PendingRequest | undefined {
    const call = this.requests.get(id);
    if (this.requests.delete(id)) this.changed();
    call?.drop();
    return call;
  }

  protected failAll(error: RecuaError, which: (call: PendingRequest) => boolean = () => true): void {
    for (const [id, call] of this.requests) if (which(call)) this.settle(id)?.fail(error);
  }

  /** A request with one result. */
  #ask<T>(message: (id: number) => RequestMessage, signal?: AbortSignal, released?: Released): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#start(message, signal, released, reject, (event) => {
        if (event.kind === 'result') resolve(event.value as T);
      });
    });
  }

  #vectors(message: (id: number) => RequestMessage, signal: AbortSignal | undefined, released: Released | undefined): Promise<Embedded> {
    return new Promise((resolve, reject) => {
      this.#start(message, signal, released, reject, (event) => {
        if (event.kind !== 'embedded') return;
        const { vectors, dimensions, tokenCounts } = event;
        const split = Array.from(tokenCounts, (_, i) => vectors.subarray(i * dimensions, (i + 1) * dimensions));
        resolve({ vectors: split, tokenCounts });
      });
    });
  }

  #answer(message: (id: number) => RequestMessage, signal: AbortSignal | undefined, released: Released | undefined): Answer {
    let cancel = (): void => {};
    let known: number | undefined;
    const answer = new RunningAnswer(() => cancel(), () => {
      if (known !== undefined && this.requests.has(known)) this.endThinking(known);
    });
    const fail = (error: RecuaError): void => answer.fail(error);
    cancel = this.#start((id) => message(known = id), signal, released, fail, (event) => {
      if (event.kind === 'accepted') answer.accept(event.promptTokens, event.position);
      else if (event.kind === 'delta') answer.push(event.delta);
      else if (event.kind === 'done') {
        const { finishReason, usage, timings, seed, stop, warnings = [] } = event;
        answer.end({ finishReason, usage, timings, seed, stop, warnings });
      }
    });
    return answer;
  }

  /** Sends a request, now or after a running restart. Returns what cancels it. */
  #start(
    make: (id: number) => RequestMessage, signal: AbortSignal | undefined, released: Released = () => {},
    fail: (error: RecuaError) => void, event: (event: EngineEvent) => void,
  ): () => void {
    const refusal = signal?.aborted ? cancelled() : this.refusal();
    if (refusal) {
      released();
      fail(refusal);
      return () => {};
    }
    const id = this.#nextId++;
    const cancel = (): void => {
      const call = this.settle(id);
      if (!call) return;
      call.fail(cancelled());
      this.withdraw(id);
    };
    const stopListening = (): void => signal?.removeEventListener('abort', cancel);
    signal?.addEventListener('abort', cancel, { once: true });
    const call = new PendingRequest(make(id), (one) => {
      if (isLast(one)) stopListening();
      event(one);
    }, (error) => {
      stopListening();
      fail(error);
    }, released);
    this.requests.set(id, call);
    this.changed();
    this.submit(call);
    return cancel;
  }
}

function cancelled(): RecuaError {
  return new RecuaError('cancelled', 'The request was cancelled.');
}

/** Whether a request is answered by this event. */
function isLast(event: EngineEvent): boolean {
  return event.kind !== 'accepted' && event.kind !== 'started' && event.kind !== 'delta';
}
