// Takes in generating requests. Refuses them at once if the queue is full; else prepares them off
// the JavaScript thread (prompt, tokens, sampler) and passes them to the loop, which gives them a
// sequence. Every error before `accepted` is reported here. Called by the engine's loop.
import type { CancelFlag, NativeAddon } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { notGenerating } from '../capabilities.js';
import type { Asker, BegunAnswer, ChatRequest, CompletionRequest } from '../protocol.js';
import { Sequence } from '../planning/sequence.js';
import { newCancelFlag } from '../prompts/cancel-flag.js';
import { prepareChat, prepareCompletion, type PreparedPrompt, type Preparing } from '../prompts/chat.js';
import { hasLargeSampler, PoolShare, takesLong } from '../prompts/pool-share.js';
import type { ActiveRequests } from './active-requests.js';
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

/** Prepared requests with large samplers that may wait for a sequence. */
const mostWaitingLarge = 2;

export class Intake {
  readonly #addon: NativeAddon;
  readonly #loaded: LoadedModel;
  readonly #active: ActiveRequests;
  readonly #arrivals: Arrivals;
  readonly #poolShare: PoolShare;
  /** Those that run and a few that wait may have large samplers; the others are prepared later. */
  readonly #largeSamplers: PoolShare;
  readonly #hooks: IntakeHooks;
  /** Whether samplers guess ahead. */
  readonly #guesses: boolean;
  /** Cancel flags of the requests being prepared. */
  readonly #preparing = new Map<number, CancelFlag>();

  constructor(
    addon: NativeAddon, loaded: LoadedModel, active: ActiveRequests, arrivals: Arrivals, poolShare: PoolShare, guesses: boolean,
    hooks: IntakeHooks,
  ) {
    this.#addon = addon;
    this.#loaded = loaded;
    this.#active = active;
    this.#arrivals = arrivals;
    this.#poolShare = poolShare;
    this.#largeSamplers = new PoolShare((loaded.context?.sequences ?? 0) + mostWaitingLarge);
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
    const cancelled = newCancelFlag();
    this.#active.set(id, undefined);
    this.#preparing.set(id, cancelled);
    this.#arrivals.came();
    let leave: (() => void) | undefined;
    try {
      if (hasLargeSampler(request)) {
        const end = await this.#largeSamplers.enter();
        if (!this.#active.has(id)) return end();
        this.#active.whenEnded(id, end);
      }
      leave = takesLong(request) ? await this.#poolShare.enter() : undefined;
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
