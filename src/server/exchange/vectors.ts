// Embedding vectors in replies: shortens them, and writes them in slices, since converting 2,048
// vectors to JSON takes a second. Called by the dialects that embed.
import { setImmediate } from 'node:timers/promises';

/** Floats to convert to text before yielding to the event loop: about 5 ms. */
const floatsPerSlice = 16_384;

/** Each vector as JSON. `dimensions`: see `shorten`. */
export async function rowsOf(vectors: readonly Float32Array[], dimensions: number | undefined, jsonOf: (row: Float32Array) => string = numbersOf): Promise<string[]> {
  const rows: string[] = [];
  let floats = 0;
  for (const vector of vectors) {
    const row = shorten(vector, dimensions);
    rows.push(jsonOf(row));
    floats += row.length;
    if (floats < floatsPerSlice) continue;
    floats = 0;
    await setImmediate();
  }
  return rows;
}

function numbersOf(row: Float32Array): string {
  return `[${row.join(',')}]`;
}

/**
 * The first `dimensions` numbers, rescaled to length 1, as Matryoshka models expect.
 */
function shorten(vector: Float32Array, dimensions: number | undefined): Float32Array {
  if (dimensions === undefined || dimensions >= vector.length) return vector;
  const short = vector.slice(0, dimensions);
  const length = Math.hypot(...short);
  return length > 0 ? short.map((value) => value / length) : short;
}
