// Lists of tokens that a program passes: copies, so that what it does with its own list during a
// request changes nothing.
import { isInt32Array } from 'node:util/types';
import { RecuaError } from '../errors.js';
import { describe, wrongType } from '../request/fields.js';

/** More than any context holds. */
const mostTokens = 2 ** 24;

/** A copy of an Int32Array; null for a detached one. Other values stay as they are. */
export function copyTokens<T>(prompt: T): T | Int32Array | null {
  try {
    return isInt32Array(prompt) ? new Int32Array(prompt) : prompt;
  } catch {
    return null;
  }
}

/**
 * Throws `invalid_type` for what is no list, and `invalid_value` for numbers that are no tokens: an
 * Int32Array would silently convert 1.5 and 2 ** 32 to some.
 */
export function readTokens(tokens: ArrayLike<number>, vocabSize: number): Int32Array {
  if (typeof tokens !== 'object' || typeof (tokens as ArrayLike<number> | null)?.length !== 'number') throw wrongType('tokens', 'an array of tokens', tokens);
  if (!(tokens.length <= mostTokens)) throw wrongType('tokens', `an array of at most ${mostTokens} tokens`, tokens);
  let list: unknown[];
  try {
    list = Array.from(tokens);
  } catch {
    throw wrongType('tokens', 'an array of tokens', tokens);
  }
  const at = list.findIndex((token) => typeof token !== 'number');
  if (at >= 0) throw wrongType(`tokens[${at}]`, 'a token', list[at]);
  const wrong = (list as number[]).find((token) => !Number.isInteger(token) || token < 0 || token >= vocabSize);
  if (wrong !== undefined) throw new RecuaError('invalid_value', `Expected tokens from 0 to ${vocabSize - 1}, got ${describe(wrong)}.`, { param: 'tokens' });
  return Int32Array.from(list as number[]);
}
