// Attention over keys and values of two types, and how they are written to the cache.
#include "attention/work.h"
#include "proof/cpu.h"

#include <cmath>
#include <cstring>
#include <memory>

namespace recua::proof {

// For values up to 1: ggml sums F16 values in F16.
constexpr double attention_bound = 1e-2;

// `kernel`: ours; null: ggml's.
void check_attention(const Cpu &cpu, const attention::Kernel *kernel, ggml_type type_k, ggml_type type_v) {
  const Attention one(type_k, type_v);
  for (const int64_t tokens : {1, 4, 66}) {
    const auto context = new_context();
    ggml_context *c = context.get();
    // llama.cpp's layout: the heads of a token, or of a key, are adjacent.
    ggml_tensor *q = ggml_new_tensor_3d(c, GGML_TYPE_F32, one.size, one.heads, tokens);
    ggml_tensor *k = ggml_new_tensor_2d(c, type_k, one.size, one.keys);
    ggml_tensor *v = ggml_new_tensor_2d(c, type_v, one.size, one.keys);
    ggml_tensor *mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, one.keys, tokens);
    ggml_tensor *node = ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), ggml_permute(c, ggml_reshape_3d(c, k, one.size, 1, one.keys), 0, 2, 1, 3),
                                            ggml_permute(c, ggml_reshape_3d(c, v, one.size, 1, one.keys), 0, 2, 1, 3), mask, one.scale, 0, 0);
    ggml_prec_set_acc(node, GGML_PREC_F32);
    if (!cpu.supports(node)) return;
    const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
    std::memcpy(q->data, one.q.data(), ggml_nbytes(q));
    std::memcpy(k->data, one.k_bytes.data(), ggml_nbytes(k));
    std::memcpy(v->data, one.v_bytes.data(), ggml_nbytes(v));
    for (int64_t t = 0; t < tokens; t++) {
      for (int64_t i = 0; i < one.keys; i++) {
        static_cast<ggml_fp16_t *>(mask->data)[t * one.keys + i] = ggml_fp32_to_fp16(i < one.visible(t) ? 0 : -INFINITY);
      }
    }
    std::unique_ptr<attention::Work> work;
    if (kernel != nullptr) {
      work = std::make_unique<attention::Work>(*kernel, 1);
      if (!work->take(node)) return;
    }
    cpu.compute(c, node);
    const auto *got = static_cast<const float *>(node->data);
    for (int64_t i = 0; i < tokens * one.heads * one.size; i++) {
      if (!(std::abs(got[i] - one.right[i]) <= attention_bound)) {
        throw Wrong(place("attention", tokens, i / one.size, i % one.size, got[i], one.right[i]));
      }
    }
  }
}

// Writes keys and values to the cache.
void check_store(const Cpu &cpu, ggml_type type) {
  const int64_t columns = 64, rows = 5;
  const std::vector<float> from = noise(columns * rows, 7);
  const auto context = new_context();
  ggml_tensor *cache = ggml_new_tensor_2d(context.get(), type, columns, 8);
  ggml_tensor *values = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows);
  ggml_tensor *where = ggml_new_tensor_1d(context.get(), GGML_TYPE_I64, rows);
  ggml_tensor *node = ggml_set_rows(context.get(), cache, values, where);
  if (!cpu.supports(node)) return;
  const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
  std::memset(cache->data, 0, ggml_nbytes(cache));
  std::memcpy(values->data, from.data(), ggml_nbytes(values));
  const int64_t at[] = {6, 1, 0, 7, 3};
  std::memcpy(where->data, at, sizeof at);
  cpu.compute(context.get(), node);
  const Rounded right(type, from, columns);
  const std::vector<float> got = to_floats(type, static_cast<const uint8_t *>(cache->data), columns * 8);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < columns; i++) {
      const double value = got[at[r] * columns + i];
      // If a value is half-way between two, either is right.
      if (!(std::abs(value - from[r * columns + i]) <= 1.05 * right.most_off + 1e-6)) {
        throw Wrong(place("store", rows, r, i, value, from[r * columns + i]));
      }
    }
  }
}

} // namespace recua::proof
