// Embedding vectors in replies. Called by the dialects that embed.
import { LongList } from '../http/long-json.js';

/**
 * An entry for each vector, made when it is written: converting 2,048 vectors to JSON takes a
 * second. `dimensions`: see `shorten`.
 */
export function entriesOf<Entry>(
  vectors: readonly Float32Array[],
  dimensions: number | undefined,
  entryOf: (vector: Float32Array, index: number) => Entry,
): LongList<Entry> {
  return new LongList(function* () {
    for (const [index, vector] of vectors.entries()) yield entryOf(shorten(vector, dimensions), index);
  });
}

/**
 * The first `dimensions` numbers, rescaled to length 1, as Matryoshka models expect.
 */
export function shorten(vector: Float32Array, dimensions: number | undefined): Float32Array {
  if (dimensions === undefined || dimensions >= vector.length) return vector;
  const short = vector.slice(0, dimensions);
  const length = Math.hypot(...short);
  return length > 0 ? short.map((value) => value / length) : short;
}
