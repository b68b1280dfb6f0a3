// Spreads requests that arrive together over several turns of the event loop, so that other work
// (/health, pieces of streams) waits for one of them and not for all. Gateway process; used by
// json-body.

export class Rounds {
  readonly #waiting: (() => void)[] = [];
  #isTaken = false;

  /** Undefined if this turn is still free. */
  next(): Promise<void> | undefined {
    if (this.#isTaken) return new Promise((resolve) => void this.#waiting.push(resolve));
    this.#isTaken = true;
    setImmediate(this.#pass);
    return undefined;
  }

  readonly #pass = (): void => {
    const first = this.#waiting.shift();
    this.#isTaken = first !== undefined;
    if (!first) return;
    first();
    setImmediate(this.#pass);
  };
}
