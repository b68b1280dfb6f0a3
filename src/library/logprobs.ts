// Log probabilities of an answer's tokens, for programs. Pure.
import type { TokenChance, ToldToken } from '../engine/telling.js';

/** A token and its probability at its position, before any sampler. */
export interface TokenLogprob {
  /** Token id. */
  token: number;
  /** Its text. Invalid UTF-8, such as a part of a character, becomes U+FFFD. */
  text: string;
  /** Natural logarithm of its probability. */
  logprob: number;
}

/** A token of an answer. */
export interface AnswerLogprob extends TokenLogprob {
  /** The likeliest tokens at this position, as many as requested, likeliest first. */
  top: TokenLogprob[];
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export function logprobsOf(tokens: Iterable<ToldToken>): AnswerLogprob[] {
  return Array.from(tokens, ({ value = 0, top, ...token }) => ({ ...read({ ...token, value }), top: top.map(read) }));
}

function read({ id, bytes, value }: TokenChance): TokenLogprob {
  return { token: id, text: decoder.decode(Uint8Array.from(bytes)), logprob: value };
}
