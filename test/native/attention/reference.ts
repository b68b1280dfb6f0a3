// Attention in double precision, written like its definition: the reference for kernels.
import type { AttendOptions } from '#recua/addon/attend.js';

/** Small values, the same on every machine: a linear congruential generator, roughly normal. */
export function noise(seed: number): () => number {
  let state = seed >>> 0;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform() + 1e-12)) * Math.cos(2 * Math.PI * uniform());
}

/** In the layout of the addon's `out`: [stream][token][head][value]. */
export function attention(of: AttendOptions): Float64Array {
  const { dk, dv, keys, tokens, heads, kvHeads, streams, scale, maxBias, softcap, q, k, v, mask, sinks } = of;
  const out = new Float64Array(streams * tokens * heads * dv);
  const power = 2 ** Math.floor(Math.log2(heads));
  const slopeOf = (head: number) => {
    if (maxBias === 0) return 1;
    return head < power ? 2 ** (-maxBias / power * (head + 1)) : 2 ** (-maxBias / 2 / power * (2 * (head - power) + 1));
  };
  const logits = new Float64Array(keys);
  for (let stream = 0; stream < streams; stream++) {
    for (let token = 0; token < tokens; token++) {
      for (let head = 0; head < heads; head++) {
        const kvHead = Math.floor(head / (heads / kvHeads));
        const row = (stream * tokens + token) * heads + head;
        const slope = slopeOf(head);
        let largest = sinks === undefined ? -Infinity : sinks[head]!;
        for (let key = 0; key < keys; key++) {
          const bias = mask === undefined ? 0 : mask[(stream * tokens + token) * keys + key]!;
          logits[key] = -Infinity;
          if (bias === -Infinity) continue;
          const keyRow = ((stream * keys + key) * kvHeads + kvHead) * dk;
          let sum = 0;
          for (let i = 0; i < dk; i++) sum += q[row * dk + i]! * k[keyRow + i]!;
          sum *= scale;
          if (softcap !== 0) sum = softcap * Math.tanh(sum / softcap);
          logits[key] = sum + slope * bias;
          largest = Math.max(largest, logits[key]);
        }
        if (largest === -Infinity) continue;
        let total = sinks === undefined ? 0 : Math.exp(sinks[head]! - largest);
        for (let key = 0; key < keys; key++) {
          if (logits[key] === -Infinity) continue;
          const share = Math.exp(logits[key]! - largest);
          total += share;
          const valueRow = ((stream * keys + key) * kvHeads + kvHead) * dv;
          for (let i = 0; i < dv; i++) out[row * dv + i]! += share * v[valueRow + i]!;
        }
        for (let i = 0; i < dv; i++) out[row * dv + i]! /= total;
      }
    }
  }
  return out;
}

/** The largest difference of any value, and the root of the mean square difference. */
export function errors(out: Float32Array, right: Float64Array): { most: number; mean: number } {
  let most = 0;
  let squares = 0;
  for (let i = 0; i < right.length; i++) {
    const difference = Math.abs(out[i]! - right[i]!);
    if (!(difference <= most)) most = difference; // what is no number counts, too
    squares += difference ** 2;
  }
  return { most, mean: Math.sqrt(squares / right.length) };
}
