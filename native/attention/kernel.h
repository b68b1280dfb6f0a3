// What a kernel of attention computes, as plain structures. Each kernel is compiled for
// instructions of its own, so nothing here is inline or a template: the linker would keep one copy
// of such a function, maybe the one with instructions that a machine does not have.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace recua::attention {

// How keys, values and masks lie in memory, by ggml's names.
enum class Format : int32_t { f32, f16, bf16, q8_0 };

// Rows of one tensor; strides are in bytes.
struct Rows {
  const char *data;
  int64_t row, head, stream;
  Format format;
};

// One node of the graph. Row r of a group is token r / group, head r % group of those that share a
// KV head.
struct Task {
  int32_t dk, dv; // multiples of 16
  int32_t keys, tokens, heads, kv_heads, group, streams;
  Rows q;         // row: a token
  Rows k, v;      // row: a key
  Rows mask;      // row: a token; data null where there is none
  int32_t mask_streams;
  float scale;
  float softcap;       // 0: none; else scale is divided by it already
  const float *slopes; // of ALiBi, by head; null: 1
  const float *sinks;  // by head; null: none
  float *out;          // [stream][token][head][dv]
};

// What one thread does at a time: some tokens of one KV head over some keys.
struct Unit {
  int32_t stream, kv_head;
  int32_t token, tokens;
  int32_t key, key_end;
};

// Rows that share each block of keys, at most.
constexpr int32_t most_rows = 96;
constexpr int32_t most_dimension = 256;
constexpr int32_t key_block = 64;

// Of a row whose keys are split over units: the largest logit, the sum, and dv sums of values.
constexpr int32_t partial_head = 2;

struct Kernel {
  const char *name;
  // `scratch` has scratch_floats(), at a multiple of 64 bytes. With `partial`, rows of
  // partial_head + dv go there; else the result is written.
  void (*attend)(const Task &task, const Unit &unit, float *scratch, float *partial);
  // Joins `count` parts of a unit's rows and writes the result. `stride`: floats from part to part.
  void (*join)(const Task &task, const Unit &unit, float *parts, int64_t stride, int32_t count);
};

// Null where the processor, or what this was compiled for, does not have it.
const Kernel *avx512_kernel();
const Kernel *avx2_kernel();
const Kernel *neon_kernel();
const Kernel *plain_kernel();

} // namespace recua::attention
