// Takes in generating requests. Refuses them at once if the queue is full; else prepares them off
// the JavaScript thread (prompt, tokens, sampler) and passes them to the loop, which gives them a
// sequence. Every error before `accepted` is reported here. Called by the engine's loop.
import type { CancelFlag, NativeAddon } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { notGenerating } from '../capabilities.js';
import { gaveWay, givingWay } from '../give-way.js';
import type { Asker, BegunAnswer, ChatRequest, CompletionRequest } from '../protocol.js';
import { anyone } from '../planning/fair-order.js';
import { Sequence } from '../planning/sequence.js';
import { newCancelFlag } from '../prompts/cancel-flag.js';
import { prepareChat, prepareCompletion, type PreparedPrompt, type Preparing } from '../prompts/chat.js';
import { hasLargeSampler, PoolShare, takesLong } from '../prompts/pool-share.js';
import type { ActiveRequests } from './active-requests.js';
import type { Arrivals } from './arrivals.js';
import { Generation } from './generation.js';
import type { LoadedModel } from './loaded.js';
import type { WaitingQueue } from './waiting-queue.js';

/** What the loop does with requests. */
export interface IntakeHooks {
  /** Prepared requests that wait for a sequence. */
  waiting: WaitingQueue;
  /** Settles when the chats of the model's earlier process are known; never rejects. */
  opened: Promise<void> | undefined;
  /** Queues a prepared request. */
  join(request: Generation): void;
  fail(id: number, error: RecuaError): void;
  /** Preparing a request ended, with or without success. */
  done(): void;
}

interface InPreparation {
  cancelled: CancelFlag;
  client: string;
  /** Its answer has run, in an engine process that died. */
  continues: boolean;
  priority: number;
  arrivedMs: number;
  endsThinking: boolean;
  /** It gives way to nobody. */
  stays: boolean;
  /** Others have waited for it long enough. */
  isLate: boolean;
}

/** The next request waits at most this long for those that go before it. */
const mostLateMs = 20;
/** For one whose client may be reading its answer. */
const mostContinuingMs = 1_000;

/** Prepared requests of a priority, with large samplers, that may wait for a sequence. */
const mostWaitingLarge = 2;
/** A sampler with a larger grammar is large: a short text may become many megabytes. */
const largeGrammarBytes = 2 ** 20;

export class Intake {
  readonly #addon: NativeAddon;
  readonly #loaded: LoadedModel;
  readonly #active: ActiveRequests;
  readonly #arrivals: Arrivals;
  readonly #poolShare: PoolShare;
  /**
   * Those that run and a few that wait may have large samplers; the others are prepared later. By
   * priority, so that one waits for no lower one.
   */
  readonly #largeSamplers = new Map<number, PoolShare>();
  readonly #hooks: IntakeHooks;
  /** Whether samplers guess ahead. */
  readonly #guesses: boolean;
  /** Those with a priority below the usual one: of batches, and with `service_tier` "flex". */
  readonly #idle = new Set<number>();
  /** The requests being prepared, in order of arrival. */
  readonly #preparing = new Map<number, InPreparation>();

  constructor(
    addon: NativeAddon,
    loaded: LoadedModel,
    active: ActiveRequests,
    arrivals: Arrivals,
    poolShare: PoolShare,
    guesses: boolean,
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
    this.#preparing.get(id)?.cancelled.fill(1);
  }

  /** Ends the thinking of a request that is being prepared, once it begins. False if none is. */
  endThinking(id: number): boolean {
    const preparing = this.#preparing.get(id);
    if (preparing) preparing.endsThinking = true;
    return preparing !== undefined;
  }

  /**
   * Waits briefly for requests that go before the first that waits and are still being prepared: a
   * model that was just loaded gets many at once, and after a crash the answers that ran go on
   * first. For when nothing runs.
   */
  async inOrder(): Promise<void> {
    const sinceMs = performance.now();
    for (;;) {
      const earlier = this.#earlier();
      if (earlier.length === 0) return;
      const untilMs = sinceMs + (earlier.some(({ continues }) => continues) ? mostContinuingMs : mostLateMs);
      const nowMs = performance.now();
      if (nowMs < untilMs) await this.#arrivals.wakeup.sleep(untilMs - nowMs);
      else for (const one of earlier) one.isLate = true;
    }
  }

  #earlier(): InPreparation[] {
    const { first } = this.#hooks.waiting;
    if (!first) return [];
    const isEarlier = ({ continues, priority, arrivedMs, isLate }: InPreparation): boolean => {
      if (isLate || continues !== first.continues) return !isLate && continues;
      return priority > first.priority || (priority === first.priority && arrivedMs < first.arrived);
    };
    return [...this.#preparing].flatMap(([id, one]) => (this.#active.has(id) && isEarlier(one) ? [one] : []));
  }

