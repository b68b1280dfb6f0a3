// Who asks /health/ready again and again, such as a load balancer. A stop tells them first, and
// takes requests until they have heard it, so that they send the next ones elsewhere.

/** HAProxy and Kubernetes, as `recua cluster config` sets them, believe the second refusal. */
const refusals = 2;
/** Who would take longer to hear it is not waited for. */
const mostWaitMs = 5_000;
/** A prober may be this late. */
const lateMs = 500;
/** Of those that asked last. */
const mostKnown = 100;

interface Prober {
  /** By performance.now(). */
  lastMs: number;
  /** Between its last two questions. */
  everyMs: number;
  refused: number;
}

export class Probers {
  /** By address. */
  readonly #known = new Map<string, Prober>();
  #isLeaving = false;
  #heard = (): void => undefined;

  /** Whether the server still takes requests, but is about to stop. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Somebody asks whether the server is ready. */
  note(address: string): void {
    const nowMs = performance.now();
    const { lastMs = -Infinity, refused = 0 } = this.#known.get(address) ?? {};
    this.#known.delete(address);
    this.#known.set(address, { lastMs: nowMs, everyMs: nowMs - lastMs, refused: refused + (this.#isLeaving ? 1 : 0) });
    if (this.#known.size > mostKnown) this.#known.delete(this.#known.keys().next().value!);
    this.#heard();
  }

  /** Resolves when those that ask regularly have heard it twice, or should have. */
  async leave(withinMs: number): Promise<void> {
    this.#isLeaving = true;
    const nowMs = performance.now();
    const told = [...this.#known].filter(([, { lastMs, everyMs }]) => nowMs - lastMs <= everyMs + lateMs && refusals * everyMs + lateMs <= Math.min(withinMs, mostWaitMs));
    const isKnown = (): boolean => told.every(([address]) => (this.#known.get(address)?.refused ?? refusals) >= refusals);
    if (isKnown()) return;
    const longestMs = Math.max(...told.map(([, { everyMs }]) => refusals * everyMs + lateMs));
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, longestMs);
      this.#heard = () => {
        if (!isKnown()) return;
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
