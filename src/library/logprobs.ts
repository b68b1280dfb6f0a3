// How likely the tokens of an answer were, as a program has it. Pure.
import type { TokenChance, ToldToken } from '../engine/telling.js';

/** A token, and how likely it was in its place, before all samplers. */
export interface TokenLogprob {
  /** Its id. */
  token: number;
  /** Bytes that are no UTF-8, as those of a part of a character, become U+FFFD. */
  text: string;
  /** Natural logarithm of its probability. */
  logprob: number;
}

/** A token of an answer. */
export interface AnswerLogprob extends TokenLogprob {
  /** The likeliest tokens of its place, as many as were asked for, the likeliest first. */
  top: TokenLogprob[];
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export function logprobsOf(tokens: readonly ToldToken[]): AnswerLogprob[] {
  return tokens.map(({ value = 0, top, ...token }) => ({ ...read({ ...token, value }), top: top.map(read) }));
}

function read({ id, bytes, value }: TokenChance): TokenLogprob {
  return { token: id, text: decoder.decode(Uint8Array.from(bytes)), logprob: value };
}
