// How many tokens texts have at the least, from their length alone: what cannot fit is refused
// before it is read.
import type { NativeModelInfo } from '../../addon/addon.js';

/**
 * 0 where the vocabulary says nothing: some drop characters, or make one token of any number of
 * unknown ones.
 */
export function leastTokens({ longestPiece, takesSpaces }: Pick<NativeModelInfo, 'longestPiece' | 'takesSpaces'>, ...texts: string[]): number {
  if (longestPiece === 0) return 0;
  // Spaces beside such a token leave nothing behind; nor may those, where they are the bytes that
  // count.
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(takesSpaces ? text.replace(/[\t-\r ]+/g, '') : text), 0);
  return Math.ceil(bytes / longestPiece);
}
