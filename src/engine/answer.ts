// One running answer on the gateway side: events of the engine process in, an async iterable of deltas out.
// Deltas are merged while nobody reads, so that a slow reader costs at most the answer's own length.
import type { RecuaError } from '../errors.js';
import type { Answer, Finish } from './api.js';
import type { Delta } from './protocol.js';

interface Settle<T> {
  resolve(value: T): void;
  reject(error: RecuaError): void;
}

export class RunningAnswer implements Answer {
  readonly accepted: Promise<{ promptTokens: number }>;
  readonly finished: Promise<Finish>;
  #accepted!: Settle<{ promptTokens: number }>;
  #finished!: Settle<Finish>;
  readonly #abandon: () => void;
  #unread: Delta | undefined;
  #over = false;
  #error: RecuaError | undefined;
  #wake: (() => void) | undefined;

  /** `abandon` is called when the reader leaves the loop before the end. */
  constructor(abandon: () => void) {
    this.#abandon = abandon;
    this.accepted = new Promise((resolve, reject) => (this.#accepted = { resolve, reject }));
    this.finished = new Promise((resolve, reject) => (this.#finished = { resolve, reject }));
    // Callers may look at one of the three only; the others must not bring the process down.
    this.accepted.catch(() => {});
    this.finished.catch(() => {});
  }

  accept(promptTokens: number): void {
    this.#accepted.resolve({ promptTokens });
  }

  push(delta: Delta): void {
    this.#unread = this.#unread ? merge(this.#unread, delta) : delta;
    this.#wake?.();
  }

  end(finish: Finish): void {
    this.#over = true;
    this.#finished.resolve(finish);
    this.#wake?.();
  }

  fail(error: RecuaError): void {
    if (this.#over) return;
    this.#over = true;
    this.#error = error;
    this.#accepted.reject(error);
    this.#finished.reject(error);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Delta> {
    try {
      for (;;) {
        if (this.#unread) {
          const delta = this.#unread;
          this.#unread = undefined;
          yield delta;
        } else if (this.#error) throw this.#error;
        else if (this.#over) return;
        else {
          await new Promise<void>((resolve) => (this.#wake = resolve));
          this.#wake = undefined;
        }
      }
    } finally {
      if (!this.#over) this.#abandon();
    }
  }
}

/** Both deltas as one. Arguments of one tool call are concatenated. */
export function merge(a: Delta, b: Delta): Delta {
  const merged: Delta = { ...a };
  if (b.content !== undefined) merged.content = (a.content ?? '') + b.content;
  if (b.reasoning !== undefined) merged.reasoning = (a.reasoning ?? '') + b.reasoning;
  if (b.toolCalls) {
    const calls = (a.toolCalls ?? []).map((call) => ({ ...call }));
    for (const call of b.toolCalls) {
      const known = calls.find(({ index }) => index === call.index);
      if (!known) calls.push({ ...call });
      else {
        if (call.id !== undefined) known.id ??= call.id;
        if (call.name !== undefined) known.name ??= call.name;
        if (call.arguments !== undefined) known.arguments = (known.arguments ?? '') + call.arguments;
      }
    }
    merged.toolCalls = calls;
  }
  return merged;
}
