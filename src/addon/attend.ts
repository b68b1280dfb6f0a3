// The input of one attention, for tests and measurements of its kernels.

/**
 * One attention. Arrays are [stream][token or key][head][value]; the mask is [stream][token][key].
 * Afterwards the arrays of keys, values and mask hold the values rounded to their types.
 */
export interface AttendOptions {
  kernel: string;
  threads: number;
  /** Size of a head's keys and of its values. */
  dk: number;
  dv: number;
  keys: number;
  tokens: number;
  heads: number;
  kvHeads: number;
  streams: number;
  typeK: string;
  typeV: string;
  scale: number;
  maxBias: number;
  softcap: number;
  q: Float32Array;
  k: Float32Array;
  v: Float32Array;
  mask?: Float32Array | undefined;
  sinks?: Float32Array | undefined;
  /** Number of runs; `ms` is the shortest. */
  repeat?: number;
}
