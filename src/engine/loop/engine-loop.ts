// The loop of the engine process: plan → step → settle, one native promise per step for all
// sequences together. It submits the next step before the text work of the last one, so that
// detokenizing, stop strings, parsing and IPC happen while llama.cpp computes. Called by host.
// Everything here runs on the engine process's JavaScript thread.
import type { NativeAddon, NativeContext, StepResult } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { Admission, cutBack } from './admission.js';
import { stashBudget } from '../stash-budget.js';
import { ActiveRequests } from './active-requests.js';
import { Arrivals } from './arrivals.js';
import { Wakeup } from './wakeup.js';
import { Decisions, undecided } from './decisions.js';
import { notPooled } from '../capabilities.js';
import { Embeddings } from '../pooled/embeddings.js';
import { canRemoveParts, type LoadedModel } from './loaded.js';
import { PoolShare } from '../prompts/pool-share.js';
import { Questions, shuttingDown, type Asked, type Question } from './questions.js';
import { PrefixCache } from '../planning/prefix.js';
import type { BegunAnswer, ChatRequest, CompletionRequest, EmbedRequest, EngineStatus, RerankRequest, SavedState } from '../protocol.js';
import type { Generation } from './generation.js';
import { Intake } from './intake.js';
import { Outbox, type EngineHooks } from './outbox.js';
import { isIdle, isStreaming, Plan, planStep, stepsAhead, unread } from '../planning/scheduler.js';
import type { Sequence } from '../planning/sequence.js';
import { StepCosts } from '../planning/step-costs.js';
import { SleepFiles } from './sleep-files.js';
import { scored, StepBatch } from './step-batch.js';
import { StateKeeper, type BetweenSteps } from './state-keeper.js';
import { TextWork } from './text-work.js';
import { Vitals } from './vitals.js';
import { WaitingQueue } from './waiting-queue.js';

/**
 * If all requests of a step are cancelled, the step is aborted if it is expected to take longer
 * than this. Its KV is lost then.
 */
const worthAbortingMs = 250;

export class EngineLoop {
  readonly #loaded: LoadedModel;
  readonly #hooks: EngineHooks;
  readonly #embeddings: Embeddings | undefined;
  readonly #cache: PrefixCache;
  readonly #plan = new Plan();
  readonly #batch: StepBatch;
  /** Accepted requests without an answer yet, by id; undefined while being prepared. */
  readonly #active = new ActiveRequests();
  readonly #requests = new Map<Sequence, Generation>();
  readonly #waiting: WaitingQueue;
  /** KV work to do between two steps, and the requests that may still add some. */
  readonly #jobs: (() => Promise<void>)[] = [];
  readonly #keeping = new Set<number>();
  readonly #questions: Questions;
  readonly #keeper: StateKeeper;
  readonly #sleep: SleepFiles | undefined;
  readonly #running: Sequence[] = [];
  readonly #text: TextWork;
  /** Requests that want to know how far their prompt is evaluated. */
  readonly #watched = new Set<Generation>();
  readonly #outbox: Outbox;
  readonly #intake: Intake;
  #inFlight = false;
  readonly #costs = new StepCosts();
  readonly wakeup = new Wakeup();
  readonly #arrivals = new Arrivals(this.wakeup);
  readonly vitals: Vitals;
  readonly #decisions = new Decisions((request, outcome) => this.#decided(request, outcome));
  #closing: Promise<void> | undefined;
  /** Settles when the loop ends; rejects if it broke: then no request is answered any more. */
  readonly ended: Promise<void>;

