// The input of one product of weights, for tests and measurements of its kernels.

/**
 * `out[row][output]` is the dot product of an input row and a row of weights. Arrays are
 * [output][column] and [row][column]. Afterwards `weights` holds the values rounded to their type.
 */
export interface MultiplyOptions {
  /** A kernel's name, or `ggml`. */
  kernel: string;
  threads: number;
  /** ggml's name of the weights' type, such as `q8_0`. */
  type: string;
  columns: number;
  outputs: number;
  rows: number;
  weights: Float32Array;
  input: Float32Array;
  /** Number of runs; `ms` is the shortest. */
  repeat?: number;
}
