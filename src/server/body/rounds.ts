// Spreads requests that arrive together over several turns of the event loop, so that other work
// (/health, pieces of streams) waits for one of them and not for all. Gateway process; used by
// json-body and for long lists.

export class Rounds {
  readonly #waiting: (() => void)[] = [];
  #isTaken = false;

  /**
   * Waits for a turn of its own. Undefined if this one is still free; a second call in the same
   * turn gets a later one.
   */
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

/** Of the only event loop of this process. */
export const rounds = new Rounds();
