// Signs of life of an engine: what each of its threads has done so far, and whether it has anything
// to do. The gateway looks every few seconds, and ends a process of which a part has work and does
// none of it (engine/gateway/watch). Runs where the engine does.
import type { NativeContext } from '../../addon/addon.js';
import type { LoadedModel } from './loaded.js';
import type { Pulse, Work } from '../protocol.js';

export class Vitals {
  readonly #loaded: LoadedModel;
  readonly #busy: () => boolean;
  readonly #embedding: () => Work | undefined;
  readonly #between: (job: () => Promise<void>) => void;
  #steps = 0;
  #unhurried = 0;
  #pooled = 0;
  #pooling = false;

  /**
   * `busy`: the loop has sequences, a step or a job. `between` has it do a job between two steps.
   */
  constructor(loaded: LoadedModel, busy: () => boolean, embedding: () => Work | undefined, between: (job: () => Promise<void>) => void) {
    this.#loaded = loaded;
    this.#busy = busy;
    this.#embedding = embedding;
    this.#between = between;
  }

  /** A step ended, or some other work of the compute thread. */
  stepped(): void {
    this.#steps++;
  }

  /** Work of the loop that may take as long as it takes, such as writing a file. */
  async unhurried<T>(work: Promise<T>): Promise<T> {
    this.#unhurried++;
    try {
      return await work;
    } finally {
      this.#unhurried--;
      this.#steps++;
    }
  }

  /** What idles gets something to do, so that the next look tells whether it still can. */
  look(): Pulse {
    const { context } = this.#loaded;
    const embedding = this.#embedding() ?? { busy: false, done: 0 };
    const busy = this.#busy();
    if (context && !busy && !embedding.busy) this.#between(() => this.#touch(context));
    if (!this.#pooling) void this.#askPool();
    return {
      // One thread computes for the context and the embedder, so either's progress is both's. While
      // it does, the backend asks at each node of the graph whether to go on: a step may take as
      // long as it takes.
      compute: {
        busy: (busy && this.#unhurried === 0) || embedding.busy,
        done: this.#steps + (context?.polls() ?? 0) + embedding.done,
      },
      pool: { busy: true, done: this.#pooled },
    };
  }

  /** A turn on the compute thread that changes nothing: no sequence holds so many positions. */
  async #touch(context: NativeContext): Promise<void> {
    await context.removeSequence(0, context.contextSize, -1).catch(() => false);
    this.#steps++;
  }

  /** A turn on the threads that tokenize, render templates and compile grammars. */
  async #askPool(): Promise<void> {
    this.#pooling = true;
    await this.#loaded.model.tokenize('a', false, false).catch(() => undefined);
    this.#pooled++;
    this.#pooling = false;
  }
}
