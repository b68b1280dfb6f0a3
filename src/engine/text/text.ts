// Token bytes → text, without split characters or parts of stop strings. Invalid bytes become
// U+FFFD; an incomplete character at the end of the answer is dropped. Pure; one Text per answer.

export class Text {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #stops: string[];
  /** Valid text that may be the beginning of a stop string, held back. */
  #held = '';
  /** All text released so far. */
  whole = '';
  /** The stop string that ended the text. */
  stop: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== '');
  }

  /**
   * Adds one piece; does nothing after a stop string. `stops`: whether a stop string may end the
   * text now; if not, it is ordinary text.
   */
  push(bytes: Uint8Array, stops = true): void {
    if (this.stop !== undefined) return;
    const added = this.#decoder.decode(bytes, { stream: true });
    if (added === '') return;
    if (this.#stops.length === 0 || !stops) {
      this.whole += this.#held + added;
      this.#held = '';
      return;
    }
    const text = this.#held + added;
    const hit = this.#firstStop(text);
    if (hit) {
      this.stop = hit.stop;
      this.whole += text.slice(0, hit.start);
      this.#held = '';
      return;
    }
    const keep = this.#mayBegin(text);
    this.whole += text.slice(0, text.length - keep);
    this.#held = keep === 0 ? '' : text.slice(-keep);
  }

  /** Length of all text so far, including text held back. */
  get length(): number {
    return this.whole.length + this.#held.length;
  }

  /** The answer is over: the text held back did not begin a stop string after all. */
  end(): void {
    this.whole += this.#held;
    this.#held = '';
  }

  /**
   * The stop string that is complete first, as if the text came character by character; of two that
   * end together, the longer.
   */
  #firstStop(text: string): { stop: string; start: number } | undefined {
    let best: { stop: string; start: number } | undefined;
    for (const stop of this.#stops) {
      const start = text.indexOf(stop);
      if (start < 0) continue;
      const end = start + stop.length;
      const bestEnd = best ? best.start + best.stop.length : Infinity;
      if (end < bestEnd || (end === bestEnd && start < best!.start)) best = { stop, start };
    }
    return best;
  }

  /** Length of the longest suffix of the text that begins a stop string. */
  #mayBegin(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
