// The engine as the gateway uses it: keeps one engine process alive, sends it requests, hands out its events.
// When the process dies: what had begun fails with `model_crashed`, what only waited runs again in the next one.
import { fileURLToPath } from 'node:url';
import { RecuaError } from '../errors.js';
import { RunningAnswer } from './answer.js';
import type { Answer, Embedded, Engine, EngineState } from './api.js';
import { Child } from './child.js';
import type {
  ChatRequest, CompletionRequest, EmbedRequest, EngineEvent, EngineOptions, EngineStatus, FromEngine, ModelDescription, SavedState,
  ToEngine,
} from './protocol.js';

export interface ClientSettings {
  /** Lines of the engine process: native and own logs, and its stderr. */
  log?: (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void;
  /** The file that is forked. Tests give one with a fake addon. */
  entry?: string | URL;
  restart?: Partial<RestartPolicy>;
}

/** When a dead engine process is started again. */
export interface RestartPolicy {
  /** Wait before the first restart; doubles with each further crash of the window. */
  delayMs: number;
  /** This many crashes … */
  crashes: number;
  /** … within this time mean that it is held off … */
  windowMs: number;
  /** … for this long. */
  holdOffMs: number;
}

const defaultRestart: RestartPolicy = { delayMs: 100, crashes: 5, windowMs: 60_000, holdOffMs: 60_000 };
/** After the drain time, running answers are cancelled and the process has this long to end by itself. */
const killAfterMs = 2_000;
/** Lines of output quoted in the log when the process dies. */
const lastLines = 5;
/**
 * What a process says when it breaks. Other lines that it prints while it serves may quote a request, which is nobody's but the client's
 * (llama.cpp's grammar parser prints the grammar that it refuses), so they stay out of logs.
 */
const crashWords = /GGML_|\bggml[-_]|^llama_|CUDA|terminate called|what\(\):|Assertion|\.(?:c|h|cc|cpp|cu|cuh|m|mjs|js):\d+|^\s+at |FATAL|out of memory|Segmentation/;

/** A request the engine process has, or will have after a restart. */
interface Call {
  message: Extract<ToEngine, { id: number }>;
  begun: boolean;
  /** It waits in the engine process's queue since before a crash: one that crashes it twice is not sent a third time. */
  resent: boolean;
  event(event: EngineEvent): void;
  fail(error: RecuaError): void;
}

/** Starts the engine process. Returns at once; `ready()` and `state` tell how loading goes. */
export function startEngine(options: EngineOptions, settings: ClientSettings = {}): Engine {
  return new EngineClient(options, settings);
}

class EngineClient implements Engine {
  readonly #options: EngineOptions;
  readonly #log: NonNullable<ClientSettings['log']>;
  readonly #entry: string;
  readonly #policy: RestartPolicy;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #child: Child | undefined;
  #status: EngineStatus = { running: 0, waiting: 0 };
  /** In the order of arrival, which is the order of sending again. */
  readonly #calls = new Map<number, Call>();
  #nextId = 1;
  #crashTimes: number[] = [];
  #restartTimer: NodeJS.Timeout | undefined;
  #output: string[] = [];
  #everReady = false;
  readonly #readyWaiters: { resolve(model: ModelDescription): void; reject(error: RecuaError): void }[] = [];
  #closing: Promise<void> | undefined;
  #whenGone: (() => void) | undefined;
  crashes = 0;

  constructor(options: EngineOptions, settings: ClientSettings) {
    this.#options = options;
    this.#log = settings.log ?? (() => {});
    this.#entry = entryPath(settings.entry ?? new URL('./main.js', import.meta.url));
    this.#policy = { ...defaultRestart, ...settings.restart };
    this.#spawn();
  }

  get state(): EngineState {
    return this.#state.state === 'ready' ? { ...this.#state, status: this.#status } : this.#state;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  ready(): Promise<ModelDescription> {
    const state = this.#state;
    if (state.state === 'ready') return Promise.resolve(state.model);
    const refusal = state.state === 'failed' || state.state === 'closed' ? this.#refusal() : undefined;
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => this.#readyWaiters.push({ resolve, reject }));
  }

  chat(request: ChatRequest, signal?: AbortSignal): Answer {
    return this.#answer((id) => ({ type: 'chat', id, request }), signal);
  }

  complete(request: CompletionRequest, signal?: AbortSignal): Answer {
    return this.#answer((id) => ({ type: 'complete', id, request }), signal);
  }

