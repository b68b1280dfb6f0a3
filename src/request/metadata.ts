// The `metadata` that a client gives to a response or a batch, which comes back as it is. Pure.
import { wrongType, wrongValue, type Fields } from './fields.js';

/** OpenAI's limits. */
const mostPairs = 16;
const mostName = 64;
const mostValue = 512;

/** @throws RecuaError `invalid_type`, `invalid_value` */
export function readMetadata(body: Fields): Record<string, string> | undefined {
  const given = body.object('metadata');
  if (given === undefined) return undefined;
  const pairs = Object.entries(given);
  if (pairs.length > mostPairs) throw wrongValue('metadata', `at most ${mostPairs} pairs`, pairs.length);
  for (const [name, value] of pairs) {
    if (name.length > mostName) throw wrongValue('metadata', `names of at most ${mostName} characters`, name.length);
    const param = `metadata.${name}`;
    if (typeof value !== 'string') throw wrongType(param, 'a string', value);
    if (value.length > mostValue) throw wrongValue(param, `at most ${mostValue} characters`, value.length);
  }
  return given as Record<string, string>;
}
