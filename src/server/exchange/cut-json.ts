// Parses the arguments of a call, even if they were cut off: then into the part that is complete.
// Pure. Called by the dialects whose answers hold arguments as objects.
import { isObject } from '../../request/fields.js';
import { JsonText } from '../http/long-json.js';

/** The arguments as the model wrote them; undefined if they are not a complete object. */
export function wholeArguments(text: string): JsonText | undefined {
  return objectOf(text) ? new JsonText(text) : undefined;
}

/** The complete part of arguments that are not. */
export function partOfArguments(text: string): Record<string, unknown> {
  return objectOf(completed(text), bounded) ?? {};
}

/** A number too large for JavaScript becomes the largest: JSON would write Infinity as null. */
function bounded(_key: string, value: unknown): unknown {
  return value === Infinity ? Number.MAX_VALUE : value === -Infinity ? -Number.MAX_VALUE : value;
}

function objectOf(text: string, reviver?: typeof bounded): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text, reviver) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The text up to the last value that is known to be complete, with open brackets closed. A number
 * or a word is complete only if something follows it.
 */
function completed(text: string): string {
  const open: string[] = [];
  /** Where the last complete value ends. No bracket opens or closes after that. */
  let end = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if (letter === '"') {
      const close = endOfString(text, at);
      if (close < 0) break;
      // Only a value, not the name of a member, which a colon follows or would follow.
      if (open.at(-1) === ']' || /:\s*$/.test(text.slice(Math.max(0, at - 20), at))) end = close + 1;
      at = close;
    } else if (letter === '{' || letter === '[') {
      open.push(letter === '{' ? '}' : ']');
      end = at + 1;
    } else if (letter === '}' || letter === ']') {
      open.pop();
      end = at + 1;
    } else if (letter === ',') end = at;
  }
  return text.slice(0, end) + open.reverse().join('');
}

/** Index of the closing quote; -1 if there is none. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}