  constructor(addon: NativeAddon, loaded: LoadedModel, hooks: EngineHooks) {
    this.#loaded = loaded;
    this.#hooks = hooks;
    const { context, model, embedderOptions, options } = loaded;
    const partial = canRemoveParts(model.info);
    this.#cache = new PrefixCache(context?.sequences ?? 0, { partial, copies: partial }, stashBudget(options.cacheRamMib), this.#costs);
    this.#batch = new StepBatch(context?.batchSize ?? 0, context?.sequences ?? 0, partial);
    this.#waiting = new WaitingQueue(options.queueTimeoutMs, (sequence, error) => this.#giveUp(this.#requests.get(sequence)!, error));
    this.#keeper = new StateKeeper(loaded, this.#cache, () => { if (this.#closing) throw shuttingDown(); });
    if (options.sleep && context) {
      const read = (): void => this.wakeup.wake();
      this.#sleep = new SleepFiles(options.sleep, this.#cache, model, () => this.#keeper.identify(), hooks.log, read);
    }
    this.#outbox = new Outbox((...news) => hooks.emit(...news), () => this.status);
    this.#text = new TextWork(this.#active, this.#outbox, loaded.pieces);
    const poolShare = new PoolShare();
    this.#questions = new Questions(loaded, poolShare);
    this.#intake = new Intake(addon, loaded, this.#active, this.#arrivals, poolShare, partial && options.specType !== 'none', {
      waiting: this.#waiting,
      opened: context && this.#sleep?.open(context.contextSize),
      join: (request) => this.#join(request),
      fail: (id, error) => this.#fail(id, error),
      done: () => this.#stir(),
    });
    if (embedderOptions) this.#embeddings = new Embeddings(loaded, embedderOptions, options.queueSize, poolShare, this.#outbox);
    const isBusy = (): boolean => this.#inFlight || this.#waiting.length + this.#running.length + this.#jobs.length > 0;
    this.vitals = new Vitals(loaded, () => !this.#sleep?.reading && isBusy(), () => this.#embeddings?.work, () => this.#stir());
    this.ended = context ? this.#run(context) : Promise.resolve();
  }

  chat(id: number, request: ChatRequest, begun?: BegunAnswer): void {
    if (this.#closing) return this.#fail(id, shuttingDown());
    this.#intake.chat(id, request, begun);
  }

  complete(id: number, request: CompletionRequest, begun?: BegunAnswer): void {
    if (this.#closing) return this.#fail(id, shuttingDown());
    this.#intake.complete(id, request, begun);
  }

  embed(id: number, request: EmbedRequest | RerankRequest): void {
    if (this.#closing) return this.#fail(id, shuttingDown());
    const refusal = notPooled(this.#loaded.description, request);
    if (refusal || !this.#embeddings) return this.#fail(id, refusal ?? shuttingDown());
    void this.#embeddings.start(id, request);
  }

  /** Asks the model itself, e.g. to tokenize; the result is the request's answer. */
  ask(id: number, asked: Asked, question: Question): void {
    void this.#outbox.answer(id, this.#questions.ask(id, asked, question));
  }

  /**
   * Works on the KV of idle sequences; the result is the request's answer. Steps wait only for jobs
   * that it passes to `betweenSteps`.
   */
  keep(id: number, work: (keeper: StateKeeper, context: NativeContext, betweenSteps: BetweenSteps) => Promise<SavedState>): void {
    const { context } = this.#loaded;
    if (this.#closing || !context) return this.#fail(id, this.#closing ? shuttingDown() : new RecuaError('chat_unsupported', 'This model only embeds; it keeps no state.'));
    const betweenSteps: BetweenSteps = (job) => new Promise((resolve, reject) => {
      this.#jobs.push(() => this.vitals.unhurried(job()).then(resolve, reject));
      this.#stir();
    });
    this.#keeping.add(id);
    void this.#outbox.answer(id, work(this.#keeper, context, betweenSteps)).finally(() => this.#keeping.delete(id) && this.#stir());
  }

  endThinking = (id: number): void => void (this.#intake.endThinking(id) || this.#active.get(id)?.sampler.endThinking());

  /**
   * Takes effect before the next step, whatever state the request is in. Ignores unknown ids: those
   * requests have been answered.
   */
  cancel(id: number): void {
    this.#questions.cancel(id);
    if (this.#embeddings?.cancel(id) || !this.#active.has(id)) return;
    const request = this.#active.get(id);
    this.#intake.cancel(id);
    const error = new RecuaError('cancelled', 'The request was cancelled.');
    if (request && this.#waiting.remove(request.sequence)) return this.#giveUp(request, error);
    this.#fail(id, error);
    if (!request) return;
    request.sequence.finish();
    if (this.#inFlight && this.#plan.rows > 1 && this.#costs.stepMs(this.#plan.parts()) > worthAbortingMs) {
      const wanted = this.#plan.sequences.some((other) => this.#active.has(this.#requests.get(other)!.id));
      if (!wanted) this.#loaded.context?.abort();
    }
    this.#stir();
  }

  /** Wakes the loop for something new, or ends the run of steps after the one in flight. */
  #stir(): void {
    this.wakeup.wake();
    if (this.#inFlight) this.#loaded.context?.pause();
  }

  /**
   * Refuses new requests, finishes accepted ones, frees all native memory. With `sleeps`, writes
   * the conversations to files for the model's next engine. Idempotent.
   */
  close(sleeps = false): Promise<void> {
    return (this.#closing ??= this.#close(sleeps));
  }

  async #close(sleeps: boolean): Promise<void> {
    // After this await #closing is set, which the loop checks when it wakes.
    await Promise.resolve();
    this.#stir();
    const { context } = this.#loaded;
    const sound = await this.ended.then(() => true, () => false);
    await this.#embeddings?.close();
    this.#waiting.close();
    if (sleeps && sound && context) await this.#sleep?.write(context, this.#costs);
    await Promise.all([context?.close(), this.#questions.close()]);
    await this.#loaded.model.close();
    this.#outbox.flush();
  }

  #join(request: Generation): void {
    this.#active.set(request.id, request);
    this.#requests.set(request.sequence, request);
    const { id, sequence, sequence: { promptLength: promptTokens } } = request;
    const accepted = { id, kind: 'accepted', promptTokens, prompt: sequence.tokens.subarray(0, promptTokens) } as const;
    if (sequence.state === 'finished') {
      // It had ended with the last step of another engine process.
      this.#outbox.push({ ...accepted, position: 0 });
      this.#text.add(request);
      return this.#drop(request);
    }
    const place = this.#waiting.add(sequence, request.asker, request.arrivedMs);
    this.#outbox.push({ ...accepted, position: Math.max(0, place - this.#cache.freeSlots) });
  }

  #giveUp(request: Generation, error: RecuaError): void {
    request.sequence.finish();
    this.#fail(request.id, error);
    this.#drop(request);
    this.#stir();
  }

  async #run(context: NativeContext): Promise<void> {
    const admission = new Admission(context, this.#cache, this.#costs, (text) => this.#hooks.log('info', text));
    if (this.#sleep) await this.vitals.unhurried(this.#sleep.open(context.contextSize));
    for (;;) {
      await this.#retire(context);
      for (const job of this.#jobs.splice(0)) await job();
      await this.vitals.answer(context);
      if (this.#running.length === 0) await this.#intake.inOrder();
      const present = [...this.#waiting.sequences, ...this.#running]; // gathered before prompts are read with nothing beside them
      const savedMs = this.#costs.known && unread(present) > 0 ? this.#costs.passMs : 0;
      if (present.length > 0 && !isStreaming(present)) await this.#arrivals.gather(savedMs, context.sequences - present.length);
      if (this.#waiting.length > 0) {
        await admission.join(this.#waiting, this.#running);
        this.#sleep?.fetch(context);
      } else await this.#sleep?.settle(context);
      await admission.straighten(this.#running);
      await admission.takeCheckpoints(this.#running);
      const step = this.#submit(context);
      this.#text.render();
      if (step) this.#sleep?.worked();
      if (step) await this.#settle(context, step);
      else if (this.#closing && this.#active.size === 0 && this.#keeping.size === 0) return;
      else if (this.#isIdle() && this.#jobs.length === 0 && !this.vitals.isAsked) await this.#rest(context);
      // All running requests were just cancelled and leave next; handle messages first.
      else await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Sleeps until something arrives. */
  async #rest(context: NativeContext): Promise<void> {
    const isBusy = (): boolean => this.#active.size + this.#jobs.length > 0 || this.#closing !== undefined;
    if (!this.#sleep?.isBehind || isBusy()) await this.wakeup.sleep();
    else await this.#sleep.rest(context, this.wakeup, this.vitals, isBusy);
  }

  #isIdle(): boolean {
    return isIdle(this.#waiting.sequences, this.#running) || (this.#running.length === 0 && this.#sleep?.reading === true);
  }

  /** Finished sequences leave; their KV stays in the slot as a prefix for others. */
  async #retire(context: NativeContext): Promise<void> {
    let kept = 0;
    for (const sequence of this.#running) {
      if (sequence.state !== 'finished') {
        this.#running[kept++] = sequence;
        continue;
      }
      if (sequence.overrun) await cutBack(context, sequence);
      this.#cache.release(sequence);
      this.#drop(this.#requests.get(sequence)!);
    }
    if (kept < this.#running.length) this.#arrivals.left(this.#running.length - kept);
    this.#running.length = kept;
  }

  #drop(request: Generation): void {
    this.#requests.delete(request.sequence);
    this.#waiting.left(request.sequence);
    request.leave(this.#active.has(request.id));
  }

  /** Builds the next step and submits it; undefined if there is nothing to compute. */
  #submit(context: NativeContext): Promise<StepResult[]> | undefined {
    const plan = this.#plan;
    const { maxStallMs } = this.#loaded.options;
    planStep(this.#running, context.batchSize, this.#costs, maxStallMs, plan);
    if (plan.rows === 0) return undefined;
    const nowMs = performance.now();
    let begun = false;
    for (const sequence of plan.sequences) {
      const request = this.#requests.get(sequence)!;
      if (!request.start(nowMs)) continue;
      this.#outbox.push({ id: request.id, kind: 'started' });
      begun = true;
      if (request.tellsProgress) this.#tellProgress(request, nowMs);
    }
    if (!this.#cache.memory.partial) this.#batch.dropGuesses();
    this.#batch.fill(plan, (sequence) => this.#requests.get(sequence)!);
    // Before a step that may crash, the gateway must know which requests may have caused it.
    if (begun) this.#outbox.flush();
    this.#inFlight = true;
    return context.steps(this.#batch.input, this.#mostSteps(), (results) => {
      this.#takeAll(results);
      this.#text.render();
      if (this.#batch.asking.some(({ state }) => state === 'finished')) context.pause();
    });
  }

  /** Most steps that may run before the loop handles new requests. */
  #mostSteps(): number {
    // Steps after a stop string evaluate too much, which must be removed from the sequence's end.
    if (!this.#cache.memory.partial || this.#closing || this.#jobs.length > 0) return 1;
    return this.#waiting.length > 0 && this.#cache.freeSlots > 0 ? 1 : stepsAhead(this.#plan, this.#batch.asking);
  }

  async #settle(context: NativeContext, step: Promise<StepResult[]>): Promise<void> {
    let results: StepResult[];
    try {
      results = await step;
    } catch (error) {
      return await this.#stepFailed(context, RecuaError.from(error));
    } finally {
      this.#inFlight = false;
    }
    this.#takeAll(results);
  }

  /** Several may come at a time; the last step ended just now. The text work follows later. */
  #takeAll(results: readonly StepResult[]): void {
    let endMs = performance.now() - results.reduce((sum, { decodeMs }) => sum + decodeMs, 0);
    for (const result of results) this.#take(result, endMs += result.decodeMs);
  }

  #take(result: StepResult, nowMs: number): void {
    const plan = this.#plan;
    this.vitals.stepped();
    this.#costs.learn(plan.parts(result.guesses), result.decodeMs);
    for (let i = 0; i < plan.sequences.length; i++) plan.sequences[i]!.advance(plan.counts[i]!);
    for (const request of this.#watched) this.#tellProgress(request, nowMs);
    for (let i = 0, from = 0, to = 0; i < this.#batch.asking.length; i++, from = to) {
      const request = this.#requests.get(this.#batch.asking[i]!)!;
      to = from + (result.counts?.[i] ?? 1);
      const last = result.tokens[to - 1]!;
      const given = result.tokens.subarray(from, last < 0 ? to - 1 : to);
      if (given.length > 0) this.#text.accept(request, given, result.draws?.[i] ?? 0, result.guesses ?? 0, nowMs);
      if (last === scored) request.sequence.scored++;
      else if (last === undecided) this.#decisions.add(request, given.length);
      else if (last < 0) {
        // The KV of the last right guess is there, too: the row that evaluated it failed.
        if (given.length > 0) request.sequence.advance(1);
        // Send the earlier tokens first; they may even have ended the answer.
        if (given.length > 0) this.#text.render();
        if (!this.#active.has(request.id)) continue;
        this.#failSampling(request, result.failures?.find((failure) => failure.row === i) ?? { code: '', message: 'the sampler gave no token' });
      }
    }
  }

  /** Sends progress until the first token, to requests that want it. */
  #tellProgress(request: Generation, nowMs: number): void {
    const event = this.#active.has(request.id) ? request.progress(nowMs) : undefined;
    if (event) this.#outbox.push(event);
    this.#watched[event ? 'add' : 'delete'](request);
  }

  #decided(request: Generation, outcome: number | RecuaError): void {
    if (!this.#active.has(request.id)) return;
    if (typeof outcome !== 'number') this.#failSampling(request, outcome);
    else this.#text.accept(request, Int32Array.of(outcome), request.sampler.draws(), 0, performance.now());
    this.#stir();
  }

  #failSampling(request: Generation, { code, message }: { code: string; message: string }): void {
    request.sequence.finish();
    this.#text.fail(request, code === 'no_token_left' ? new RecuaError(code, message) : new RecuaError('generation_failed', `Sampling failed: ${message}`));
  }

  /**
   * The KV of all sequences in the step is undefined. After an abort, sequences that are still
   * wanted are evaluated again; otherwise their requests fail.
   */
  async #stepFailed(context: NativeContext, error: RecuaError): Promise<void> {
    if (error.code === 'closed') throw error;
    const aborted = error.code === 'cancelled';
    if (!aborted) this.#hooks.log('error', `a step failed: ${error.message}`);
    for (const sequence of this.#plan.sequences) {
      sequence.rewind();
      await context.removeSequence(sequence.slot, 0, -1);
      if (aborted || sequence.state === 'finished') continue;
      sequence.finish();
      const { code, message, details } = error;
      this.#text.fail(this.#requests.get(sequence)!, new RecuaError(code === 'internal_error' ? 'generation_failed' : code, message, { details }));
    }
  }

  #fail(id: number, error: RecuaError): void {
    this.#active.delete(id);
    this.#outbox.fail(id, error);
  }

  get status(): EngineStatus {
    // An answered sequence leaves its slot only at the next settle.
    const running = this.#running.length;
    // Embedding requests share each call, so all of them count as running.
    const pooled = this.#embeddings?.active ?? 0;
    const kv = this.#loaded.context ? { kv: this.#cache.use } : {};
    return { running: running + pooled, waiting: Math.max(0, this.#active.size - running), tokens: this.#text.tokens, ...kv };
  }
}
