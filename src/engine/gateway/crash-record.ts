// What is remembered of a model's dead engine processes. It outlives its engine: a model that is
// unloaded and loaded again would otherwise die of the same requests again. Bounded. Used by
// suspects and restarts.

export class CrashRecord {
  /** End of the refusal (performance.now()) of requests like a guilty one, by their fingerprint. */
  readonly refused = new Map<string, number>();
  /** The same for requests that failed at a crash, and may be guilty. */
  readonly doubted = new Map<string, number>();
  /**
   * When processes died, and when they ended otherwise or by a request that is refused from then
   * on, within the window.
   */
  deaths: number[] = [];
  otherEnds: number[] = [];
  /** Requests in a row that were to blame. */
  blamed = 0;

  /** Another file of the model may not die of the same. */
  forget(): void {
    this.refused.clear();
    this.doubted.clear();
    this.deaths = [];
    this.otherEnds = [];
    this.blamed = 0;
  }
}
