// What one attention is computed of: for tests of its kernels, and to measure them.

/**
 * One attention. Arrays are [stream][token or key][head][value]; the mask is [stream][token][key].
 * What rounding to their types leaves of keys, values and mask stands in their arrays afterwards.
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
  /** `ms` is the least of so many times. */
  repeat?: number;
}
