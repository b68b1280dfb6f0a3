// Parses JSON from untrusted sources: rejects text that would expand to far more memory than its
// own length. Pure; used for the hub's replies.

/** A listing of thousands of files has three levels and about eight values per file. */
const mostDepth = 16;
const mostValues = 1_000_000;

/**
 * JSON.parse that also throws a SyntaxError for more levels or values than a valid reply can have.
 */
export function parseBounded(text: string): unknown {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = endOfString(text, at);
        break;
      case 0x5b: case 0x7b: // [ {
        values++;
        if (++depth > mostDepth) throw new SyntaxError(`more than ${mostDepth} levels`);
        break;
      case 0x5d: case 0x7d: // ] }
        depth--;
        break;
      case 0x2c: // ,
        values++;
        break;
      default:
    }
    if (values > mostValues) throw new SyntaxError(`more than ${mostValues} values`);
  }
  return JSON.parse(text) as unknown;
}

/** Index of the closing quotation mark of a string; the text's end if there is none. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === 0x5c) escapes++;
    if (escapes % 2 === 0) return at;
  }
  return text.length;
}
