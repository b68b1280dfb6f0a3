// When the next engine process starts after one has ended: at once, after a pause, or not for a
// longer while. Used by engine/gateway/client.
import { RecuaError } from '../../errors.js';
import { CrashRecord } from './crash-record.js';

/** When to restart a dead engine process. */
export interface RestartPolicy {
  /** Pause before the first restart; doubles with each further end within the window … */
  delayMs: number;
  /** … up to this. If no process can be started for long, one is tried this often. */
  mostDelayMs: number;
  /** After this many crashes … */
  crashes: number;
  /** … within this time, the next restart waits … */
  windowMs: number;
  /** … for this long. So it does after twice as many crashes in a row, each by another request. */
  holdOffMs: number;
  /** The pause after a process that could not load the model, such as for want of its file. */
  refusedDelayMs: number;
  /** The model fails if the system has started no process for this long … */
  unstartableMs: number;
  /** … or for this long when the model is loaded for the first time. */
  firstUnstartableMs: number;
}

const defaultPolicy: RestartPolicy = {
  delayMs: 100, mostDelayMs: 5_000, crashes: 5, windowMs: 60_000, holdOffMs: 60_000, refusedDelayMs: 1_000,
  unstartableMs: 20_000, firstUnstartableMs: 2_000,
};

/**
 * How a process ended. `clean`: in order. `terminated`: by somebody's SIGTERM, before it could end
 * in order. `unstarted`: the system did not start it.
 */
export type Ending = 'clean' | 'terminated' | 'died' | 'unstarted';

export interface End {
  ending: Ending;
  /** The reason, such as `signal SIGSEGV`. */
  how: string;
  /** It made no progress, and was ended for that. */
  stuck: boolean;
  /** A request was to blame, for this death and that many before. */
  deathsBefore?: number | undefined;
  /** Its last output, as a part of a sentence. */
  output: string;
}

/** The next process starts after a time. With an error, the model has failed until then. */
export interface Next {
  delayMs: number;
  error?: RecuaError;
}

export class Restarts {
  readonly #policy: RestartPolicy;
  readonly #record: CrashRecord;
  #isLoading = true;
  #wasEverReady = false;
  /** In a row while loading. A large model's load takes longer than the crashes' window. */
  #loadDeaths = 0;
  #loadEnds = 0;
  /** Loads in a row that failed with an error. */
  #refusals = 0;
  /** Since when no process could be started. */
  #noneSinceMs: number | undefined;

  constructor(policy: Partial<RestartPolicy> = {}, record = new CrashRecord()) {
    this.#policy = { ...defaultPolicy, ...policy };
    this.#record = record;
  }

  get holdOffMs(): number {
    return this.#policy.holdOffMs;
  }

