// The pending requests of an engine: ids, cancelling, and events → answers. The common base of
// engine/gateway/client (over a child process) and engine/in-process/local (in this process), which
// implement how a message reaches the engine.
import { randomInt } from 'node:crypto';
import { RecuaError } from '../../errors.js';
import { AnswerSoFar } from './answer-so-far.js';
import { RunningAnswer } from './answer.js';
import { checkEvent } from './checked-message.js';
import { gaveWay, whoGivesWay } from '../give-way.js';
import type { Answer, Embedded, Engine, EngineState, Released, Reranked } from '../api.js';
import type {
  Asker, ChatRequest, CompletionRequest, Delta, EmbedRequest, EngineEvent, ModelDescription, Rendered, RequestMessage, RerankRequest, SavedState,
} from '../protocol.js';

/** Longer texts (in characters) are dropped once an engine process has begun to work on them. */
const mostKept = 4 * 2 ** 20;

/** A request that the engine has, or will have after a restart. */
export class PendingRequest {
  readonly id: number;
  readonly type: RequestMessage['type'];
  readonly client: string;
  /** See `Asker`. */
  readonly follows: boolean;
  /** The current engine process has it … */
  sent = false;
  /** … and has accepted the prompt as valid and fitting … */
  accepted = false;
  /** … and has begun its first step. */
  begun = false;
  /** Processes in a row that died while they worked on it, without progress in between. */
  deaths = 0;
  /** Tokens of its answer when the last of them died. */
  lengthAtDeath = 0;
  /** The record of a generating request. */
  readonly soFar: AnswerSoFar | undefined;
  readonly event: (event: EngineEvent) => void;
  readonly fail: (error: RecuaError) => void;
  readonly #released: Released;
  #message: RequestMessage | undefined;
  /** Copies that were sent but still wait for the pipe, in this process. */
  #onTheWay = 0;

  constructor(message: RequestMessage, event: PendingRequest['event'], fail: PendingRequest['fail'], released: Released) {
    this.id = message.id;
    this.type = message.type;
    const { client = '', follows = false }: Partial<Asker> = ('request' in message ? message.request : message as { asker?: Asker }).asker ?? {};
    this.client = client;
    this.follows = follows;
    if (message.type === 'chat' || message.type === 'complete') this.soFar = new AnswerSoFar(message.request);
    this.#message = seeded(message);
    this.event = event;
    this.fail = fail;
    this.#released = released;
  }

  /**
   * Passes the message to `send`, which calls back when no copy is left here. No-op once dropped.
   * Returns why the message cannot be sent, if so.
   */
  deliver(send: (message: RequestMessage, gone: () => void) => void): RecuaError | undefined {
    const message = this.#message;
    if (!message) return undefined;
    // It may have been asked for since the last process died.
    if ('begun' in message && message.begun && this.soFar) message.begun.endsThinking = this.soFar.endsThinking;
    this.sent = true;
    this.#onTheWay++;
    const gone = (): void => {
      this.#onTheWay--;
      this.#tellReleased();
    };
    try {
      send(message, gone);
    } catch (thrown) {
      gone();
      return new RecuaError('invalid_value', `The request cannot be sent to the engine process: ${(thrown as Error).message}`);
    }
    return undefined;
  }

  /** Changes the message for the next engine process, which has to continue the answer. */
  resume(): void {
    const message = this.#message;
    if (!message || !this.soFar) return;
    if (message.type === 'chat' || message.type === 'complete') message.begun = this.soFar.resume();
  }

