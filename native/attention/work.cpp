// How a node is divided among threads (work.h): each free thread takes the next unit, because rows
// behind a long context take longer than rows at its beginning, and a thread may be held up.
//
// llama.cpp's scheduler would put each node of a separate backend into its own piece of the graph:
// two more starts of the team for each layer. As a custom operation the node stays in the CPU
// backend's piece and is computed by that backend's threads, whichever kind they are.
#include "accel/processor.h"
#include "attention/work.h"

#include "ggml-impl.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

namespace recua::attention {

namespace {

// Index of FLASH_ATTN_EXT's parameters in the custom operation, behind its own.
constexpr size_t params_at = 8; // of 16 words
static_assert(sizeof(ggml_custom_op_params) <= params_at * sizeof(int32_t));

struct Params {
  float scale, max_bias, softcap;
};

constexpr int32_t most_heads = 512;
// Fewer keys do not justify a unit and a place in the join.
constexpr int32_t least_keys = 256;
// Enough units per thread that the last thread to finish is not waited for long.
constexpr int32_t units_per_thread = 4;

bool format_of(const ggml_tensor *tensor, Format &format) {
  switch (tensor->type) {
    case GGML_TYPE_F32: format = Format::f32; break;
    case GGML_TYPE_F16: format = Format::f16; break;
    case GGML_TYPE_BF16: format = Format::bf16; break;
    case GGML_TYPE_Q8_0: format = Format::q8_0; break;
    default: return false;
  }
  const int64_t width = tensor->ne[0];
  return tensor->nb[0] == ggml_type_size(tensor->type) && width % 16 == 0 && width % ggml_blck_size(tensor->type) == 0 &&
         width <= most_dimension;
}

// Strides in ggml's order: row, head, stream.
Rows rows_of(const ggml_tensor *tensor, Format format) {
  return {static_cast<const char *>(tensor->data), static_cast<int64_t>(tensor->nb[1]), static_cast<int64_t>(tensor->nb[2]),
          static_cast<int64_t>(tensor->nb[3]), format};
}

bool fits(const ggml_tensor *node) {
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3], *sinks = node->src[4];
  Format format;
  if (q->type != GGML_TYPE_F32 || !format_of(q, format) || !format_of(k, format) || !format_of(v, format)) return false;
  if (node->type != GGML_TYPE_F32 || !ggml_is_contiguous(node)) return false;
  if (k->ne[1] != v->ne[1] || k->ne[2] != v->ne[2] || k->ne[3] != v->ne[3] || q->ne[3] != k->ne[3]) return false;
  if (q->ne[2] % k->ne[2] != 0 || q->ne[2] / k->ne[2] > most_rows || q->ne[2] > most_heads) return false;
  if (k->ne[1] == 0 || k->ne[1] > INT32_MAX / 2 || q->ne[1] == 0) return false;
  if (mask != nullptr) {
    if (mask->type != GGML_TYPE_F16 || mask->nb[0] != sizeof(ggml_fp16_t) || mask->ne[0] < k->ne[1] || mask->ne[1] < q->ne[1] ||
        mask->ne[2] != 1 || q->ne[3] % mask->ne[3] != 0) {
      return false;
    }
  }
  return sinks == nullptr || (sinks->type == GGML_TYPE_F32 && ggml_is_contiguous(sinks));
}

// `slopes` has room for most_heads.
Task task_of(const ggml_tensor *node, const Params &params, float *slopes) {
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3], *sinks = node->src[4];
  Task task{};
  task.dk = static_cast<int32_t>(k->ne[0]);
  task.dv = static_cast<int32_t>(v->ne[0]);
  task.keys = static_cast<int32_t>(k->ne[1]);
  task.tokens = static_cast<int32_t>(q->ne[1]);
  task.heads = static_cast<int32_t>(q->ne[2]);
  task.kv_heads = static_cast<int32_t>(k->ne[2]);
  task.group = task.heads / task.kv_heads;
  task.streams = static_cast<int32_t>(q->ne[3]);
  Format format{};
  task.q = rows_of(q, Format::f32);
  format_of(k, format);
  task.k = rows_of(k, format);
  format_of(v, format);
  task.v = rows_of(v, format);
  task.mask_streams = 1;
  if (mask != nullptr) {
    task.mask = rows_of(mask, Format::f16);
    task.mask_streams = static_cast<int32_t>(mask->ne[3]);
  }
  task.scale = params.softcap != 0 ? params.scale / params.softcap : params.scale;
  task.softcap = params.softcap;
  if (params.max_bias > 0) {
    const int32_t power = 1 << static_cast<int32_t>(std::floor(std::log2(task.heads)));
    const float first = std::pow(2.0f, -params.max_bias / static_cast<float>(power));
    const float second = std::pow(2.0f, -params.max_bias / 2 / static_cast<float>(power));
    for (int32_t h = 0; h < task.heads; h++) {
      slopes[h] = h < power ? std::pow(first, static_cast<float>(h + 1)) : std::pow(second, static_cast<float>(2 * (h - power) + 1));
    }
    task.slopes = slopes;
  }
  task.sinks = sinks == nullptr ? nullptr : static_cast<const float *>(sinks->data);
  task.out = static_cast<float *>(node->data);
  return task;
}

int32_t parts_of(int32_t whole, int32_t part) { return (whole + part - 1) / part; }

} // namespace

// An item is some tokens of some KV heads. It consists of one unit, or of several that each cover a
// part of the keys.
struct Work::Plan {
  int32_t tile;  // tokens per item
  int32_t heads; // KV heads per item
  int32_t tiles, items;
  int32_t keys; // per unit
  int32_t splits;

