// Log probabilities in the format of OpenAI's completions, which is older than that of its chats.
// Pure. Called by completion-answer.
import type { TokenChance, ToldToken } from '../../engine/telling.js';

const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

/** OpenAI's older format. The first token of a prompt has no probability. */
export interface LegacyLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

/** Writes the tokens of one answer, with the offset of each in the text, in characters. */
export class LegacyWriter {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #offset = 0;

  write(tokens: readonly ToldToken[]): LegacyLogprobs {
    const written: LegacyLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
    for (const { bytes, value, top } of tokens) {
      const text = nameOf(bytes);
      written.tokens.push(text);
      written.token_logprobs.push(value ?? null);
      // As in OpenAI's API, the token itself is always included, so there may be one more.
      written.top_logprobs.push(value === undefined ? null : byName([...top, { bytes, value }]));
      written.text_offset.push(this.#offset);
      this.#offset += Array.from(this.#decoder.decode(Uint8Array.from(bytes), { stream: true })).length;
    }
    return written;
  }
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
