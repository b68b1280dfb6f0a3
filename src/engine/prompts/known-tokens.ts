// Checks that token ids in a request are in the model's vocabulary. Pure.
import { RecuaError } from '../../errors.js';

/** @throws RecuaError `invalid_value` if a token is not in the vocabulary. */
export function checkTokens(tokens: Iterable<number>, vocabSize: number, param: string): void {
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new RecuaError('invalid_value', `Expected tokens from 0 to ${vocabSize - 1} in ${param}, got ${token}.`, { param });
    }
  }
}
