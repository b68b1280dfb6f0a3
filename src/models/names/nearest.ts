// The known words that a mistyped one most likely means.

/**
 * An unfinished word counts as nearest: two letters are missing at most, or whole words. If nothing
 * else is near, so does one with a word too many.
 */
const mostMissing = 2;
const nextWord = /^[-_.:/A-Z]/;
/** Most pairs of letters that are compared, since a store may have thousands of long names. */
const mostPairs = 500_000;

export function nearest(word: string, known: readonly string[]): string | undefined {
  return nearestOnes(word, known, 1)[0];
}

/** At most `most` of them, the nearest first. */
export function nearestOnes(word: string, known: readonly string[], most: number): string[] {
  const begins = (short: string, long: string): boolean =>
    short.length >= 4 && long.startsWith(short) && nextWord.test(long.slice(short.length));
  const begun = known.filter(
    (other) => begins(word, other) || (word.length >= 4 && other.startsWith(word) && other.length <= word.length + mostMissing),
  );
  const ranked: { other: string; wrong: number }[] = begun.length === 1 ? [{ other: begun[0]!, wrong: 0 }] : [];
  let pairs = 0;
  for (const other of known) {
    // With half the letters wrong, it is another word, not a typo.
    const mostWrong = Math.max(1, Math.floor(Math.min(word.length, other.length) / 3));
    if (Math.abs(word.length - other.length) > mostWrong || (begun.length === 1 && other === begun[0])) continue;
    pairs += word.length * other.length;
    if (pairs > mostPairs) break;
    const wrong = distance(word, other);
    if (wrong <= mostWrong) ranked.push({ other, wrong });
  }
  if (ranked.length === 0) for (const other of known) if (begins(other, word)) ranked.push({ other, wrong: word.length - other.length });
  // The first letter is seldom the wrong one.
  const otherFirst = (other: string): number => (other[0] === word[0] ? 0 : 1);
  return ranked.sort((a, b) => a.wrong - b.wrong || otherFirst(a.other) - otherFirst(b.other)).slice(0, most).map(({ other }) => other);
}

/** Levenshtein distance, counting a swap of neighbors as one. */
function distance(a: string, b: string): number {
  let [before, above, row] = [0, 1, 2].map(() => new Uint32Array(b.length + 1)) as [Uint32Array, Uint32Array, Uint32Array];
  for (let j = 0; j <= b.length; j++) above[j] = j;
  for (let i = 1; i <= a.length; i++) {
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, before[j - 2]! + 1);
      row[j] = best;
    }
    [before, above, row] = [above, row, before];
  }
  return above[b.length]!;
}
