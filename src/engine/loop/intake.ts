// How a request that generates comes in: refused at once where there is no place for it, else
// prepared off-thread (prompt, tokens, sampler) and handed to the loop, which gives it a sequence.
// Every error before `accepted` ends here. Called by the engine's loop.
import type { CancelFlag, NativeAddon } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { notGenerating } from '../capabilities.js';
import type { Asker, BegunAnswer, ChatRequest, CompletionRequest } from '../protocol.js';
import { Sequence } from '../planning/sequence.js';
import { prepareChat, prepareCompletion, type PreparedPrompt, type Preparing } from '../prompts/chat.js';
import { takesLong, type PoolShare } from '../prompts/pool-share.js';
import type { Arrivals } from './arrivals.js';
import { Generation } from './generation.js';
import type { LoadedModel } from './loaded.js';

/** What the loop does with requests. */
export interface IntakeHooks {
  /** The queue is full: whether another gave its place to a request of this client. */
  makeRoom(asker: Asker | undefined): boolean;
  /** Queues one that has been prepared. */
  join(request: Generation): void;
  fail(id: number, error: RecuaError): void;
  /** A request was prepared, or will never be. */
  done(): void;
}

export class Intake {
  readonly #addon: NativeAddon;
  readonly #loaded: LoadedModel;
  readonly #active: Map<number, Generation | undefined>;
  readonly #arrivals: Arrivals;
  readonly #poolShare: PoolShare;
  readonly #hooks: IntakeHooks;
  /** Whether samplers guess ahead. */
  readonly #guesses: boolean;
  /** Of those being prepared, what tells the work off-thread that nobody waits for it. */
  readonly #preparing = new Map<number, CancelFlag>();

  /**
   * `active` are the loop's requests, taken and not answered; one that is being prepared is there
   * as undefined.
   */
  constructor(
    addon: NativeAddon, loaded: LoadedModel, active: Map<number, Generation | undefined>, arrivals: Arrivals, poolShare: PoolShare, guesses: boolean,
    hooks: IntakeHooks,
  ) {
    this.#addon = addon;
    this.#loaded = loaded;
    this.#active = active;
    this.#arrivals = arrivals;
    this.#poolShare = poolShare;
    this.#guesses = guesses;
    this.#hooks = hooks;
  }

  chat(id: number, request: ChatRequest, begun?: BegunAnswer): void {
    void this.#start(id, request, begun, (preparing) => prepareChat(preparing, this.#loaded.options.chatTemplate, request));
  }

  complete(id: number, request: CompletionRequest, begun?: BegunAnswer): void {
    void this.#start(id, request, begun, (preparing) => prepareCompletion(this.#addon, preparing, request));
  }

  /** Nobody waits for the request: what is done for it ends soon. */
  cancel(id: number): void {
    this.#preparing.get(id)?.fill(1);
  }

  async #start(
    id: number, request: ChatRequest | CompletionRequest, begun: BegunAnswer | undefined, prepare: (preparing: Preparing) => Promise<PreparedPrompt>,
  ): Promise<void> {
    const arrivedMs = performance.now();
    const { context, model, options } = this.#loaded;
    const refusal = notGenerating(this.#loaded.description);
    if (refusal || !context) return this.#hooks.fail(id, refusal ?? new RecuaError('closed', 'The model is closed.'));
    if (this.#active.size >= context.sequences + options.queueSize && !this.#hooks.makeRoom(request.asker)) {
      const waiting = this.#active.size - context.sequences;
      return this.#hooks.fail(id, new RecuaError('queue_full', `${context.sequences} requests run and ${waiting} wait already; try again in a moment.`));
    }
    const cancelled = new Int32Array(1);
    this.#active.set(id, undefined);
    this.#preparing.set(id, cancelled);
    this.#arrivals.came();
    const leave = takesLong(request) ? await this.#poolShare.enter() : undefined;
    try {
      if (!this.#active.has(id)) return;
      const prepared = await prepare({ model, contextSize: context.contextSize, cancelled, guesses: this.#guesses });
      if (begun && begun.tokens.length > 0) await prepared.sampler.resume(begun.tokens, begun.draws);
      if (begun?.endsThinking) prepared.sampler.endThinking();
      if (this.#active.has(id)) {
        const sequence = new Sequence(begun?.prompt ?? prepared.tokens, request.maxTokens, context.contextSize, request.tells?.prompt, request.asker?.salt);
        const generation = new Generation(id, sequence, prepared, arrivedMs, request.asker);
        if (begun) generation.resume(begun, this.#loaded.pieces.flags, performance.now());
        this.#hooks.join(generation);
      } else {
        prepared.sampler.close();
        prepared.parser.close();
      }
    } catch (error) {
      if (this.#active.has(id)) this.#hooks.fail(id, RecuaError.from(error));
    } finally {
      leave?.();
      this.#preparing.delete(id);
      this.#arrivals.prepared();
      this.#hooks.done();
    }
  }
}
