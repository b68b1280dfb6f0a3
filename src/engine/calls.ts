// The requests an engine has been given and not answered: ids, cancelling, and events → answers. What engine/client (over a child
// process) and engine/local (in this process) have in common; how a message reaches the engine is theirs.
import { RecuaError } from '../errors.js';
import { RunningAnswer } from './answer.js';
import type { Answer, Embedded, Engine, EngineState, Reranked } from './api.js';
import type {
  ChatRequest, CompletionRequest, EmbedRequest, EngineEvent, ModelDescription, Question, RerankRequest, SavedState,
} from './protocol.js';

/** A request that the engine has, or will have after a restart. */
export interface Call {
  readonly message: Question;
  begun: boolean;
  /** It waits in the engine process's queue since before a crash: one that crashes it twice is not sent a third time. */
  resent: boolean;
  event(event: EngineEvent): void;
  fail(error: RecuaError): void;
}

export abstract class EngineCalls implements Engine {
  /** In the order of arrival, which is the order of sending again. */
  protected readonly calls = new Map<number, Call>();
  #nextId = 1;

  abstract readonly state: EngineState;
  abstract readonly crashes: number;
  abstract readonly pid: number | undefined;
  abstract ready(): Promise<ModelDescription>;
  abstract close(drainMs?: number): Promise<void>;

  /** Why no request can be taken now; undefined if one can. */
  protected abstract refusal(): RecuaError | undefined;
  /** Hands a call that was just added to the engine; one that cannot be handed over is settled here. */
  protected abstract submit(call: Call): void;
  /** Tells the engine that nobody wants the answer any more. */
  protected abstract withdraw(id: number): void;
  /** A call was added or settled. */
  protected changed(): void {}

  chat(request: ChatRequest, signal?: AbortSignal): Answer {
    return this.#answer((id) => ({ type: 'chat', id, request }), signal);
  }

  complete(request: CompletionRequest, signal?: AbortSignal): Answer {
    return this.#answer((id) => ({ type: 'complete', id, request }), signal);
  }

  embed(request: EmbedRequest, signal?: AbortSignal): Promise<Embedded> {
    return this.#vectors((id) => ({ type: 'embed', id, request }), signal);
  }

  async rerank(request: RerankRequest, signal?: AbortSignal): Promise<Reranked> {
    const { vectors, tokenCounts } = await this.#vectors((id) => ({ type: 'rerank', id, request }), signal);
    // A head with several labels gives several numbers, of which the first is the score, as llama-server has it.
    return { scores: Float32Array.from(vectors, (vector) => vector[0]!), tokenCounts };
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Promise<Int32Array> {
    return this.#ask((id) => ({ type: 'tokenize', id, text, addSpecial, parseSpecial }));
  }

  detokenize(tokens: Int32Array, special: boolean): Promise<string> {
    return this.#ask((id) => ({ type: 'detokenize', id, tokens, special }));
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
    const call = this.calls.get(event.id);
    // Cancelled here already.
    if (!call) return;
    if (event.kind === 'started') call.begun = true;
    if (isLast(event)) this.settle(event.id);
    if (event.kind === 'error') call.fail(RecuaError.fromPlain(event.error));
    else call.event(event);
  }

  protected settle(id: number): Call | undefined {
    const call = this.calls.get(id);
    if (this.calls.delete(id)) this.changed();
    return call;
  }

  protected failAll(error: RecuaError, which: (call: Call) => boolean = () => true): void {
    for (const [id, call] of this.calls) if (which(call)) this.settle(id)?.fail(error);
  }

  /** A request with one result. */
  #ask<T>(message: (id: number) => Question): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#start(message, undefined, reject, (event) => {
        if (event.kind === 'result') resolve(event.value as T);
      });
    });
  }

  #vectors(message: (id: number) => Question, signal: AbortSignal | undefined): Promise<Embedded> {
    return new Promise((resolve, reject) => {
      this.#start(message, signal, reject, (event) => {
        if (event.kind !== 'embedded') return;
        const { vectors, dimensions, tokenCounts } = event;
        const split = Array.from(tokenCounts, (_, i) => vectors.subarray(i * dimensions, (i + 1) * dimensions));
        resolve({ vectors: split, tokenCounts });
      });
    });
  }

  #answer(message: (id: number) => Question, signal: AbortSignal | undefined): Answer {
    let cancel = (): void => {};
    const answer = new RunningAnswer(() => cancel());
    const fail = (error: RecuaError): void => answer.fail(error);
    cancel = this.#start(message, signal, fail, (event) => {
      if (event.kind === 'accepted') answer.accept(event.promptTokens);
      else if (event.kind === 'delta') answer.push(event.delta);
      else if (event.kind === 'done') {
        const { finishReason, usage, timings, seed, warnings = [] } = event;
        answer.end({ finishReason, usage, timings, seed, warnings });
      }
    });
    return answer;
  }

  /** Sends a request, now or after a running restart. Returns what cancels it. */
  #start(make: (id: number) => Question, signal: AbortSignal | undefined, fail: (error: RecuaError) => void, event: (event: EngineEvent) => void): () => void {
    const refusal = signal?.aborted ? cancelled() : this.refusal();
    if (refusal) {
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
    const call: Call = {
      message: make(id),
      begun: false,
      resent: false,
      event: (one) => {
        if (isLast(one)) stopListening();
        event(one);
      },
      fail: (error) => {
        stopListening();
        fail(error);
      },
    };
    this.calls.set(id, call);
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
