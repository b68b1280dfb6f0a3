// Spreads requests that came together over the rounds of the event loop, so that what comes between
// them (a look at /health, the pieces of streams) waits for one of them and not for all. Gateway
// process; used by json-body.

export class Rounds {
  readonly #waiting: (() => void)[] = [];
  #isTaken = false;

  /** Undefined where nobody had this round yet. */
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
