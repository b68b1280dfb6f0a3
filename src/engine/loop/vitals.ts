// Signs of life of an engine: how much each of its threads has done, and whether it has work. The
// gateway checks every few seconds, and ends a process if a part of it has work but makes no
// progress (engine/gateway/watch). Runs where the engine does.
import type { NativeContext } from '../../addon/addon.js';
import type { LoadedModel } from './loaded.js';
import type { Pulse, Work } from '../protocol.js';

export class Vitals {
  readonly #loaded: LoadedModel;
  readonly #busy: () => boolean;
  readonly #embedding: () => Work | undefined;
  readonly #wake: () => void;
  #steps = 0;
  #unhurried = 0;
  #pooled = 0;
  #pooling = false;
  #isAsked = false;

  /** `busy`: the loop has sequences, a step or a job. `wake` makes the loop call `answer`. */
  constructor(loaded: LoadedModel, busy: () => boolean, embedding: () => Work | undefined, wake: () => void) {
    this.#loaded = loaded;
    this.#busy = busy;
    this.#embedding = embedding;
    this.#wake = wake;
  }

  /** The idle loop is asked for a sign of life. */
  get isAsked(): boolean {
    return this.#isAsked;
  }

  /** A step ended, or other work of the compute thread. */
  stepped(): void {
    this.#steps++;
  }

  /** Runs work of the loop that has no time limit, such as writing a file. */
  async unhurried<T>(work: Promise<T>): Promise<T> {
    this.#unhurried++;
    try {
      return await work;
    } finally {
      this.#unhurried--;
      this.#steps++;
    }
  }

  /** Gives idle parts something to do, so that the next look shows whether they still work. */
  look(): Pulse {
    const { context } = this.#loaded;
    const embedding = this.#embedding() ?? { busy: false, done: 0 };
    const busy = this.#busy() || this.#isAsked;
    if (context && !busy && !embedding.busy) {
      this.#isAsked = true;
      this.#wake();
    }
    if (!this.#pooling) void this.#askPool();
    return {
      // One thread computes for the context and the embedder, so either's progress is both's. The
      // backend polls at each node of the graph, so a long step makes progress, too.
      compute: {
        busy: (busy && this.#unhurried === 0) || embedding.busy,
        done: this.#steps + (context?.polls() ?? 0) + embedding.done,
      },
      pool: { busy: true, done: this.#pooled },
    };
  }

  /**
   * Between two steps: if asked, a call on the compute thread that changes nothing, since no
   * sequence has that many positions.
   */
  async answer(context: NativeContext): Promise<void> {
    if (!this.#isAsked) return;
    this.#isAsked = false;
    await context.removeSequence(0, context.contextSize, -1).catch(() => false);
    this.#steps++;
  }

  /** A call on the pool that tokenizes, renders templates and compiles grammars. */
  async #askPool(): Promise<void> {
    this.#pooling = true;
    await this.#loaded.model.tokenize('a', false, false).catch(() => undefined);
    this.#pooled++;
    this.#pooling = false;
  }
}
