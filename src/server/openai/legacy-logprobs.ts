// How likely tokens were, in the words of OpenAI's completions, which are older than those of its
// chats. Pure. Called by completion-answer.
import type { TokenChance, ToldToken } from '../../engine/telling.js';

const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

/** OpenAI's older shape; nothing is known of a prompt's first token. */
export interface LegacyLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

/** One answer's tokens in the older shape, with where in the text each begins, in characters. */
export class LegacyWriter {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #offset = 0;

  write(tokens: readonly ToldToken[]): LegacyLogprobs {
    const written: LegacyLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
    for (const { bytes, value, top } of tokens) {
      const text = nameOf(bytes);
      written.tokens.push(text);
      written.token_logprobs.push(value ?? null);
      // The token itself is among them, as OpenAI has it, and so one more may be there.
      written.top_logprobs.push(value === undefined ? null : byName([...top, { bytes, value }]));
      written.text_offset.push(this.#offset);
      this.#offset += Array.from(this.#decoder.decode(Uint8Array.from(bytes), { stream: true })).length;
    }
    return written;
  }
}

/** Of those that read the same, as control tokens do, the likeliest counts. */
function byName(chances: readonly Omit<TokenChance, 'id'>[]): Record<string, number> {
  const values = new Map<string, number>();
  for (const { bytes, value } of chances) {
    const name = nameOf(bytes);
    values.set(name, Math.max(value, values.get(name) ?? value));
  }
  return Object.fromEntries(values);
}

/** Several tokens may be no UTF-8, and are told apart as OpenAI does it. */
function nameOf(bytes: readonly number[]): string {
  try {
    return strict.decode(Uint8Array.from(bytes));
  } catch {
    return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
  }
}
