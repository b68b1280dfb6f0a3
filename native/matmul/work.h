// The matrix products of one context: turns nodes of its graphs into nodes that the kernels
// compute, on the threads of ggml's CPU backend, and holds the memory for that.
#pragma once

#include "accel/kernels.h"
#include "matmul/kernel.h"

#include "ggml.h"

#include <atomic>
#include <cstddef>
#include <vector>

namespace recua::matmul {

accel::Kernels<Kernel> &kernels();
// The types of weights that they take.
std::vector<ggml_type> types();

class Work {
public:
  // At most `threads` threads compute.
  Work(const Kernel &kernel, int32_t threads) : kernel(kernel), threads(threads) {}
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  // Call while the graph is built and no step is being computed. Turns a MUL_MAT with quantized
  // weights into a custom operation with the same sources and result. False if ggml must compute
  // the node.
  bool take(ggml_tensor *node);

  // Any thread. How many nodes were taken in this process.
  static uint64_t taken();

private:
  static void compute(ggml_tensor *node, int thread, int count, void *self);
  void compute_tiles(const ggml_tensor *node, int32_t thread, int32_t count);
  bool fits(const ggml_tensor *node) const;
  bool reserve(int64_t rows, int32_t columns);

  const Kernel &kernel;
  const int32_t threads;
  // Grow with the nodes taken; a reused graph needs no more than before.
  std::vector<char> packed;
  std::vector<char> scratch;
  size_t scratch_bytes = 0; // per thread
  // Of the node being computed; all are 0 between two nodes.
  std::atomic<int32_t> next_row{0}, rows_done{0}, next_tile{0}, left{0};
};

} // namespace recua::matmul