  embed(request: EmbedRequest, signal?: AbortSignal): Promise<Embedded> {
    return new Promise((resolve, reject) => {
      this.#start((id) => ({ type: 'embed', id, request }), signal, reject, (event) => {
        if (event.kind !== 'embedded') return;
        const { vectors, dimensions, tokenCounts } = event;
        const split = Array.from(tokenCounts, (_, i) => vectors.subarray(i * dimensions, (i + 1) * dimensions));
        resolve({ vectors: split, tokenCounts });
      });
    });
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Promise<Int32Array> {
    return this.#ask((id) => ({ type: 'tokenize', id, text, addSpecial, parseSpecial }));
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

  close(drainMs = 0): Promise<void> {
    return (this.#closing ??= this.#close(drainMs));
  }

  /** A request with one result. */
  #ask<T>(message: (id: number) => Call['message']): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#start(message, undefined, reject, (event) => {
        if (event.kind === 'result') resolve(event.value as T);
      });
    });
  }

  #answer(message: (id: number) => Call['message'], signal: AbortSignal | undefined): Answer {
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
  #start(make: (id: number) => Call['message'], signal: AbortSignal | undefined, fail: (error: RecuaError) => void, event: (event: EngineEvent) => void): () => void {
    const refusal = signal?.aborted ? cancelled() : this.#refusal();
    if (refusal) {
      fail(refusal);
      return () => {};
    }
    const id = this.#nextId++;
    const cancel = (): void => {
      if (!this.#calls.has(id)) return;
      this.#settle(id)!.fail(cancelled());
      this.#child?.send({ type: 'cancel', id });
    };
    const stopListening = (): void => signal?.removeEventListener('abort', cancel);
    signal?.addEventListener('abort', cancel, { once: true });
    const call: Call = {
      message: make(id),
      begun: false,
      resent: false,
      event,
      fail: (error) => {
        stopListening();
        fail(error);
      },
    };
    const last = call.event;
    call.event = (one) => {
      if (isLast(one)) stopListening();
      last(one);
    };
    this.#calls.set(id, call);
    this.#restartTimer?.ref();
    if (this.#state.state === 'ready') this.#child!.send(call.message);
    else if (this.#calls.size > this.#options.parallel + this.#options.queueSize) {
      this.#settle(id)!.fail(new RecuaError('queue_full', 'Too many requests wait for the engine to come back; try again in a moment.'));
    }
    return cancel;
  }

  /** Why no request can be taken now; undefined if one can, at once or after a running restart. */
  #refusal(): RecuaError | undefined {
    if (this.#closing) return new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');
    if (this.#state.state === 'failed') return this.#state.error;
    if (this.#state.state === 'loading') return new RecuaError('model_loading', 'The model is still loading; try again in a moment.');
    return undefined;
  }

  #settle(id: number): Call | undefined {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    return call;
  }

  #failAll(error: RecuaError, which: (call: Call) => boolean = () => true): void {
    for (const [id, call] of this.#calls) {
      if (!which(call)) continue;
      this.#calls.delete(id);
      call.fail(error);
    }
  }

  #spawn(): void {
    this.#output = [];
    const child = new Child(this.#entry, {
      message: (message) => this.#receive(message),
      output: (line) => {
        if (this.#everReady && !crashWords.test(line)) {
          this.#log('debug', `the engine process printed ${line.length} characters, left out since they may quote a request`);
          return;
        }
        this.#output = [...this.#output.slice(1 - lastLines), line];
        this.#log('warn', line);
      },
      gone: (how, clean) => {
        // One that said why it could not load was given up then; another may live by now.
        if (this.#child === child) this.#gone(how, clean);
      },
    });
    this.#child = child;
    child.send({ type: 'load', options: this.#options });
  }

  #receive(message: FromEngine): void {
    if (message.type === 'log') this.#log(message.level, message.text);
    else if (message.type === 'events') {
      this.#status = message.status;
      for (const event of message.events) this.#dispatch(event);
    } else if (this.#closing) return;
    else if (message.type === 'progress') {
      if (this.#state.state === 'loading' || this.#state.state === 'restarting') this.#state = { state: this.#state.state, fraction: message.fraction };
    } else if (message.type === 'failed') {
      this.#child = undefined;
      this.#giveUp(RecuaError.fromPlain(message.error));
    } else this.#becomeReady(message.model);
  }

  #dispatch(event: EngineEvent): void {
    const call = this.#calls.get(event.id);
    // Cancelled here already.
    if (!call) return;
    if (event.kind === 'started') call.begun = true;
    if (isLast(event)) this.#calls.delete(event.id);
    if (event.kind === 'error') call.fail(RecuaError.fromPlain(event.error));
    else call.event(event);
  }

  #becomeReady(model: ModelDescription): void {
    this.#everReady = true;
    this.#status = { running: 0, waiting: 0 };
    this.#state = { state: 'ready', model, status: this.#status };
    for (const { resolve } of this.#readyWaiters.splice(0)) resolve(model);
    for (const call of this.#calls.values()) this.#child!.send(call.message);
  }

  /** A load that failed the first time fails for good; later (the file was there, memory may come back) it is tried again. */
  #giveUp(error: RecuaError): void {
    this.#failAll(error);
    for (const { reject } of this.#readyWaiters.splice(0)) reject(error);
    if (!this.#everReady) {
      this.#state = { state: 'failed', error };
      return;
    }
    const { holdOffMs } = this.#policy;
    this.#state = { state: 'failed', error, retryAtMs: Date.now() + holdOffMs };
    this.#restartIn(holdOffMs);
  }

  #restartIn(delayMs: number): void {
    this.#restartTimer = setTimeout(() => {
      this.#state = { state: 'restarting', fraction: 0 };
      this.#spawn();
    }, delayMs);
    // A program that has nothing else to do need not wait for an engine it does not use.
    if (this.#calls.size === 0) this.#restartTimer.unref();
  }

  #gone(how: string, clean: boolean): void {
    this.#child = undefined;
    this.#status = { running: 0, waiting: 0 };
    this.#whenGone?.();
    if (this.#closing) {
      this.#failAll(new RecuaError('shutting_down', 'The engine stopped before the answer was complete.'));
      return;
    }
    this.#crashed(clean ? 'it ended by itself' : how);
  }

  #crashed(how: string): void {
    this.crashes++;
    const output = this.#output.length > 0 ? `; its last output: ${this.#output.join(' | ')}` : '';
    this.#log('error', `the engine process died (${how})${output}`);
    this.#failAll(new RecuaError('model_crashed', `The engine process died (${how}) while it worked on this request; it is being restarted.`),
      (call) => call.begun || call.resent || !generates(call.message.type));
    for (const call of this.#calls.values()) call.resent = true;

    const { crashes, windowMs, delayMs } = this.#policy;
    const now = Date.now();
    this.#crashTimes = [...this.#crashTimes.filter((time) => now - time < windowMs), now];
    if (!this.#everReady && this.#crashTimes.length >= 2) {
      this.#giveUp(new RecuaError('model_unusable', `The engine process died while loading the model (${how})${output}.`));
    } else if (this.#crashTimes.length >= crashes) {
      const seconds = Math.round(this.#policy.holdOffMs / 1000);
      const message = `The engine process died ${this.#crashTimes.length} times within ${Math.round(windowMs / 1000)} s (last by ${how}); it is tried again in ${seconds} s.`;
      this.#giveUp(new RecuaError('model_crashed', message));
    } else {
      if (this.#everReady) this.#state = { state: 'restarting', fraction: 0 };
      const wait = delayMs * 2 ** (this.#crashTimes.length - 1);
      if (this.#everReady) this.#restartIn(wait);
      else this.#spawn();
    }
  }

  async #close(drainMs: number): Promise<void> {
    this.#state = { state: 'closed' };
    clearTimeout(this.#restartTimer);
    const stopped = new RecuaError('shutting_down', 'The engine is stopping.');
    for (const { reject } of this.#readyWaiters.splice(0)) reject(stopped);
    const child = this.#child;
    if (!child) {
      this.#failAll(stopped);
      return;
    }
    const gone = new Promise<void>((resolve) => (this.#whenGone = resolve));
    child.send({ type: 'close' });
    const cancelTimer = setTimeout(() => {
      for (const id of this.#calls.keys()) child.send({ type: 'cancel', id });
      this.#failAll(new RecuaError('shutting_down', 'The server is stopping and did not wait longer for this answer.'));
    }, drainMs);
    const killTimer = setTimeout(() => child.kill(), drainMs + killAfterMs);
    await gone;
    clearTimeout(cancelTimer);
    clearTimeout(killTimer);
  }
}

function cancelled(): RecuaError {
  return new RecuaError('cancelled', 'The request was cancelled.');
}

/** What can wait for another engine process; the rest was about the one that died. */
function generates(type: Call['message']['type']): boolean {
  return type === 'chat' || type === 'complete' || type === 'embed';
}

/** Whether a request is answered by this event. */
function isLast(event: EngineEvent): boolean {
  return event.kind !== 'accepted' && event.kind !== 'started' && event.kind !== 'delta';
}

function entryPath(entry: string | URL): string {
  return typeof entry === 'string' ? entry : fileURLToPath(entry);
}
