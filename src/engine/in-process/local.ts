// An engine in this process: the same interface as engine/gateway/client, without an engine
// process. Used by library/ if a program asks for it. An abort in llama.cpp then ends this process;
// computing still runs on its own threads.
import { RecuaError } from '../../errors.js';
import type { Engine as EngineFace, EngineSettings, EngineState, Log } from '../api.js';
import type { PendingRequest } from '../gateway/pending-request.js';
import { EngineRequests } from '../gateway/requests.js';
import { TokenRate } from '../gateway/activity.js';
import { deliver } from '../process/delivery.js';
import { EngineLoop } from '../loop/engine-loop.js';
import { load } from '../process/load.js';
import { listenToNative } from '../process/native-log.js';
import { skippedText, wantsGpu } from '../offload.js';
import { openOwnNative, type OpenedNative } from '../process/own-native.js';
import { ProofGate } from '../proof/gate.js';
import type { EngineOptions, EngineStatus, ModelDescription } from '../protocol.js';

export interface LocalSettings extends EngineSettings {
  /** Tests pass a fake. */
  openNative?: (options: EngineOptions) => OpenedNative | Promise<OpenedNative>;
}

/** Starts loading and returns at once; `ready()` and `state` show the progress. */
export function startLocalEngine(options: EngineOptions, settings: LocalSettings = {}): EngineFace {
  return new LocalEngine(options, settings);
}

class LocalEngine extends EngineRequests {
  readonly #settings: LocalSettings;
  readonly #ready: Promise<ModelDescription>;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #status: EngineStatus = { running: 0, waiting: 0, tokens: 0 };
  readonly #rate = new TokenRate();
  #engine: EngineLoop | undefined;
  #stopLoading: (() => void) | undefined;
  #deafen = (): void => {};
  #proof: ProofGate | undefined;
  #closing: Promise<void> | undefined;
  /** There is no engine process that could die. */
  readonly crashes = 0;
  readonly pid = undefined;

  constructor(options: EngineOptions, settings: LocalSettings) {
    super();
    this.#settings = settings;
    this.#ready = this.#load(options);
    // Callers that only read the state need not handle the rejection.
    this.#ready.catch(() => {});
  }

  get state(): EngineState {
    return this.#state.state === 'ready' ? { ...this.#state, status: this.#status } : this.#state;
  }

  get tokensPerSecond(): number {
    return this.#rate.perSecond(performance.now());
  }

  ready(): Promise<ModelDescription> {
    return this.#ready;
  }

  close(drainMs = 0): Promise<void> {
    return (this.#closing ??= this.#close(drainMs));
  }

  protected refusal(): RecuaError | undefined {
    if (this.#closing) return new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');
    if (this.#state.state === 'failed') return this.#state.error;
    if (!this.#engine) return new RecuaError('model_loading', 'The model is still loading; try again in a moment.');
    return undefined;
  }

  protected submit(call: PendingRequest): void {
    call.deliver((message, gone) => {
      deliver(this.#engine!, message);
      gone();
    });
    // No other engine could take it, so its text need not be kept.
    call.drop();
  }

  protected withdraw(id: number): void {
    this.#engine?.cancel(id);
  }

  protected endThinking(id: number): void {
    this.#engine?.endThinking(id);
  }

  #turn(state: EngineState): void {
    this.#state = state;
    this.#settings.onState?.(this.state);
  }

  async #load(options: EngineOptions): Promise<ModelDescription> {
    const { log = () => {}, openNative } = this.#settings;
    // Not in the constructor's turn, so that the caller receives every state.
    await Promise.resolve();
    try {
      const { addon, backends = [] } = await (openNative ? openNative(options) : this.#openProved(options, log));
      this.#deafen = listenToNative(addon, log);
      if (wantsGpu(options)) for (const one of backends) if (!one.loaded) log('warn', skippedText(one));
      const opening = load(addon, options, (fraction) => {
        if (this.#state.state === 'loading') this.#turn({ state: 'loading', fraction });
      }, backends);
      this.#stopLoading = () => opening.cancel();
      if (this.#closing) opening.cancel();
      const loaded = await opening.promise;
      const engine = new EngineLoop(addon, loaded, {
        emit: (events, status) => {
          this.#status = status;
          this.#rate.note(status.tokens, performance.now());
          for (const event of events) this.dispatch(event);
        },
        log,
      });
      this.#engine = engine;
      engine.ended.catch((error: unknown) => this.#broke(RecuaError.from(error)));
      if (this.#closing) throw new RecuaError('shutting_down', 'The engine was closed while it loaded.');
      this.#turn({ state: 'ready', model: loaded.description, status: this.#status });
      return loaded.description;
    } catch (thrown) {
      const error = this.#closing ? new RecuaError('shutting_down', 'The engine was closed while it loaded.') : RecuaError.from(thrown);
      if (!this.#engine) this.#deafen();
      if (!this.#closing) this.#turn({ state: 'failed', error });
      throw error;
    } finally {
      this.#stopLoading = undefined;
    }
  }

  async #openProved(options: EngineOptions, log: Log): Promise<OpenedNative> {
    this.#proof = new ProofGate(options, log);
    // In Electron a new process may be a new window, so only remembered results count.
    if (!process.versions['electron']) await this.#proof.pass();
    if (this.#closing) throw new RecuaError('shutting_down', 'The engine was closed while it loaded.');
    return await openOwnNative(options, this.#proof.refused);
  }

  #broke(error: RecuaError): void {
    this.#settings.log?.('error', `the engine's loop broke: ${error.stack ?? error.message}`);
    this.failAll(error);
    if (!this.#closing) this.#turn({ state: 'failed', error });
  }

  async #close(drainMs: number): Promise<void> {
    // After this await #closing is set, which loading checks.
    await Promise.resolve();
    this.#turn({ state: 'closed' });
    this.#proof?.stop();
    this.#stopLoading?.();
    await this.#ready.catch(() => {});
    const cancelTimer = setTimeout(() => {
      for (const id of this.requests.keys()) this.#engine?.cancel(id);
      this.failAll(new RecuaError('shutting_down', 'The engine is stopping and did not wait longer for this answer.'));
    }, drainMs);
    await this.#engine?.close();
    this.#deafen();
    clearTimeout(cancelTimer);
    // Requests that arrived too late for the engine.
    this.failAll(new RecuaError('shutting_down', 'The engine stopped before the answer was complete.'));
  }
}
