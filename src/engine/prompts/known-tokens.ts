// Checks that token ids in a request are in the model's vocabulary, and that a text is not too long
// to count or list its tokens; cuts texts of which only one end is used. Pure.
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

/**
 * Most characters of a text of which only the first or last `tokens` tokens are used: with these
 * there are always that many, or as many as are worth tokenizing.
 */
export function mostUsed(tokens: number, { longestPiece }: { longestPiece: number }): number {
  return longestPiece === 0 ? mostTokenizedBytes : Math.min(mostTokenizedBytes, tokens * longestPiece);
}

/** The first characters, without half of a surrogate pair. */
export function headOf(text: string, most: number): string {
  return text.slice(0, isHalf(text, most) ? most - 1 : most);
}

/** The last characters, without half of a surrogate pair. */
export function tailOf(text: string, most: number): string {
  const from = Math.max(0, text.length - most);
  return text.slice(isHalf(text, from) ? from + 1 : from);
}

/** Whether a cut here would divide a surrogate pair. */
function isHalf(text: string, at: number): boolean {
  return at > 0 && /^[\uDC00-\uDFFF]/.test(text.charAt(at));
}
