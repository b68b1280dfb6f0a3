// The JSON of files that people write.
import { refuseHalves } from '../../request/half-characters.js';

/** Parses it. Throws an error that says what is wrong, and in which line. */
export function parseJson(text: string): unknown {
  const json = text.replace(/^\uFEFF/, '');
  try {
    const parsed = JSON.parse(json) as unknown;
    refuseHalves(json, parsed);
    return parsed;
  } catch (cause) {
    throw new SyntaxError(withLine((cause as Error).message, json), { cause });
  }
}

/** Before Node 22, V8 tells only the position. */
export function withLine(message: string, json: string): string {
  const at = /at position (\d+)(?![\d ])/.exec(message);
  if (!at) return message;
  const before = json.slice(0, Number(at[1])).split('\n');
  return message.replace(at[0], `at line ${before.length}, column ${before.at(-1)!.length + 1}`);
}
