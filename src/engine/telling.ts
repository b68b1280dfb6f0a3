// What a request may ask to be told of its answer beside the text, and the words for it. Types
// only, as protocol's, whose messages carry them.

/** What is told of an answer beside its text. All of it costs only those who ask. */
export interface Telling {
  /**
   * How likely each token was, with so many of the likeliest beside it: log probabilities of the
   * distribution before all samplers.
   */
  logprobs?: number;
  /** Probabilities after the samplers instead. */
  afterSampling?: boolean;
  /** The prompt's tokens, too; all of it is evaluated then. */
  prompt?: boolean;
  /** The tokens of each piece of text. */
  tokens?: boolean;
  /** How far the prompt is evaluated. */
  progress?: boolean;
  /** Usage and times with each piece of text. */
  timings?: boolean;
}

/** A token, how it reads, and how likely it was. */
export interface TokenChance {
  id: number;
  /** Not every token is UTF-8. Control tokens have none. */
  bytes: number[];
  /** Log probability, or probability after sampling. -Infinity and its like are -9999. */
  value: number;
}

/** A token of an answer or a prompt. */
export interface ToldToken extends Omit<TokenChance, 'value'> {
  /** Absent where nobody asked, and of a prompt's first token. */
  value?: number;
  /** What it was part of where that is not content. */
  part?: 'reasoning' | 'call';
  /** The likeliest tokens of its place, the likeliest first. */
  top: TokenChance[];
}

/** How far a prompt is evaluated. */
export interface Progress {
  total: number;
  /** Of these, those whose KV was already there. */
  cached: number;
  processed: number;
  elapsedMs: number;
}
