// The gateway's engine: keeps one engine process alive and sends it the requests of
// engine/gateway/requests. When the process dies, the next one continues all of them; a request
// that kills processes fails with `model_crashed` (engine/gateway/suspects).
import { RecuaError } from '../../errors.js';
import type { EngineSettings, EngineState } from '../api.js';
import { rivalsOf } from '../give-way.js';
import { ProofGate } from '../proof/gate.js';
import { TokenRate } from './activity.js';
import { EngineRequests, type PendingRequest } from './requests.js';
import { Child, couldNotStart, crashWords } from './child.js';
import type { CrashRecord } from './crash-record.js';
import { engineEntry, entryPath, wantedOf, type Wanted } from './spare-process.js';
import { Restarts, type Ending, type RestartPolicy } from './restarts.js';
import { Suspects } from './suspects.js';
import type { EngineOptions, EngineStatus, FromEngine, LogLevel, ModelDescription } from '../protocol.js';
import { ownInstallation } from '../../system/installation.js';
import { defaultWatch, Watch, type Part, type WatchPolicy } from './watch.js';

export interface ClientSettings extends EngineSettings {
  /** False: an idle program may end without closing the engine. Default: true. */
  keepAlive?: boolean;
  /** Whether `sandbox: 'auto'` may use a sandbox. Default: true. */
  autoSandbox?: boolean;
  /** The file to fork. Tests pass one with a fake addon. */
  entry?: string | URL;
  restart?: Partial<RestartPolicy>;
  /** Of the model's engines before this one. */
  record?: CrashRecord;
  /** The options for a load after a crash, if the model's file may be at another path then. */
  optionsNow?: () => Promise<EngineOptions>;
  /** When to end an engine process that makes no progress. */
  watch?: WatchPolicy;
}

/**
 * A load may go this many times longer without a sign of life than a request: one operation of a
 * first token may read gigabytes from a slow disk.
 */
const loadPatience = 10;
/** After the drain time and the cancels, the process has this long to end by itself. */
const killAfterMs = 2_000;
/** Lines of output quoted in the log when the process dies. */
const lastLines = 5;

/** Starts the engine process and returns at once; `ready()` and `state` show the progress. */
export function startEngine(options: EngineOptions, settings: ClientSettings = {}): EngineRequests {
  return new EngineClient(options, settings);
}

class EngineClient extends EngineRequests {
  #options: EngineOptions;
  readonly #settings: ClientSettings;
  readonly #log: NonNullable<EngineSettings['log']>;
  readonly #logLevel: LogLevel;
  readonly #told: NonNullable<EngineSettings['onState']>;
  readonly #entry: string;
  #wanted: Wanted;
  readonly #proof: ProofGate | undefined;
  readonly #restarts: Restarts;
  readonly #watchPolicy: WatchPolicy;
  #watch: Watch | undefined;
  /** The stuck part, if the watch ended the process. */
  #stuck: Part | undefined;
  /** Why its process has not started although there is one. */
  #notStarted: string | undefined;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #child: Child | undefined;
  #status: EngineStatus = { running: 0, waiting: 0, tokens: 0 };
  readonly #rate = new TokenRate();
  #restartTimer: NodeJS.Timeout | undefined;
  #output: string[] = [];
  #everReady = false;
  #fingerprint = '';
  readonly #readyWaiters: { resolve(model: ModelDescription): void; reject(error: RecuaError): void }[] = [];
  #closing: Promise<void> | undefined;
  #whenGone: (() => void) | undefined;
  readonly #suspects: Suspects;
  crashes = 0;

  constructor(options: EngineOptions, settings: ClientSettings) {
    super();
    this.#options = options;
    this.#settings = settings;
    this.#log = settings.log ?? (() => {});
    this.#logLevel = settings.log ? settings.logLevel ?? 'debug' : 'error';
    this.#told = settings.onState ?? (() => {});
    this.#entry = entryPath(settings.entry ?? engineEntry);
    this.#suspects = new Suspects(settings.record);
    this.#restarts = new Restarts(settings.restart, settings.record);
    this.#watchPolicy = settings.watch ?? defaultWatch;
    this.#wanted = wantedOf(options, settings);
    this.#proof = settings.entry === undefined ? new ProofGate(options, this.#log) : undefined;
    this.#spawn();
  }

