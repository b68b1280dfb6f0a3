// Whether tokens that came in a request are tokens of the model. Pure.
import { RecuaError } from '../../errors.js';

/** @throws RecuaError `invalid_value` where a token is not one of the vocabulary's. */
export function checkTokens(tokens: Iterable<number>, vocabSize: number, param: string): void {
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new RecuaError('invalid_value', `Expected tokens from 0 to ${vocabSize - 1} in ${param}, got ${token}.`, { param });
    }
  }
}
