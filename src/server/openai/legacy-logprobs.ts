// Log probabilities in the format of OpenAI's completions, which is older than that of its chats.
// Pure. Called by completion-answer.
import { LongList } from '../http/long-json.js';
import type { ToldList } from '../../engine/packed-tokens.js';
import type { TokenChance, ToldToken } from '../../engine/telling.js';

const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

/** OpenAI's older format. The first token of a prompt has no probability. */
export interface LegacyLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

/** Writes the tokens of one answer, a piece at a time. */
export class LegacyWriter {
  readonly #offsets = new Offsets();

  write(tokens: Iterable<ToldToken>): LegacyLogprobs {
    const all = [...tokens];
    return {
      tokens: all.map(({ bytes }) => nameOf(bytes)),
      token_logprobs: all.map(({ value }) => value ?? null),
      top_logprobs: all.map(topOf),
      text_offset: all.map(({ bytes }) => this.#offsets.next(bytes)),
    };
  }
}

/**
 * All tokens of an answer, which are read once for each list: with their likeliest ones only for
 * the list of those.
 */
export function legacyLists(tokens: ToldList): { [List in keyof LegacyLogprobs]: LongList<LegacyLogprobs[List][number]> } {
  const list = <Entry>(entry: (token: ToldToken) => Entry, from = (): Iterable<ToldToken> => tokens.withoutTop()): LongList<Entry> =>
    new LongList(function* entries() {
      for (const token of from()) yield entry(token);
    });
  return {
    tokens: list(({ bytes }) => nameOf(bytes)),
    token_logprobs: list(({ value }) => value ?? null),
    top_logprobs: list(topOf, () => tokens),
    text_offset: new LongList(function* entries() {
      const offsets = new Offsets();
      for (const { bytes } of tokens.withoutTop()) yield offsets.next(bytes);
    }),
  };
}

/** The offset of each token in the text, in characters. */
class Offsets {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #offset = 0;

  next(bytes: readonly number[]): number {
    const offset = this.#offset;
    this.#offset += Array.from(this.#decoder.decode(Uint8Array.from(bytes), { stream: true })).length;
    return offset;
  }
}

/** As in OpenAI's API, the token itself is always included, so there may be one more. */
function topOf({ bytes, value, top }: ToldToken): Record<string, number> | null {
  return value === undefined ? null : byName([...top, { bytes, value }]);
}

/** Of tokens with the same text, such as control tokens, keeps the likeliest. */
function byName(chances: readonly Omit<TokenChance, 'id'>[]): Record<string, number> {
  const values = new Map<string, number>();
  for (const { bytes, value } of chances) {
    const name = nameOf(bytes);
    values.set(name, Math.max(value, values.get(name) ?? value));
  }
  return Object.fromEntries(values);
}

/** Tokens that are not valid UTF-8 get OpenAI's `bytes:` notation. */
function nameOf(bytes: readonly number[]): string {
  try {
    return strict.decode(Uint8Array.from(bytes));
  } catch {
    return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
  }
}