  Plan(const Task &task, int32_t threads) {
    tile = std::min(task.tokens, std::max(1, most_rows / task.group));
    tiles = parts_of(task.tokens, tile);
    const int32_t wanted = threads > 1 ? units_per_thread * threads : 1, most_splits = std::max(1, task.keys / least_keys);
    // As many KV heads as leave enough units: read together, their keys are one stretch of memory.
    for (heads = most_heads_of(task); heads > 1; heads--) {
      if (task.kv_heads % heads == 0 && tiles * task.streams * (task.kv_heads / heads) * most_splits >= wanted) break;
    }
    items = tiles * task.streams * (task.kv_heads / heads);
    splits = items < wanted ? std::clamp(parts_of(wanted, items), 1, most_splits) : 1;
    keys = parts_of(parts_of(task.keys, splits), key_block) * key_block;
    splits = parts_of(task.keys, keys);
  }

  static int32_t most_heads_of(const Task &task) {
    return std::min(task.tokens, std::max(1, most_rows / task.group)) * task.group <= most_rows_together ? task.kv_heads : 1;
  }

  Unit unit(const Task &task, int32_t item, int32_t split) const {
    const int32_t groups = task.kv_heads / heads, pair = item % (task.streams * groups);
    // The last tokens first: they see the most keys.
    const int32_t token = (tiles - 1 - item / (task.streams * groups)) * tile;
    return {pair / groups, pair % groups * heads, heads, token, std::min(tile, task.tokens - token),
            split * keys, std::min(task.keys, (split + 1) * keys)};
  }

  int64_t part_floats(const Task &task) const { return static_cast<int64_t>(tile) * task.group * heads * (partial_head + task.dv); }
};

accel::Kernels<Kernel> &kernels() {
  static accel::Kernels<Kernel> all{
      {accel::has_avx512(), avx512_kernel()}, {accel::has_avx2(), avx2_kernel()}, {true, neon_kernel()}, {true, plain_kernel()}};
  return all;
}

bool Work::reserve(const Task &task) {
  try {
    const Plan plan(task, threads);
    const int64_t rows = static_cast<int64_t>(plan.tile) * task.group;
    // Fewer threads may take more heads together.
    const int64_t floats = rows * Plan::most_heads_of(task) * (task.dk + task.dv + 2) + rows * (key_block + 1) + static_cast<int64_t>(key_block) * (task.dk + task.dv + plan.tile + 1) +
                           10 * 16; // each part begins at a multiple of 16
    if (floats > scratch_floats) {
      const int64_t rounded = (floats + 15) / 16 * 16;
      scratch.resize(static_cast<size_t>(rounded * threads + 16));
      scratch_floats = rounded;
    }
    // ggml may use fewer threads than it has, which may need more splits.
    for (int32_t count = 1; count <= threads; count++) {
      const Plan any(task, count);
      const auto needed = static_cast<size_t>(any.items * any.splits * any.part_floats(task));
      if (any.splits > 1 && needed > partials.size()) partials.resize(needed);
    }
    if (plan.items > items) {
      joined = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(plan.items));
      for (int32_t i = 0; i < plan.items; i++) joined[i] = 0;
      items = plan.items;
    }
    return true;
  } catch (const std::bad_alloc &) {
    return false; // ggml needs less memory
  }
}

namespace {
std::atomic<uint64_t> nodes_taken{0};
}

uint64_t Work::taken() { return nodes_taken.load(std::memory_order_relaxed); }

bool Work::take(ggml_tensor *node) {
  if (node->op != GGML_OP_FLASH_ATTN_EXT || !fits(node)) return false;
  Params params;
  std::memcpy(&params, node->op_params, sizeof params);
  float slopes[most_heads];
  if (!reserve(task_of(node, params, slopes))) return false;
  const ggml_custom_op_params custom{compute, GGML_N_TASKS_MAX, this};
  std::memset(node->op_params, 0, sizeof node->op_params);
  std::memcpy(node->op_params, &custom, sizeof custom);
  std::memcpy(node->op_params + params_at, &params, sizeof params);
  node->op = GGML_OP_CUSTOM;
  nodes_taken.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Work::compute(ggml_tensor *node, int thread, int count, void *self) {
  auto *work = static_cast<Work *>(self);
  if (thread < work->threads) work->compute_units(node, thread, count);
  // The last thread to leave resets the counters: ggml's threads meet before they begin the next
  // node.
  if (work->left.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    work->next.store(0, std::memory_order_relaxed);
    work->left.store(0, std::memory_order_relaxed);
  }
}

void Work::compute_units(ggml_tensor *node, int32_t thread, int32_t count) {
  Params params;
  std::memcpy(&params, node->op_params + params_at, sizeof params);
  float slopes[most_heads];
  const Task task = task_of(node, params, slopes);
  const Plan plan(task, std::min(count, threads));
  const auto begin = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
  float *memory = reinterpret_cast<float *>(begin) + thread * scratch_floats;
  const int64_t part = plan.part_floats(task);
  const int32_t units = plan.items * plan.splits;
  for (int32_t i = next.fetch_add(1, std::memory_order_relaxed); i < units; i = next.fetch_add(1, std::memory_order_relaxed)) {
    const int32_t item = i / plan.splits;
    const Unit unit = plan.unit(task, item, i % plan.splits);
    if (plan.splits == 1) {
      kernel.attend(task, unit, memory, nullptr);
      continue;
    }
    float *parts = partials.data() + item * plan.splits * part;
    kernel.attend(task, unit, memory, parts + i % plan.splits * part);
    if (joined[item].fetch_add(1, std::memory_order_acq_rel) + 1 < plan.splits) continue;
    joined[item].store(0, std::memory_order_relaxed);
    kernel.join(task, unit, parts, part, plan.splits);
  }
}

} // namespace recua::attention
