// The addon's functions for proving that the CPU backend computes correctly (engine/proof).

export interface ProvingAddon {
  /**
   * How well a library, given by its absolute path, suits this machine; 0: not at all. The library
   * may crash the process here.
   */
  rateBackend(file: string): number;
  /**
   * Computes with one family of kernels of the CPU backend, compares with plain code, and returns
   * what is wrong, or ''. The families: `elements`, `products TYPE`, `experts TYPE`, `attention K
   * V`, `own-attention KERNEL K V`, `own-products KERNEL TYPE`. Types are ggml's names, such as
   * q4_K. Blocks for some milliseconds; a broken kernel may crash the process. Throws
   * `invalid_argument` for an unknown family.
   */
  proveCpu(family: string): string;
  /** Stops all contexts from using this attention kernel of Recua. Throws `invalid_argument`. */
  refuseAttention(kernel: string): void;
  /** The same for a kernel of products. */
  refuseMatmul(kernel: string): void;
}
