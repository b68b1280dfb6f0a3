// Reads a text that a request gives as token ids. Pure.
import { checkNumber, wrongValue } from './fields.js';

/** `param`: full name of the array, for errors. */
export function readTokens(values: unknown[], param: string, vocabSize: number): Int32Array {
  if (values.length === 0) throw wrongValue(param, 'at least one token', values);
  const range = { min: 0, max: vocabSize - 1 };
  const tokens = new Int32Array(values.length);
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    // The fast path handles millions of tokens; the slow one makes the error.
    const sound = Number.isInteger(value) && (value as number) >= 0 && (value as number) < vocabSize;
    tokens[at] = sound ? (value as number) : checkNumber(value, `${param}[${at}]`, range, true);
  }
  return tokens;
}
