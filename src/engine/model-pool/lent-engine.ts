// A model's engine as one request of a pool has it. If the model has to leave for another, the
// engine ends what it has begun of the request. If something is left, the request then gives the
// model back, asks for it again, and goes on in the model's next engine. Questions, such as the
// tokens of a text, begin anew there. Used by pool.
import type { Answer, Embedded, Engine, EngineState, Released, Reranked } from '../api.js';
import type {
  Asker, ChatRequest, CompletionRequest, EmbedRequest, ModelDescription, Rendered, RerankRequest, SavedState,
} from '../protocol.js';
import type { Lent, PendingRequest } from '../gateway/pending-request.js';
import type { EngineRequests } from '../gateway/requests.js';

export class LentEngine implements Engine, Lent {
  readonly calls = new Set<PendingRequest>();
  #engine: EngineRequests;
  readonly #askAgain: () => Promise<EngineRequests>;
  #moving: Promise<EngineRequests> | undefined;
  #goOn = (_stays: boolean): void => undefined;

  /** `askAgain` gives the model back, and resolves to the engine when the request has it again. */
  constructor(engine: EngineRequests, askAgain: () => Promise<EngineRequests>) {
    this.#engine = engine;
    this.#askAgain = askAgain;
  }

  get isMoving(): boolean {
    return this.#moving !== undefined;
  }

  next(): Promise<EngineRequests> {
    return (this.#moving ??= this.#move());
  }

  async #move(): Promise<EngineRequests> {
    const stays = this.calls.size > 0 && await new Promise<boolean>((resolve) => { this.#goOn = resolve; });
    if (!stays) this.#engine = await this.#askAgain();
    this.#moving = undefined;
    return this.#engine;
  }

  left(call: PendingRequest): void {
    this.calls.delete(call);
    if (this.calls.size === 0) this.#goOn(false);
  }

  /** The model need not leave after all: what waits for the calls here goes on here. */
  stay(): void {
    this.#goOn(true);
  }

  get state(): EngineState {
    return this.#engine.state;
  }

  get tokensPerSecond(): number {
    return this.#engine.tokensPerSecond;
  }

  get crashes(): number {
    return this.#engine.crashes;
  }

  get pid(): number | undefined {
    return this.#engine.pid;
  }

  chat(request: ChatRequest, signal?: AbortSignal, released?: Released): Answer {
    return this.#engine.chat(request, signal, released, this);
  }

  complete(request: CompletionRequest, signal?: AbortSignal, released?: Released): Answer {
    return this.#engine.complete(request, signal, released, this);
  }

  embed(request: EmbedRequest, signal?: AbortSignal, released?: Released): Promise<Embedded> {
    return this.#engine.embed(request, signal, released, this);
  }

  rerank(request: RerankRequest, signal?: AbortSignal, released?: Released): Promise<Reranked> {
    return this.#engine.rerank(request, signal, released, this);
  }

  async ready(): Promise<ModelDescription> {
    return await (await this.#now()).ready();
  }

  render(request: ChatRequest, signal?: AbortSignal, released?: Released): Promise<Rendered> {
    return this.#engine.render(request, signal, released, this);
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, signal?: AbortSignal, asker?: Asker): Promise<Int32Array> {
    return this.#engine.tokenize(text, addSpecial, parseSpecial, signal, asker, this);
  }

  detokenize(tokens: Int32Array, special: boolean, signal?: AbortSignal, asker?: Asker): Promise<string> {
    return this.#engine.detokenize(tokens, special, signal, asker, this);
  }

  pieces(tokens: Int32Array): Promise<Uint8Array[]> {
    return this.#engine.pieces(tokens, this);
  }

  async saveState(path: string): Promise<SavedState> {
    return await (await this.#now()).saveState(path);
  }

  async restoreState(path: string): Promise<SavedState> {
    return await (await this.#now()).restoreState(path);
  }

  async forget(): Promise<void> {
    await (await this.#now()).forget();
  }

  async close(drainMs?: number, sleeps?: boolean): Promise<void> {
    await this.#engine.close(drainMs, sleeps);
  }

  async #now(): Promise<EngineRequests> {
    return await this.#moving ?? this.#engine;
  }
}
