// Texts that hold half of a character, as when a program cuts a text anywhere: UTF-8 has no bytes
// for it. Called for request bodies, and for what the library passes to the engine as JSON.
import { RecuaError } from '../errors.js';

/**
 * Refuses unpaired surrogates in what was parsed from a JSON text: characters beyond the first
 * 65,536 need two \u escapes. `param`: name of the whole.
 */
export function refuseHalves(json: string, parsed: unknown = undefined, param = ''): void {
  if (!/\\u[dD][89a-fA-F]/.test(json)) return;
  const found = halfIn(parsed ?? JSON.parse(json));
  if (!found) return;
  const { text } = found;
  const path = `${param}${found.path}`.replace(/^\./, '');
  const at = text.search(/\p{Surrogate}/u);
  const escape = `\\u${text.charCodeAt(at).toString(16)}`;
  throw new RecuaError('invalid_value', `Expected ${path || 'the body'} to be text, got ${escape} at character ${at + 1}, which is half of a character (an unpaired surrogate). Cut texts between characters.`, { param: path });
}

/** The first text with half of a character, and the path to it, which begins with "." or "[". */
function halfIn(value: unknown): { text: string; path: string } | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : { text: value, path: '' };
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index];
      const found = typeof item === 'number' ? undefined : halfIn(item);
      if (found) return { text: found.text, path: `[${index}]${found.path}` };
    }
    return undefined;
  }
  // Object.entries takes twice as long as this.
  for (const name of Object.keys(value)) {
    if (!name.isWellFormed()) return { text: name, path: '' };
    const found = halfIn((value as Record<string, unknown>)[name]);
    if (found) return { text: found.text, path: `.${name}${found.path}` };
  }
  return undefined;
}
