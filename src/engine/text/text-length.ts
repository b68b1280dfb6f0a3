// A lower bound on the tokens of texts, from their length alone: a text that cannot fit is refused
// before it is tokenized.
import type { NativeModelInfo } from '../../addon/addon.js';

/**
 * 0 if the vocabulary has no bound: some drop characters, or merge any number of unknown characters
 * into one token.
 */
export function leastTokens({ longestPiece, takesSpaces }: Pick<NativeModelInfo, 'longestPiece' | 'takesSpaces'>, ...texts: string[]): number {
  if (longestPiece === 0) return 0;
  // Some tokens take any number of spaces around them, so whitespace must not count.
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text) - (takesSpaces ? spacesIn(text) : 0), 0);
  return Math.ceil(bytes / longestPiece);
}

/** Spaces, tabs and line breaks of ASCII. */
function spacesIn(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 32 || (code >= 9 && code <= 13)) count++;
  }
  return count;
}
