// What the addon has for proving that the CPU backend computes what it should (engine/proof).

export interface ProvingAddon {
  /**
   * How well this machine suits a library, given by its absolute path: 0 not at all. A library that
   * ends the process does so here.
   */
  rateBackend(file: string): number;
  /**
   * Computes with one family of kernels of the CPU backend, compares with plain code, and says what
   * is wrong, or ''. The families: `elements`, `products TYPE`, `experts TYPE`, `attention K V`,
   * `own-attention KERNEL K V`. Types are ggml's names, such as q4_K. Waits for it, some
   * milliseconds; a family that is broken may end the process. Throws `invalid_argument` for one
   * that there is not.
   */
  proveCpu(family: string): string;
  /** From now on no context attends by this kernel of ours. Throws `invalid_argument`. */
  refuseAttention(kernel: string): void;
}
