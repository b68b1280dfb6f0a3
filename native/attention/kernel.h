// The interface of the attention kernels, as plain structures. Each kernel is compiled for its own
// instructions, so nothing here is inline or a template: the linker would keep one copy of such a
// function, maybe one with instructions that the machine lacks.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace recua::attention {

// Memory formats of keys, values and masks, by ggml's names.
enum class Format : int32_t { f32, f16, bf16, q8_0 };

// Rows of one tensor; strides are in bytes.
struct Rows {
  const char *data;
  int64_t row, head, stream;
  Format format;
};

// One node of the graph. Row r of a group is token r / group, and head r % group of the heads that
// share a KV head.
struct Task {
  int32_t dk, dv; // multiples of 16
  int32_t keys, tokens, heads, kv_heads, group, streams;
  Rows q;         // row: one per token
  Rows k, v;      // row: one per key
  Rows mask;      // row: one per token; data is null if there is no mask
  int32_t mask_streams;
  float scale;
  float softcap;       // 0: none; else `scale` is already divided by it
  const float *slopes; // ALiBi, by head; null: 1
  const float *sinks;  // by head; null: none
  float *out;          // [stream][token][head][dv]
};

// A piece of work for one thread: some tokens of some KV heads over some keys.
struct Unit {
  int32_t stream;
  int32_t kv_head, kv_heads;
  int32_t token, tokens;
  int32_t key, key_end;
};

// The most rows that share each block of keys.
constexpr int32_t most_rows = 96;
// With more rows than this, a unit has one KV head only. Computing then takes longer than reading.
constexpr int32_t most_rows_together = 16;
constexpr int32_t most_dimension = 256;
constexpr int32_t key_block = 64;

// A partial row, when keys are split over units, holds the largest logit, the sum, and dv sums of
// values.
constexpr int32_t partial_head = 2;

struct Kernel {
  const char *name;
  // `scratch` has Work::scratch_floats floats and is aligned to 64 bytes. If `partial` is set, rows
  // of partial_head + dv floats go there; otherwise the result is written.
  void (*attend)(const Task &task, const Unit &unit, float *scratch, float *partial);
  // Joins `count` parts of a unit's rows and writes the result. `stride`: floats from part to part.
  void (*join)(const Task &task, const Unit &unit, float *parts, int64_t stride, int32_t count);
};

// Null if the processor or this build does not have the kernel.
const Kernel *avx512_kernel();
const Kernel *avx2_kernel();
const Kernel *neon_kernel();
const Kernel *plain_kernel();

} // namespace recua::attention
