// Takes in generating requests. Refuses them at once if the queue is full; else prepares them off
// the JavaScript thread (prompt, tokens, sampler) and passes them to the loop, which gives them a
// sequence. Every error before `accepted` is reported here. Called by the engine's loop.
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
  /** The queue is full: returns whether another request gave its place to one of this client. */
  makeRoom(asker: Asker | undefined): boolean;
  /** Queues a prepared request. */
  join(request: Generation): void;
  fail(id: number, error: RecuaError): void;
  /** Preparing a request ended, with or without success. */
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
  /** Cancel flags of the requests being prepared. */
  readonly #preparing = new Map<number, CancelFlag>();

  /** `active`: the loop's requests without an answer yet; undefined while being prepared. */
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

  /** Stops preparing a request that nobody waits for. */
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
      return this.#hooks.fail(id, new RecuaError('queue_full', `The queue is full: ${context.sequences} requests run and ${waiting} wait; try again in a moment.`));
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
