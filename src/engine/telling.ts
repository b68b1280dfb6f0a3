// What a request may want besides the answer's text: log probabilities, tokens, progress, timings.
// Types only; messages of protocol.ts carry them.

/** What to send besides the text. Only requests that ask for it pay its cost. */
export interface Telling {
  /**
   * Each token's log probability, and those of this many most likely tokens at its place, in the
   * distribution before all samplers.
   */
  logprobs?: number;
  /** Probabilities after the samplers instead. */
  afterSampling?: boolean;
  /** The prompt's tokens, too; the whole prompt is then evaluated, without the KV cache. */
  prompt?: boolean;
  /** The tokens of each delta's text. */
  tokens?: boolean;
  /** How far the prompt is evaluated. */
  progress?: boolean;
  /** Usage and timings with each delta. */
  timings?: boolean;
}

/** A token with its bytes and its probability. */
export interface TokenChance {
  id: number;
  /** Not always valid UTF-8. Control tokens have none. */
  bytes: number[];
  /** Log probability, or probability after sampling. -Infinity and the like become -9999. */
  value: number;
}

/** A token of an answer or a prompt. */
export interface ToldToken extends Omit<TokenChance, 'value'> {
  /** Absent if the request did not ask for it, and for a prompt's first token. */
  value?: number;
  /** The part of the answer it belongs to; absent for content. */
  part?: 'reasoning' | 'call';
  /** The most likely tokens at its place, the most likely first. */
  top: TokenChance[];
}

/** How far a prompt is evaluated. */
export interface Progress {
  total: number;
  /** Tokens taken from the KV cache. */
  cached: number;
  processed: number;
  elapsedMs: number;
}