  get state(): EngineState {
    if (this.#state.state !== 'ready') return this.#state;
    // What a stuck engine has not told yet waits, too.
    const waiting = Math.max(this.#status.waiting, this.working - this.#status.running);
    return { ...this.#state, status: { ...this.#status, waiting } };
  }

  get tokensPerSecond(): number {
    return this.#rate.perSecond(performance.now());
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  ready(): Promise<ModelDescription> {
    const state = this.#state;
    if (state.state === 'ready') return Promise.resolve(state.model);
    const refusal = state.state === 'failed' || state.state === 'closed' ? this.refusal() : undefined;
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.#readyWaiters.push({ resolve, reject });
      this.changed();
    });
  }

  close(drainMs = 0, sleeps = false): Promise<void> {
    return (this.#closing ??= this.#close(drainMs, sleeps && this.#state.state === 'ready'));
  }

  protected submit(call: PendingRequest): void {
    const refusal = this.#suspects.refusal(call);
    if (refusal) this.settle(call.id)!.fail(refusal);
    else if (this.#state.state === 'ready' && !this.#suspects.onTrial) this.#send(call);
    else this.keep(call);
  }

  protected override keep(call: PendingRequest): void {
    // The call is one of them.
    const isFull = rivalsOf(call, [...this.requests.values()]).length > this.#options.parallel + this.#options.queueSize;
    if (!isFull || call.follows || this.makeRoom(call)) return;
    this.settle(call.id)!.fail(new RecuaError('queue_full', 'Too many requests wait for the engine to come back; try again in a moment.'));
  }

  #send(call: PendingRequest): void {
    const unsendable = call.deliver((message, gone) => this.#child!.send(message, gone));
    if (unsendable) this.settle(call.id)?.fail(unsendable);
  }

  protected withdraw(id: number): void {
    this.#child?.send({ type: 'cancel', id });
  }

  protected endThinking(id: number): void {
    this.#child?.send({ type: 'endThinking', id });
  }

  protected override survived(call: PendingRequest): void {
    if (call.evaluates) this.#restarts.survived();
    this.#suspects.acquit(call);
  }

  protected override progressed(call: PendingRequest): void {
    if (!this.#suspects.isCleared(call)) return;
    this.#restarts.survived();
    if (call === this.#suspects.onTrial) this.#sendAll();
  }

  /** Sends all unsent requests; during a trial, only the suspect. */
  #sendAll(): void {
    if (this.#state.state !== 'ready') return;
    const trial = this.#suspects.next((call) => this.requests.has(call.id));
    for (const call of trial ? [trial] : this.unsent) if (!call.sent) this.#send(call);
  }

  /** An idle program stays alive for its own requests, not for an engine that it does not use. */
  protected override changed(): void {
    const wanted = this.requests.size > 0 || this.#readyWaiters.length > 0 || this.#closing !== undefined;
    if (wanted) this.#restartTimer?.ref();
    else this.#restartTimer?.unref();
    this.#child?.hold(this.#settings.keepAlive !== false || wanted);
    const { onTrial } = this.#suspects;
    if (onTrial && !this.requests.has(onTrial.id)) this.#sendAll();
  }

  #turn(state: EngineState): void {
    this.#state = state;
    this.#told(this.state);
  }

  /** Why no request can be accepted now; undefined if one can, at once or after a restart. */
  protected refusal(): RecuaError | undefined {
    if (this.#closing) return new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');
    if (this.#state.state === 'failed') return this.#state.error;
    if (this.#state.state === 'loading') return new RecuaError('model_loading', 'The model is still loading; try again in a moment.');
    return undefined;
  }

  /** Starts the process, at once or after the CPU library has proved the kernels it needs. */
  #spawn(): void {
    const proving = this.#proof?.pass();
    if (!proving) return this.#start();
    proving.then(() => {
      if (!this.#closing) this.#start();
    }, (thrown: unknown) => this.#cannotStart(thrown));
  }

  #start(): void {
    this.#output = [];
    this.#stuck = this.#notStarted = undefined;
    let child: Child;
    try {
      child = this.#child = this.#newChild();
    } catch (thrown) {
      return void setImmediate(() => this.#cannotStart(thrown));
    }
    child.send({ type: 'load', version: ownInstallation().version, options: this.#options, logLevel: this.#logLevel });
    this.#watchOver(child, { ...this.#watchPolicy, stuckMs: this.#watchPolicy.stuckMs * loadPatience });
    this.changed();
  }

  /** A lack of files or memory may pass, as after a crash; that of a sandbox or a library stays. */
  #cannotStart(thrown: unknown): void {
    const { errno } = thrown as NodeJS.ErrnoException;
    if (this.#closing) return;
    if (errno === undefined) this.#giveUp(RecuaError.from(thrown));
    else this.#gone(couldNotStart(thrown as Error), 'unstarted');
  }

  #newChild(): Child {
    const child = new Child(this.#entry, this.#wanted, {
      // One that reported 'failed' has nothing more to say.
      message: (message) => void (this.#child === child && this.#receive(message)),
      output: (line, isOwn = false) => {
        if (this.#everReady && !isOwn && !crashWords.test(line)) {
          this.#log('debug', `the engine process printed ${line.length} characters, not logged because they may quote a request`);
          return;
        }
        this.#output = [...this.#output.slice(1 - lastLines), line];
        this.#log('warn', line);
      },
      gone: (how, ending) => {
        // A process that reported 'failed' is not #child any more; another may run by now.
        if (this.#child !== child) return;
        if (this.#notStarted !== undefined) this.#gone(this.#notStarted, 'unstarted');
        else this.#gone(how, ending);
      },
    });
    return child;
  }

  #receive(message: FromEngine): void {
    if (message.type === 'log') this.#log(message.level, message.text);
    else if (message.type === 'pulse') this.#watch?.heard(message.pulse);
    else if (message.type === 'events') {
      this.#status = message.status;
      this.#rate.note(message.status.tokens, performance.now());
      if (message.generated) this.note(message.generated);
      for (const event of message.events) this.dispatch(event);
    } else if (this.#closing) return;
    else if (message.type === 'progress') {
      if (this.#state.state === 'loading' || this.#state.state === 'restarting') this.#turn({ state: this.#state.state, fraction: message.fraction });
    } else if (this.#state.state === 'ready') throw new Error(`A process that is ready said ${message.type}.`);
    else if (message.type === 'failed') {
      this.#child = undefined;
      this.#cannotLoad(RecuaError.fromPlain(message.error));
    } else this.#becomeReady(message.model);
  }

  #becomeReady(model: ModelDescription): void {
    const isOther = this.#everReady && model.fingerprint !== this.#fingerprint;
    if (isOther) this.#suspects.startOver(this.requests.values());
    if (this.#everReady) this.#log(isOther ? 'warn' : 'info', `the engine process runs again${isOther ? ', with a file of the model that has changed; all answers begin anew' : ''}`);
    this.#fingerprint = model.fingerprint;
    this.#everReady = true;
    this.#restarts.loaded();
    this.#status = { running: 0, waiting: 0, tokens: 0 };
    this.#turn({ state: 'ready', model, status: this.#status });
    for (const { resolve } of this.#readyWaiters.splice(0)) resolve(model);
    this.#sendAll();
    const { startMs: _, ...policy } = this.#watchPolicy;
    this.#watchOver(this.#child!, policy);
    this.changed();
  }

  #watchOver(child: Child, policy: Omit<WatchPolicy, 'startMs'> & Partial<WatchPolicy>): void {
    this.#watch?.stop();
    this.#watch = new Watch(policy, () => child.send({ type: 'look' }), (part, why) => this.#giveUpOn(child, part, why));
    this.#watch.start();
  }

  /** Kills a stuck process; its exit is then handled like a crash. */
  #giveUpOn(child: Child, part: Part, why: string): void {
    if (this.#child !== child || this.#closing || this.#stuck) return;
    if (part === 'start') {
      this.#notStarted = `could not start: ${why}; the system may be short of threads or memory`;
      return child.kill();
    }
    this.#log('error', `the engine process is stuck: ${why}; ${this.#everReady ? 'restarting' : 'ending'} it`);
    this.#stuck = part;
    // Its end may take a while, and until then no request can succeed.
    if (this.#everReady) this.#turn({ state: 'restarting', fraction: 0 });
    child.kill();
  }

  /**
   * If the first load fails, the engine has failed for good. A later load is retried: the file
   * existed before, and memory may become free.
   */
  #giveUp(error: RecuaError, holdOffMs = this.#restarts.holdOffMs): void {
    this.#watch?.stop();
    this.failAll(error);
    for (const { reject } of this.#readyWaiters.splice(0)) reject(error);
    if (!this.#everReady) return this.#turn({ state: 'failed', error });
    this.#turn({ state: 'failed', error, retryAtMs: Date.now() + holdOffMs });
    this.#restartIn(holdOffMs);
  }

  #cannotLoad(error: RecuaError): void {
    this.#watch?.stop();
    const { delayMs, error: failure } = this.#restarts.refused(error);
    if (failure) return this.#giveUp(failure, delayMs);
    this.#log('warn', `the model cannot be loaded again, and is tried once more: ${error.message}`);
    this.#restartIn(delayMs);
  }

  #restartIn(delayMs: number): void {
    // The caller may have closed the engine when it learned of the failure.
    if (this.#closing) return;
    this.#restartTimer = setTimeout(() => {
      this.#turn({ state: this.#everReady ? 'restarting' : 'loading', fraction: 0 });
      if (!this.#settings.optionsNow) return this.#spawn();
      this.#settings.optionsNow().then((options) => {
        this.#options = options;
        this.#wanted = wantedOf(options, this.#settings);
        if (!this.#closing) this.#spawn();
      }).catch((thrown: unknown) => this.#cannotStart(thrown));
    }, delayMs);
    this.changed();
  }

  #gone(how: string, ending: Ending): void {
    this.#child = undefined;
    this.#watch?.stop();
    this.#watch = undefined;
    this.#status = { running: 0, waiting: 0, tokens: 0 };
    this.#whenGone?.();
    if (this.#closing) {
      this.failAll(new RecuaError('shutting_down', 'The engine stopped before the answer was complete.'));
      return;
    }
    this.#crashed(how, ending);
  }

  #crashed(how: string, ending: Ending): void {
    if (ending !== 'unstarted') this.crashes++;
    if (how === 'signal SIGILL') this.#proof?.doubt();
    const output = this.#output.length > 0 ? `; its last output: ${this.#output.join(' | ')}` : '';
    const end = ending === 'clean' ? 'ended by itself' : ending === 'unstarted' ? how : `died (${how})`;
    this.#log('error', `the engine process ${end}${output}`);
    const stuck = this.#stuck;
    this.#stuck = undefined;
    const error = stuck
      ? new RecuaError('model_stuck', 'The engine process made no progress while it worked on this request, and was ended; it is being restarted.')
      : new RecuaError('model_crashed', `The engine process ${end} while it worked on this request; it is being restarted.`);
    // Before requests are settled: the others must wait for the next process.
    if (this.#everReady && this.#state.state !== 'restarting') this.#turn({ state: 'restarting', fraction: 0 });
    const lost = new Set([...this.requests.values()].filter((call) => !call.survives));
    const guilty = this.#suspects.judge(this.requests.values(), ending !== 'died', stuck);
    this.failAll(error, (call) => lost.has(call) || guilty.includes(call));
    const { size } = this.requests;
    if (size > 0) this.#log('warn', `${size === 1 ? '1 request goes' : `${size} requests go`} on in the next engine process`);

    const deathsBefore = guilty[0] && guilty[0].deaths - 1;
    const { delayMs, error: failure } = this.#restarts.after({ ending, how, stuck: stuck !== undefined, deathsBefore, output });
    if (failure) return this.#giveUp(failure, delayMs);
    if (!this.#everReady && delayMs === 0) return this.#spawn();
    this.#restartIn(delayMs);
  }

  async #close(drainMs: number, sleeps: boolean): Promise<void> {
    this.#turn({ state: 'closed' });
    this.#watch?.stop();
    clearTimeout(this.#restartTimer);
    this.#proof?.stop();
    const stopped = new RecuaError('shutting_down', 'The engine is stopping.');
    for (const { reject } of this.#readyWaiters.splice(0)) reject(stopped);
    const child = this.#child;
    if (!child) return this.failAll(stopped);
    const gone = new Promise<void>((resolve) => (this.#whenGone = resolve));
    // close() waits for the process's end, even when no timer is left.
    child.hold(true);
    child.send({ type: 'close', sleeps });
    const cancelTimer = setTimeout(() => {
      for (const id of this.requests.keys()) child.send({ type: 'cancel', id });
      this.failAll(new RecuaError('shutting_down', 'The server is stopping and did not wait longer for this answer.'));
    }, drainMs);
    const killTimer = setTimeout(() => child.kill(), drainMs + killAfterMs + (sleeps ? this.#options.sleep?.mostMs ?? 0 : 0));
    await gone;
    clearTimeout(cancelTimer);
    clearTimeout(killTimer);
  }
}
