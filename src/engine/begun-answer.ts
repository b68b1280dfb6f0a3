// What another engine process needs to go on with an answer (docs/design/resuming.md). Types only,
// as protocol's, whose messages carry them.

/** An answer that another engine process had begun to write; times are in ms before now. */
export interface BegunAnswer {
  /** As that process read it: it may have remembered how earlier answers were spelled. */
  prompt: Int32Array;
  /** What was generated, with so many random numbers. */
  tokens: Int32Array;
  draws: number;
  /**
   * They are evaluated one after the other again, so that what follows is the same to the last bit.
   */
  exactly: boolean;
  /** It was told to think no longer. */
  endsThinking: boolean;
  arrivedMs: number;
  /** 0 where it was not. */
  startedMs: number;
  firstMs: number;
}