  /**
   * Makes room in a full queue for a request of this client, by another that waits or is being
   * prepared. Returns whether it did.
   */
  #makeRoom(asker: Asker = anyone): boolean {
    const preparing = [...this.#preparing].flatMap(([id, { client, priority, arrivedMs: arrived, stays }]) =>
      stays || !this.#active.has(id) ? [] : [{ client, priority, arrived, id }]);
    const all = [...this.#hooks.waiting.movable, ...preparing].sort((a, b) => a.arrived - b.arrived);
    const last = givingWay(asker, all).at(-1);
    if (!last) return false;
    if ('sequence' in last) this.#hooks.waiting.giveWay(last.sequence);
    else {
      this.cancel(last.id);
      this.#hooks.fail(last.id, gaveWay());
    }
    return true;
  }

  #largeSamplersOf(priority: number): PoolShare {
    const share = this.#largeSamplers.get(priority) ?? new PoolShare((this.#loaded.context?.sequences ?? 0) + mostWaitingLarge, 0);
    this.#largeSamplers.set(priority, share);
    return share;
  }

  async #start(
    id: number,
    request: ChatRequest | CompletionRequest,
    begun: BegunAnswer | undefined,
    prepare: (preparing: Preparing) => Promise<PreparedPrompt>,
  ): Promise<void> {
    const nowMs = performance.now();
    // One that comes again after a crash keeps its place.
    const arrivedMs = nowMs - (begun?.arrivedMs ?? 0);
    const { context, model, options } = this.#loaded;
    const refusal = notGenerating(this.#loaded.description);
    if (refusal || !context) return this.#hooks.fail(id, refusal ?? new RecuaError('closed', 'The model is closed.'));
    const { client, priority, follows = false } = request.asker ?? anyone;
    // Idle work leaves for other requests, which must not be refused for it.
    const idle = priority < 0 ? 0 : this.#idle.size;
    // What comes again after a crash was accepted before.
    if (!follows && !begun && this.#active.size - idle >= context.sequences + options.queueSize && !this.#makeRoom(request.asker)) {
      const waiting = this.#active.size - context.sequences;
      return this.#hooks.fail(
        id,
        new RecuaError('queue_full', `The queue is full (${context.sequences} running, ${waiting} waiting); try again in a moment.`),
      );
    }
    const continues = begun !== undefined && begun.startedMs > 0;
    const cancelled = newCancelFlag();
    const whenGone = (stop: () => void): void => this.#active.whenEnded(id, stop);
    this.#active.set(id, undefined);
    if (priority < 0) {
      this.#idle.add(id);
      whenGone(() => this.#idle.delete(id));
    }
    const own = {
      cancelled,
      client,
      continues,
      priority,
      arrivedMs,
      endsThinking: begun?.endsThinking ?? false,
      stays: follows || continues,
      isLate: false,
    };
    this.#preparing.set(id, own);
    this.#arrivals.came();
    let leave: (() => void) | undefined;
    try {
      let prepared: PreparedPrompt | undefined;
      for (let isLarge = hasLargeSampler(request); !prepared;) {
        if (isLarge) {
          const end = await this.#largeSamplersOf(priority).enter(client, whenGone);
          if (!this.#active.has(id)) return end();
          this.#active.whenEnded(id, end);
        }
        leave = takesLong(request) ? await this.#poolShare.enter(client, whenGone) : undefined;
        await this.#hooks.opened;
        if (!this.#active.has(id)) return;
        const made = await prepare({
          model,
          contextSize: context.contextSize,
          cancelled,
          guesses: this.#guesses,
          ...(begun ? { earlierPrompt: begun.prompt } : {}),
        });
        if (isLarge || made.sampler.grammarBytes <= largeGrammarBytes) prepared = made;
        else {
          // It is made again when the request has a place.
          discard(made);
          leave?.();
          leave = undefined;
          isLarge = true;
        }
      }
      if (begun && begun.tokens.length > 0) {
        await prepared.sampler.resume(begun.tokens, begun.draws).catch((thrown: unknown) => {
          discard(prepared);
          throw thrown;
        });
      }
      if (own.endsThinking) prepared.sampler.endThinking();
      if (this.#active.has(id)) {
        const sequence = new Sequence(
          begun?.prompt ?? prepared.tokens,
          request.maxTokens,
          context.contextSize,
          request.tells?.prompt,
          request.asker?.salt,
        );
        const generation = new Generation(id, sequence, prepared, arrivedMs, request.asker);
        if (begun) generation.resume(begun, this.#loaded.pieces.flags, nowMs);
        this.#hooks.join(generation);
      } else discard(prepared);
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

/** Frees native memory now: V8 sees only small objects, and would keep them for long. */
function discard({ sampler, parser }: PreparedPrompt): void {
  sampler.close();
  parser.close();
}