  /** A process has loaded the model. */
  loaded(): void {
    // A shortage is over.
    if (this.#noneSinceMs !== undefined) this.#record.otherEnds = [];
    this.#noneSinceMs = undefined;
    this.#isLoading = false;
    this.#wasEverReady = true;
    this.#loadDeaths = this.#loadEnds = this.#refusals = 0;
  }

  /** A process has evaluated all of a request, or much of it. */
  survived(): void {
    this.#record.blamed = 0;
  }

  /**
   * A process could not load the model, without dying. The first load fails for good. Later the
   * file may be missing for a moment, while another takes its place, or memory may become free.
   */
  refused(error: RecuaError): Next {
    if (!this.#wasEverReady) return { delayMs: 0, error };
    const { refusedDelayMs, mostDelayMs, holdOffMs } = this.#policy;
    if (this.#refusals++ === 0) return { delayMs: refusedDelayMs };
    return { delayMs: Math.min(mostDelayMs * 2 ** (this.#refusals - 2), holdOffMs), error };
  }

  /** A process ended, or none could be started. */
  after(end: End): Next {
    const nowMs = performance.now();
    const { windowMs } = this.#policy;
    const isRecent = (atMs: number): boolean => nowMs - atMs < windowMs;
    const deaths = this.#record.deaths = this.#record.deaths.filter(isRecent);
    const otherEnds = this.#record.otherEnds = this.#record.otherEnds.filter(isRecent);
    if (end.deathsBefore !== undefined) {
      this.#record.blamed++;
      const from = Math.max(0, deaths.length - end.deathsBefore);
      otherEnds.push(nowMs, ...deaths.splice(from));
    } else if (end.ending !== 'died') otherEnds.push(nowMs);
    // A first load is tried only twice. Its deaths count for no engine that serves later.
    else if (this.#wasEverReady) deaths.push(nowMs);
    const wasLoading = this.#isLoading;
    this.#isLoading = true;
    if (wasLoading && end.ending !== 'unstarted') this.#loadEnds++;
    if (wasLoading && end.ending === 'died') this.#loadDeaths++;
    if (end.ending === 'unstarted') return this.#afterNone(end, nowMs, this.#noneSinceMs ??= nowMs);
    this.#noneSinceMs = undefined;
    if (!this.#wasEverReady) return this.#afterFirst(end);
    if (end.stuck && wasLoading) return this.#failed('model_stuck', noLoad);
    if (end.ending === 'died') {
      const { crashes } = this.#policy;
      const last = `(last by ${end.how})`;
      if (this.#loadDeaths >= crashes) return this.#failed('model_crashed', `The engine process died ${this.#loadDeaths} times in a row while loading ${last}`);
      const blamed = end.deathsBefore === undefined ? 0 : this.#record.blamed;
      // That many are not all guilty: this machine cannot do the work.
      if (blamed >= 2 * crashes) return this.#failed('model_crashed', `The engine process died of ${blamed} different requests in a row, and did none in between ${last}`);
      if (deaths.length >= crashes) return this.#failed('model_crashed', `The engine process died ${deaths.length} times within ${seconds(windowMs)} ${last}`);
    }
    return { delayMs: this.#pauseMs() };
  }

  /** The system may be short of files, memory or processes for a while. */
  #afterNone({ how }: End, nowMs: number, sinceMs: number): Next {
    const { unstartableMs, firstUnstartableMs, mostDelayMs } = this.#policy;
    if (nowMs - sinceMs < (this.#wasEverReady ? unstartableMs : firstUnstartableMs)) return { delayMs: this.#pauseMs() };
    const code = /\bE[MN]FILE\b/.test(how) ? 'too_many_open_files' : 'model_crashed';
    return this.#failed(code, `For ${seconds(nowMs - sinceMs)}, the engine process ${how}`, mostDelayMs);
  }

  /** A process ended before one had ever loaded the model. */
  #afterFirst({ ending, how, stuck, output }: End): Next {
    const isOver = this.#loadDeaths >= 2 || this.#loadEnds >= this.#policy.crashes;
    if (!stuck && !isOver) return { delayMs: 0 };
    const end = ending === 'died' ? 'died' : `was ended ${this.#loadEnds} times`;
    const message = stuck ? noLoad : `The engine process ${end} while loading the model (${how})${output}`;
    return { delayMs: 0, error: new RecuaError('model_unusable', `${message}.`) };
  }

  #pauseMs(): number {
    const { delayMs, mostDelayMs } = this.#policy;
    const { deaths, otherEnds } = this.#record;
    return Math.min(delayMs * 2 ** (deaths.length + otherEnds.length - 1), mostDelayMs);
  }

  #failed(code: 'model_crashed' | 'model_stuck' | 'too_many_open_files', text: string, delayMs = this.#policy.holdOffMs): Next {
    const again = this.#wasEverReady ? `; it is tried again in ${seconds(delayMs)}` : '';
    return { delayMs, error: new RecuaError(code, `${text}${again}.`) };
  }
}

const noLoad = 'The engine process made no progress while loading the model, and was ended';

const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;
