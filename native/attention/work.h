// The attention of one context: turns nodes of its graphs into nodes that the kernels compute, on
// the threads of ggml's CPU backend, and holds the memory for that.
#pragma once

#include "accel/kernels.h"
#include "attention/kernel.h"

#include "ggml.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace recua::attention {

accel::Kernels<Kernel> &kernels();

class Work {
public:
  // At most `threads` threads compute.
  Work(const Kernel &kernel, int32_t threads) : kernel(kernel), threads(threads) {}
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  // Call while the graph is built and no step is being computed. Turns a FLASH_ATTN_EXT into a
  // custom operation with the same sources and result. False if ggml must compute the node.
  bool take(ggml_tensor *node);

  // Any thread. How many nodes were taken in this process.
  static uint64_t taken();

private:
  struct Plan;
  static void compute(ggml_tensor *node, int thread, int count, void *self);
  void compute_units(ggml_tensor *node, int32_t thread, int32_t count);
  bool reserve(const Task &task);

  const Kernel &kernel;
  const int32_t threads;
  // Grow with the nodes taken; a reused graph needs no more than before.
  std::vector<float> scratch, partials;
  int64_t scratch_floats = 0; // per thread
  std::unique_ptr<std::atomic<int32_t>[]> joined; // per item: how many of its units are done
  int32_t items = 0;
  // Of the node being computed; all are 0 between two nodes.
  std::atomic<int32_t> next{0}, left{0};
};

} // namespace recua::attention
