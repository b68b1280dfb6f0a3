// How fast an engine generates: tokens per second over the last seconds, all requests together.
// From the engine's count of tokens, which comes with each of its messages; nothing is counted
// twice. Used by engine/gateway/client and engine/in-process/local.

/** What is older counts no more. */
const windowMs = 5_000;
/** Between two marks, so that few are kept. */
const markEveryMs = 250;
/** An answer of a moment is no measure of a second. */
const leastMs = 1_000;

export class TokenRate {
  /** When tokens came, with how many there had been before. */
  #marks: { atMs: number; before: number }[] = [];
  #total = 0;

  /** `total` is what the engine has generated since it was loaded. */
  note(total: number, nowMs: number): void {
    // Another process begins anew.
    if (total < this.#total) this.#marks = [];
    else if (total > this.#total && nowMs - (this.#marks.at(-1)?.atMs ?? -Infinity) >= markEveryMs) {
      this.#forget(nowMs);
      this.#marks.push({ atMs: nowMs, before: this.#total });
    }
    this.#total = total;
  }

  perSecond(nowMs: number): number {
    this.#forget(nowMs);
    const [first] = this.#marks;
    return first ? (this.#total - first.before) * 1_000 / Math.max(leastMs, nowMs - first.atMs) : 0;
  }

  #forget(nowMs: number): void {
    const at = this.#marks.findIndex(({ atMs }) => nowMs - atMs <= windowMs);
    this.#marks.splice(0, at < 0 ? this.#marks.length : at);
  }
}
