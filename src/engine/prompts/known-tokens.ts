// Checks that token ids in a request are in the model's vocabulary, and that a text is not too long
// to count or list its tokens. Pure.
import { RecuaError } from '../../errors.js';

/**
 * Of a text that no context limits: tokenizing takes some 70 bytes of memory for each, and more
 * than a second for each million. Twice what a context of a million tokens holds.
 */
export const mostTokenizedBytes = 8 * 2 ** 20;

/** @throws RecuaError `invalid_value` if the text is longer than {@link mostTokenizedBytes}. */
export function checkTokenizable(text: string, param: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= mostTokenizedBytes) return;
  throw new RecuaError('invalid_value', `Expected a text of at most ${mostTokenizedBytes} bytes in ${param}, got ${bytes}; send it in parts.`, { param });
}

/** @throws RecuaError `invalid_value` if a token is not in the vocabulary. */
export function checkTokens(tokens: Iterable<number>, vocabSize: number, param: string): void {
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new RecuaError('invalid_value', `Expected tokens from 0 to ${vocabSize - 1} in ${param}, got ${token}.`, { param });
    }
  }
}
