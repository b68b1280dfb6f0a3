// The interface of the matrix kernels, as plain structures. Each kernel is compiled for its own
// instructions, so nothing here is inline or a template: the linker would keep one copy of such a
// function, maybe one with instructions that the machine lacks.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace recua::matmul {

// Memory formats of weights, by ggml's names.
enum class Format : int32_t { q8_0, q4_k, q5_k, q6_k };

// So many columns of an input row are rounded with one scale.
constexpr int32_t block_columns = 32;

// A part of an input row, rounded to 8 bits: value i is values[i] × scale.
struct Block {
  int8_t values[block_columns];
  int32_t offsets[2]; // where integer sums begin: kernels add a constant to weights to make them positive
  float scale;
  float sum; // of the values, times scale
};

// One product: out[row][output] is the dot product of an input row and a row of weights.
struct Task {
  Format format;
  int32_t columns, outputs, rows;
  const char *weights;
  int64_t weight_stride; // bytes
  const char *input;     // F32
  int64_t input_stride;  // bytes
  char *packed;          // room for a Block per block_columns of each row, aligned to 64 bytes
  float *out;
  int64_t out_stride; // floats
};

struct Kernel {
  const char *name;
  int32_t tile; // outputs that are computed at once
  // Rounds one input row into task.packed.
  void (*pack)(const Task &task, int32_t row);
  // Computes tiles `begin` to `end` for all rows, which are all packed. `scratch` has
  // scratch_bytes(columns) and is aligned to 64 bytes.
  void (*multiply)(const Task &task, int32_t begin, int32_t end, char *scratch);
  size_t (*scratch_bytes)(int32_t columns);
  // For products with one input row; null where ggml's kernels are as fast.
  bool (*takes_row)(Format) = nullptr;
  void (*pack_row)(const Task &task) = nullptr;
  void (*multiply_row)(const Task &task, int32_t begin, int32_t end) = nullptr; // outputs
};

// Null if the build does not have the kernel.
const Kernel *avx512_kernel();
const Kernel *avxvnni_kernel();
const Kernel *avx2_kernel();

} // namespace recua::matmul
