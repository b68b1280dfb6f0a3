// One running answer on the caller's side: engine events in, an async iterable of deltas out.
// Deltas are merged while nobody reads, so a slow reader costs at most the answer's own length in
// memory, but not so many tokens that one delta would take long to write.
import type { RecuaError } from '../../errors.js';
import type { Answer, Finish } from '../api.js';
import { merge } from '../merge.js';
import { apart, piece } from '../packed-tokens.js';
import type { Delta } from '../protocol.js';

interface Settle<T> {
  resolve(value: T): void;
  reject(error: RecuaError): void;
}

/** Deltas on their way to one reader. */
export class DeltaQueue implements AsyncIterable<Delta> {
  readonly #abandon: () => void;
  readonly #unread: Delta[] = [];
  #over = false;
  #error: { thrown: unknown } | undefined;
  /** A second reader gets what the first one leaves, and must not wait for ever. */
  readonly #waiting: (() => void)[] = [];

  /** Calls `abandon` if a reader leaves before the end. */
  constructor(abandon: () => void) {
    this.#abandon = abandon;
  }

  push(delta: Delta): void {
    const last = this.#unread.at(-1);
    if (last && (last.tokens?.count ?? 0) + (delta.tokens?.count ?? 0) <= piece) this.#unread[this.#unread.length - 1] = merge(last, delta);
    else this.#unread.push(delta);
    this.#wake();
  }

  /** Memory of the tokens in deltas that nobody has read yet. */
  get unreadBytes(): number {
    return this.#unread.reduce(
      (sum, { tokens, promptTokens = [] }) => [tokens, ...promptTokens].reduce((all, one) => all + (one?.bytes.length ?? 0), sum),
      0,
    );
  }

  /**
   * Ends the queue. The reader gets what is unread, and then the error, if any. False if it had
   * ended already.
   */
  stop(error?: { thrown: unknown }): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#error = error;
    this.#wake();
    return true;
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  [Symbol.asyncIterator](): AsyncGenerator<Delta, void, undefined> {
    const deltas = this.#deltas();
    const leave = deltas.return.bind(deltas);
    // Streams also leave while they wait for a delta. The generator would notice only after it.
    deltas.return = (value) => {
      this.#leave();
      return leave(value);
    };
    return deltas;
  }

  async *#deltas(): AsyncGenerator<Delta, void, undefined> {
    try {
      for (;;) {
        const delta = this.#unread.shift();
        if (delta) yield delta;
        else if (this.#error) throw this.#error.thrown;
        else if (this.#over) return;
        else {
          await new Promise<void>((resolve) => this.#waiting.push(resolve));
        }
      }
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    if (!this.#over) this.#abandon();
  }
}

export class RunningAnswer extends DeltaQueue implements Answer {
  readonly accepted: Promise<{ promptTokens: number; position: number }>;
  readonly finished: Promise<Finish>;
  used: Answer['used'];
  #accepted!: Settle<{ promptTokens: number; position: number }>;
  #finished!: Settle<Finish>;
  readonly endThinking: () => void;

  constructor(abandon: () => void, endThinking: () => void = () => undefined) {
    super(abandon);
    this.endThinking = endThinking;
    this.accepted = new Promise((resolve, reject) => (this.#accepted = { resolve, reject }));
    this.finished = new Promise((resolve, reject) => (this.#finished = { resolve, reject }));
    // Callers may use only one of the three; rejections of the others must not end the process.
    this.accepted.catch(() => {});
    this.finished.catch(() => {});
  }

  accept(promptTokens: number, position: number): void {
    this.used ??= { promptTokens, completionTokens: 0 };
    this.#accepted.resolve({ promptTokens, position });
  }

  override push(delta: Delta): void {
    if (delta.soFar) this.used = delta.soFar.usage;
    const { tokens, promptTokens } = delta;
    super.push({ ...delta, ...(tokens && { tokens: apart([tokens])[0]! }), ...(promptTokens && { promptTokens: apart(promptTokens) }) });
  }

  end(finish: Finish): void {
    this.used = finish.usage;
    this.#finished.resolve(finish);
    this.stop();
  }

  fail(error: RecuaError): void {
    if (!this.stop({ thrown: error })) return;
    this.#accepted.reject(error);
    this.#finished.reject(error);
  }
}
