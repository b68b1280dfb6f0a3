// Shortens embedding vectors. Pure. Called by the dialects that embed.

/**
 * The first `dimensions` numbers, rescaled to length 1, as Matryoshka models expect.
 */
export function shorten(vector: Float32Array, dimensions: number | undefined): Float32Array {
  if (dimensions === undefined || dimensions >= vector.length) return vector;
  const short = vector.slice(0, dimensions);
  const length = Math.hypot(...short);
  return length > 0 ? short.map((value) => value / length) : short;
}
