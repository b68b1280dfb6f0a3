// What an engine process needs to continue another one's answer (docs/design/resuming.md). Types
// only; messages of protocol.ts carry them.

/** An answer that another engine process began; times are in ms before now. */
export interface BegunAnswer {
  /** As that process tokenized it, which may use the exact tokens of earlier answers. */
  prompt: Int32Array;
  /** The generated tokens, and the random numbers drawn for them. */
  tokens: Int32Array;
  draws: number;
  /** Tokens that it had, if it is generated again: a time limit ends it no sooner. */
  again?: number;
  /** Evaluate the tokens one per step, so that the continuation is the same to the last bit. */
  exactly: boolean;
  /** `endThinking` was called. */
  endsThinking: boolean;
  arrivedMs: number;
  /** 0: not started. */
  startedMs: number;
  firstMs: number;
}
