// The process that runs cases, seen from the process that draws them: it may end, hang or grow with
// any case, and is then replaced.
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Kind, Outcome } from './kind.js';

export interface Reply {
  /** Undefined if a promise was broken; `why` says which. */
  outcome?: Outcome;
  why?: string;
  /** Milliseconds the case took there. */
  ms: number;
  /** Peak resident memory so far of all processes it needs. */
  peakBytes: number;
}

const entry = fileURLToPath(new URL('trying-main.js', import.meta.url));
const startMs = 60_000;
/** The last lines of its output. */
const lastLines = 12;

export class Trying {
  readonly #module: string;
  readonly #kind: Pick<Kind, 'mostMs' | 'heapMib'>;
  #child: ChildProcess | undefined;
  #said: string[] = [];
  #settle: ((reply: Reply) => void) | undefined;
  /** How many processes were needed. */
  started = 0;
  /** Resident memory before the first case. */
  beginBytes = 0;

  /** `module` exports the kind as its default. */
  constructor(module: string, kind: Pick<Kind, 'mostMs' | 'heapMib'>) {
    this.#module = module;
    this.#kind = kind;
  }

  async take(one: unknown, mostMs = this.#kind.mostMs): Promise<Reply> {
    if (!this.#child) {
      const reply = await this.#start();
      if (reply.why !== undefined) return reply;
      this.beginBytes = reply.peakBytes;
    }
    return await this.#ask({ one }, mostMs, `It takes longer than ${mostMs / 1_000} seconds.`);
  }

  /** The final check of the subject. The process ends afterwards. */
  async close(): Promise<Reply> {
    if (!this.#child) return { outcome: 'accepted', ms: 0, peakBytes: 0 };
    const reply = await this.#ask({}, startMs, 'It does not come to an end.');
    this.end();
    return reply;
  }

  /** At once. */
  end(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.removeAllListeners();
    child?.kill('SIGKILL');
  }

  #start(): Promise<Reply> {
    this.started++;
    this.#said = [];
    const { heapMib } = this.#kind;
    // Garbage does not count.
    const execArgv = heapMib === undefined ? [] : [`--max-old-space-size=${heapMib}`, '--max-semi-space-size=1'];
    const child = fork(entry, [this.#module], { execArgv, serialization: 'advanced', stdio: ['ignore', 'pipe', 'pipe', 'ipc'], detached: process.platform !== 'win32' });
    this.#child = child;
    for (const stream of [child.stdout!, child.stderr!]) stream.setEncoding('utf8').on('data', (text: string) => this.#said = [...this.#said, ...text.split('\n').filter(Boolean)].slice(-lastLines));
    child.on('message', (reply: Reply) => this.#settle?.(reply));
    child.on('close', (code, signal) => {
      if (this.#child === child) this.#child = undefined;
      this.#settle?.(this.#broken(`The process ended with ${signal ?? `code ${code}`}.`));
    });
    return this.#wait(startMs, 'The process does not start.');
  }

  #ask(message: object, mostMs: number, slow: string): Promise<Reply> {
    this.#child!.send(message);
    return this.#wait(mostMs, slow);
  }

  #wait(mostMs: number, slow: string): Promise<Reply> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#settle?.(this.#broken(slow));
        this.#killAll();
      }, mostMs);
      this.#settle = (reply) => {
        clearTimeout(timer);
        this.#settle = undefined;
        resolve(reply);
      };
    });
  }

  /** It hangs, and so do the processes it started. */
  #killAll(): void {
    const pid = this.#child?.pid;
    this.end();
    try {
      if (pid !== undefined && process.platform !== 'win32') process.kill(-pid, 'SIGKILL');
    } catch { /* They have ended. */ }
  }

  #broken(why: string): Reply {
    return { why: [why, ...this.#said].join('\n'), ms: this.#kind.mostMs, peakBytes: 0 };
  }
}
