// Log probabilities of tokens, in OpenAI's format for chats and responses, with llama-server's
// additional fields. Pure. Called by the dialects that write them.
import { LongList } from '../http/long-json.js';
import type { Telling, TokenChance, ToldToken } from '../../engine/telling.js';

/** With llama-server's `id`, and its names for probabilities after sampling. */
export interface WireChance {
  id: number;
  token: string;
  bytes: number[];
  logprob?: number;
  prob?: number;
}

export interface WireTold extends WireChance {
  top_logprobs?: WireChance[];
  top_probs?: WireChance[];
}

export interface ChatLogprobs {
  content: LongList<WireTold>;
  refusal: null;
}

export function chatLogprobs(tokens: Iterable<ToldToken>, tells: Telling): ChatLogprobs {
  return { content: toldTokens(tokens, tells), refusal: null };
}

export function toldTokens(tokens: Iterable<ToldToken>, tells: Telling): LongList<WireTold> {
  return new LongList(function* entries() {
    for (const token of tokens) yield toldToken(token, tells);
  });
}

function toldToken({ top, value = 0, ...token }: ToldToken, { afterSampling }: Telling): WireTold {
  if (afterSampling) return { ...read(token), prob: value, top_probs: top.map((one) => ({ ...read(one), prob: one.value })) };
  return { ...read(token), logprob: value, top_logprobs: top.map((one) => ({ ...read(one), logprob: one.value })) };
}

function read({ id, bytes }: Pick<TokenChance, 'id' | 'bytes'>): WireChance {
  return { id, token: textOf(bytes), bytes };
}

/** For invalid UTF-8, `bytes` has the exact bytes. */
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });

function textOf(bytes: readonly number[]): string {
  return lenient.decode(Uint8Array.from(bytes));
}
