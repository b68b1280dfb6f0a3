// Who asks /health/ready again and again, such as a load balancer. A stop tells them first, and
// takes requests until they have heard it, so that they send the next ones elsewhere.

/** HAProxy and Kubernetes, as `recua cluster config` sets them, believe the second refusal. */
const refusals = 2;
/** Who would take longer to hear it is not waited for. */
const mostWaitMs = 5_000;
/** A prober may be this late. */
const lateMs = 500;
/** Older questions are forgotten. */
const keptMs = 30_000;
const mostQuestions = 20;
/** While so many ask, no other becomes known. */
const mostKnown = 100;

interface Prober {
  /** When it asked, by performance.now(). */
  askedMs: readonly number[];
  refused: number;
}

/** How a prober asks; undefined if it has asked once. */
function paceOf({ askedMs }: Prober): { longestMs: number; isEven: boolean } | undefined {
  const gaps = askedMs.slice(1).map((ms, at) => ms - askedMs[at]!);
  if (gaps.length === 0) return undefined;
  const longestMs = Math.max(...gaps);
  // Otherwise several may ask from one address, and each has heard less than all together.
  return { longestMs, isEven: longestMs <= 2 * Math.min(...gaps) };
}

export class Probers {
  /** By address and program: others may ask from the balancer's machine, or its network. */
  readonly #known = new Map<string, Prober>();
  #isLeaving = false;
  #heard = (): void => undefined;

  /** Whether the server still takes requests, but is about to stop. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Somebody asks whether the server is ready. */
  note(who: string): void {
    const nowMs = performance.now();
    if (!this.#known.has(who) && !this.#hasRoom(nowMs)) return;
    const { askedMs = [], refused = 0 }: Partial<Prober> = this.#known.get(who) ?? {};
    this.#known.delete(who);
    const kept = askedMs.filter((ms) => nowMs - ms <= keptMs).slice(1 - mostQuestions);
    this.#known.set(who, { askedMs: [...kept, nowMs], refused: refused + (this.#isLeaving ? 1 : 0) });
    this.#heard();
  }

  /** Forgets who last asked too long ago: those are the first in the map. */
  #hasRoom(nowMs: number): boolean {
    for (const [who, { askedMs }] of this.#known) {
      if (this.#known.size < mostKnown || nowMs - askedMs.at(-1)! <= mostWaitMs) break;
      this.#known.delete(who);
    }
    return this.#known.size < mostKnown;
  }

  /** Resolves when those that ask regularly have heard it twice, or should have. */
  async leave(withinMs: number): Promise<void> {
    this.#isLeaving = true;
    const nowMs = performance.now();
    const told = [...this.#known].flatMap(([who, prober]) => {
      const { longestMs, isEven } = paceOf(prober) ?? { longestMs: Infinity, isEven: true };
      const waitMs = refusals * longestMs + lateMs;
      const isRegular = nowMs - prober.askedMs.at(-1)! <= longestMs + lateMs && waitMs <= Math.min(withinMs, mostWaitMs);
      return isRegular ? [{ who, waitMs, isEven }] : [];
    });
    const areTold = (): boolean => told.every(({ who, isEven }) => isEven && (this.#known.get(who)?.refused ?? refusals) >= refusals);
    if (areTold()) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(...told.map(({ waitMs }) => waitMs)));
      this.#heard = () => {
        if (!areTold()) return;
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
