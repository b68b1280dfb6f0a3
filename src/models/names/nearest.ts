// The known word that a mistyped one most likely means.

/** A word that is unfinished, with two letters missing at most, counts as nearest. */
const mostMissing = 2;

export function nearest(word: string, known: readonly string[]): string | undefined {
  const begun = known.filter((other) => word.length >= 4 && other.length <= word.length + mostMissing && other.startsWith(word));
  if (begun.length === 1) return begun[0];
  const ranked = known.map((other) => ({ other, distance: distance(word, other) })).sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  // With half the letters wrong, it is another word, not a typo.
  return best !== undefined && best.distance <= Math.max(1, Math.floor(Math.min(word.length, best.other.length) / 3)) ? best.other : undefined;
}

/** Levenshtein distance, counting a swap of neighbors as one. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, rows[i - 2]![j - 2]! + 1);
      row.push(best);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
