// Arguments of a call that were cut off, as an object: what is complete of them. Pure. Called by
// the dialects whose answers hold arguments as objects.
import { isObject } from '../../request/fields.js';

/** `isWhole`: nothing is missing. */
export function argumentsOf(text: string): { value: Record<string, unknown>; isWhole: boolean } {
  const whole = objectOf(text);
  return whole ? { value: whole, isWhole: true } : { value: objectOf(completed(text)) ?? {}, isWhole: false };
}

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Up to the last value that is known to be complete, with what was open closed. A number or a word
 * is complete only where something follows it.
 */
function completed(text: string): string {
  const open: string[] = [];
  let best = '';
  /** Where the value before this place ends; what follows says whether it is a value at all. */
  const ends = (at: number): void => void (best = text.slice(0, at) + [...open].reverse().join(''));
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if (letter === '"') {
      const close = endOfString(text, at);
      if (close < 0) break;
      // The name of a member is followed by a colon, or by what is not there yet.
      if (open.at(-1) === ']' || /:\s*$/.test(text.slice(Math.max(0, at - 20), at))) ends(close + 1);
      at = close;
    } else if (letter === '{' || letter === '[') {
      open.push(letter === '{' ? '}' : ']');
      ends(at + 1);
    } else if (letter === '}' || letter === ']') {
      open.pop();
      ends(at + 1);
    } else if (letter === ',') ends(at);
  }
  return best;
}

/** Place of the closing quote; -1 where there is none. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}
