// How a product is divided among threads: they round the input, a row at a time, and then compute
// tiles of outputs. Each free thread takes the next, because a thread may be held up.
#include "accel/processor.h"
#include "matmul/work.h"

#include "ggml-backend.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

namespace recua::matmul {

namespace {

constexpr int64_t most_columns = 1 << 17;
constexpr int64_t most_rows = 1 << 16;
// Fewer outputs do not fill a tile.
constexpr int64_t least_outputs = 16;
// Tiles that a thread takes at once, so that it reads weights in one piece, and so many pieces for
// each thread that the last to finish is not waited for long.
constexpr int32_t most_tiles = 32;
constexpr int32_t pieces_per_thread = 8;
constexpr int32_t spins = 1000; // before a waiting thread gives its core away

bool format_of(ggml_type type, Format &format) {
  switch (type) {
    case GGML_TYPE_Q8_0: format = Format::q8_0; return true;
    case GGML_TYPE_Q4_K: format = Format::q4_k; return true;
    case GGML_TYPE_Q5_K: format = Format::q5_k; return true;
    case GGML_TYPE_Q6_K: format = Format::q6_k; return true;
    default: return false;
  }
}

// In memory that the processor reads as ggml's format says: not where weights are kept in the order
// of other kernels.
bool is_plain(const ggml_tensor *tensor) {
  const ggml_tensor *owner = tensor->view_src != nullptr ? tensor->view_src : tensor;
  return owner->buffer != nullptr && ggml_backend_buft_is_host(ggml_backend_buffer_get_type(owner->buffer));
}

bool is_product(const ggml_tensor *node) {
  const ggml_tensor *weights = node->src[0], *input = node->src[1];
  Format format;
  if (!format_of(weights->type, format) || !is_plain(weights)) return false;
  if (weights->ne[2] != 1 || weights->ne[3] != 1 || weights->nb[0] != ggml_type_size(weights->type)) return false;
  if (weights->ne[0] > most_columns || weights->ne[1] < least_outputs || weights->ne[1] > INT32_MAX / 2) return false;
  if (input->type != GGML_TYPE_F32 || input->nb[0] != sizeof(float)) return false;
  // Rows at one distance.
  if (input->nb[2] != input->nb[1] * input->ne[1] || input->nb[3] != input->nb[2] * input->ne[2]) return false;
  const int64_t rows = ggml_nrows(input);
  return rows <= most_rows && node->type == GGML_TYPE_F32 && ggml_is_contiguous(node);
}

Task task_of(const ggml_tensor *node, char *packed) {
  const ggml_tensor *weights = node->src[0], *input = node->src[1];
  Task task{};
  format_of(weights->type, task.format);
  task.columns = static_cast<int32_t>(weights->ne[0]);
  task.outputs = static_cast<int32_t>(weights->ne[1]);
  task.rows = static_cast<int32_t>(ggml_nrows(input));
  task.weights = static_cast<const char *>(weights->data);
  task.weight_stride = static_cast<int64_t>(weights->nb[1]);
  task.input = static_cast<const char *>(input->data);
  task.input_stride = static_cast<int64_t>(input->nb[1]);
  task.packed = packed;
  task.out = static_cast<float *>(node->data);
  task.out_stride = task.outputs;
  return task;
}

char *aligned(std::vector<char> &memory) {
  return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

std::atomic<uint64_t> nodes_taken{0};

} // namespace

std::vector<ggml_type> types() { return {GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}; }

accel::Kernels<Kernel> &kernels() {
  static accel::Kernels<Kernel> all{
      {accel::has_avx512_vnni(), avx512_kernel()}, {accel::has_avx_vnni(), avxvnni_kernel()}, {accel::has_avx2(), avx2_kernel()}};
  return all;
}

uint64_t Work::taken() { return nodes_taken.load(std::memory_order_relaxed); }

bool Work::reserve(int64_t rows, int32_t columns) {
  try {
    const size_t packed_bytes = static_cast<size_t>(rows * (columns / block_columns)) * sizeof(Block) + 64;
    if (packed_bytes > packed.size()) packed.resize(packed_bytes);
    const size_t bytes = kernel.scratch_bytes(columns);
    if (bytes > scratch_bytes) {
      scratch.resize(bytes * static_cast<size_t>(threads) + 64);
      scratch_bytes = bytes;
    }
    return true;
  } catch (const std::bad_alloc &) {
    return false; // ggml needs less memory
  }
}

bool Work::fits(const ggml_tensor *node) const {
  if (!is_product(node)) return false;
  Format format;
  format_of(node->src[0]->type, format);
  return ggml_nrows(node->src[1]) > 1 || (kernel.takes_row != nullptr && kernel.takes_row(format));
}

bool Work::take(ggml_tensor *node) {
  if (node->op != GGML_OP_MUL_MAT || !fits(node)) return false;
  if (!reserve(ggml_nrows(node->src[1]), static_cast<int32_t>(node->src[0]->ne[0]))) return false;
  const ggml_custom_op_params custom{compute, GGML_N_TASKS_MAX, this};
  std::memset(node->op_params, 0, sizeof node->op_params);
  std::memcpy(node->op_params, &custom, sizeof custom);
  node->op = GGML_OP_CUSTOM;
  nodes_taken.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Work::compute(ggml_tensor *node, int thread, int count, void *self) {
  auto *work = static_cast<Work *>(self);
  if (thread < work->threads) work->compute_tiles(node, thread, count);
  // The last thread to leave resets the counters: ggml's threads meet before they begin the next
  // node.
  if (work->left.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    for (auto *counter : {&work->next_row, &work->rows_done, &work->next_tile, &work->left}) counter->store(0, std::memory_order_relaxed);
  }
}

void Work::compute_tiles(const ggml_tensor *node, int32_t thread, int32_t count) {
  const Task task = task_of(node, aligned(packed));
  const bool is_single = task.rows == 1 && kernel.takes_row != nullptr && kernel.takes_row(task.format);
  for (int32_t row = next_row.fetch_add(1, std::memory_order_relaxed); row < task.rows; row = next_row.fetch_add(1, std::memory_order_relaxed)) {
    is_single ? kernel.pack_row(task) : kernel.pack(task, row);
    rows_done.fetch_add(1, std::memory_order_release);
  }
  // Only rows that other threads have begun are waited for.
  for (int32_t i = 0; rows_done.load(std::memory_order_acquire) < task.rows; i++) {
    if (i >= spins) std::this_thread::yield();
  }
  char *memory = aligned(scratch) + static_cast<size_t>(thread) * scratch_bytes;
  const int32_t tiles = (task.outputs + kernel.tile - 1) / kernel.tile;
  const int32_t piece = std::clamp(tiles / (pieces_per_thread * std::min(count, threads)), 1, most_tiles);
  for (int32_t tile = next_tile.fetch_add(piece, std::memory_order_relaxed); tile < tiles; tile = next_tile.fetch_add(piece, std::memory_order_relaxed)) {
    const int32_t end = std::min(tile + piece, tiles);
    if (is_single) kernel.multiply_row(task, tile * kernel.tile, std::min(end * kernel.tile, task.outputs));
    else kernel.multiply(task, tile, end, memory);
  }
}

} // namespace recua::matmul