  /** Undoes `resume`: the next engine process has another model, and begins the answer anew. */
  startOver(): void {
    this.soFar?.startOver();
    if (this.#message && 'begun' in this.#message) this.#message.begun = undefined;
  }

  /** What the request asks for, without asker and seed; undefined once its text is dropped. */
  get asked(): unknown {
    if (!this.#message) return undefined;
    if (!('request' in this.#message)) return { ...this.#message, id: 0, asker: undefined };
    const { request } = this.#message;
    return { ...request, asker: undefined, ...('sampling' in request ? { sampling: { ...request.sampling, seed: undefined } } : {}) };
  }

  /** Its text is kept, so it can be sent again. */
  get isKept(): boolean {
    return this.#message !== undefined;
  }

  /** Drops a long text, since the engine works on it now. */
  dropLong(): void {
    if (this.#message && lengthOf(this.#message) > mostKept) this.drop();
  }

  /** Drops the text: the request will not be sent again. */
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
  /** In order of arrival. */
  protected readonly requests = new Map<number, PendingRequest>();
  #nextId = 1;

  abstract readonly state: EngineState;
  abstract readonly tokensPerSecond: number;
  abstract readonly crashes: number;
  abstract readonly pid: number | undefined;
  abstract ready(): Promise<ModelDescription>;
  abstract close(drainMs?: number): Promise<void>;

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
    // A head with several labels gives several numbers. The first is the score, as in llama-server.
    return { scores: Float32Array.from(vectors, (vector) => vector[0]!), tokenCounts };
  }

  render(request: ChatRequest, signal?: AbortSignal, released?: Released): Promise<Rendered> {
    return this.#ask((id) => ({ type: 'render', id, request }), signal, released);
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, signal?: AbortSignal, asker?: Asker): Promise<Int32Array> {
    return this.#ask((id) => ({ type: 'tokenize', id, text, addSpecial, parseSpecial, asker }), signal);
  }

  detokenize(tokens: Int32Array, special: boolean, signal?: AbortSignal, asker?: Asker): Promise<string> {
    return this.#ask((id) => ({ type: 'detokenize', id, tokens, special, asker }), signal);
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
    const waiting = this.unsent.filter((one) => one !== call && !one.follows && !one.soFar?.hasStarted);
    const counts = new Map<string, number>();
    for (const { client } of waiting) counts.set(client, (counts.get(client) ?? 0) + 1);
    const greediest = whoGivesWay(counts, call.client);
    const last = greediest === undefined ? undefined : waiting.findLast(({ client }) => client === greediest);
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
      call.begun = true;
      call.soFar?.started();
      call.dropLong();
    }
    if (event.kind === 'error') call.fail(RecuaError.fromPlain(event.error));
    else if (event.kind === 'done' && call.soFar?.isShorter) call.fail(differs());
    else if (event.kind === 'delta' && call.soFar) this.#tell(call, event.id, call.soFar.take(event.delta));
    else call.event(event);
    // At the end: if the event cannot be used, the call is still pending.
    if (isLast(event)) this.settle(event.id);
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

  /** An answer has more tokens. */
  protected progressed(_call: PendingRequest): void {}

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
      const call = known === undefined ? undefined : this.requests.get(known);
      if (call?.soFar) call.soFar.endsThinking = true;
      if (call) this.endThinking(call.id);
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

  /** Sends a request, now or after a restart. Returns the function that cancels it. */
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

/**
 * Sets a seed, so that another engine process draws the same random numbers. The largest 32-bit
 * seed means "random", so it is never chosen.
 */
function seeded(message: RequestMessage): RequestMessage {
  if ((message.type !== 'chat' && message.type !== 'complete') || message.request.sampling.seed !== undefined) return message;
  const sampling = { ...message.request.sampling, seed: randomInt(0xffff_ffff) };
  return { ...message, request: { ...message.request, sampling } } as RequestMessage;
}

function lengthOf(message: RequestMessage): number {
  switch (message.type) {
    case 'chat': return message.request.messages.length + message.request.tools.length;
    case 'complete': return message.request.prompt.length;
    case 'embed': return message.request.inputs.reduce((sum, { length }) => sum + length, 0);
    case 'rerank': return message.request.documents.reduce((sum, { length }) => sum + length, 0);
    default: return 0;
  }
}

/** Whether a request is about the KV of the process that it was sent to. */
export function isAboutKv(type: PendingRequest['type']): boolean {
  return type === 'save' || type === 'restore' || type === 'forget';
}

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
