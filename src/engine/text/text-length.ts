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
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(takesSpaces ? text.replace(/[\t-\r ]+/g, '') : text), 0);
  return Math.ceil(bytes / longestPiece);
}
