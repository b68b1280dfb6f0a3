#include "proof/data.h"

#include "coded_error.h"

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace recua::proof {

namespace {

class Chance {
public:
  explicit Chance(uint32_t seed) : state(seed * 2654435761u + 1) {}
  uint32_t bits() {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
  }
  // From -1 to 1.
  float value() { return static_cast<float>(static_cast<int32_t>(bits())) / 2147483648.0f; }

private:
  uint32_t state;
};

// The offsets of a block's F16 scales; its other bits are arbitrary.
std::vector<size_t> scales_of(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_0: return {offsetof(block_q4_0, d)};
    case GGML_TYPE_Q4_1: return {0, 2};
    case GGML_TYPE_Q5_0: return {offsetof(block_q5_0, d)};
    case GGML_TYPE_Q5_1: return {0, 2};
    case GGML_TYPE_Q8_0: return {offsetof(block_q8_0, d)};
    case GGML_TYPE_Q1_0: return {offsetof(block_q1_0, d)};
    case GGML_TYPE_Q2_0: return {offsetof(block_q2_0, d)};
    case GGML_TYPE_Q2_K: return {sizeof(block_q2_K) - 4, sizeof(block_q2_K) - 2};
    case GGML_TYPE_Q3_K: return {offsetof(block_q3_K, d)};
    case GGML_TYPE_Q4_K: return {0, 2};
    case GGML_TYPE_Q5_K: return {0, 2};
    case GGML_TYPE_Q6_K: return {offsetof(block_q6_K, d)};
    case GGML_TYPE_TQ1_0: return {offsetof(block_tq1_0, d)};
    case GGML_TYPE_TQ2_0: return {offsetof(block_tq2_0, d)};
    case GGML_TYPE_IQ2_XXS: return {offsetof(block_iq2_xxs, d)};
    case GGML_TYPE_IQ2_XS: return {offsetof(block_iq2_xs, d)};
    case GGML_TYPE_IQ2_S: return {offsetof(block_iq2_s, d)};
    case GGML_TYPE_IQ3_XXS: return {offsetof(block_iq3_xxs, d)};
    case GGML_TYPE_IQ3_S: return {offsetof(block_iq3_s, d)};
    case GGML_TYPE_IQ1_S: return {offsetof(block_iq1_s, d)};
    case GGML_TYPE_IQ4_NL: return {offsetof(block_iq4_nl, d)};
    case GGML_TYPE_IQ4_XS: return {offsetof(block_iq4_xs, d)};
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_MXFP4:
    case GGML_TYPE_NVFP4: return {};
    default: throw CodedError("invalid_argument", std::string("No products of ") + ggml_type_name(type) + " are checked.");
  }
}

// A scale from 0.01 to 0.02.
ggml_fp16_t scale(Chance &chance) { return ggml_fp32_to_fp16(0.015f + 0.005f * chance.value()); }

void set_scales(ggml_type type, uint8_t *block, Chance &chance) {
  for (const size_t at : scales_of(type)) {
    const ggml_fp16_t value = scale(chance);
    std::memcpy(block + at, &value, sizeof value);
  }
  if (type == GGML_TYPE_MXFP4) block[0] = static_cast<uint8_t>(120 + chance.bits() % 4); // a power of two
  if (type == GGML_TYPE_NVFP4) {
    for (int i = 0; i < 4; i++) block[i] = static_cast<uint8_t>(0x20 + chance.bits() % 32); // F8 with 4 bits of exponent
  }
  if (type == GGML_TYPE_IQ1_M) {
    // Four bits of the scale in each of four words.
    uint16_t words[4];
    uint8_t *at = block + offsetof(block_iq1_m, scales);
    std::memcpy(words, at, sizeof words);
    const ggml_fp16_t value = scale(chance);
    for (int i = 0; i < 4; i++) words[i] = static_cast<uint16_t>((words[i] & 0x0fff) | (((value >> (4 * i)) & 15) << 12));
    std::memcpy(at, words, sizeof words);
  }
}

bool is_plain(ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16; }

} // namespace

std::string place(const char *what, int64_t rows, int64_t row, int64_t column, double got, double right) {
  char text[200];
  std::snprintf(text, sizeof text, "%s of %lld rows: value %lld of row %lld is %g instead of %g", what, static_cast<long long>(rows),
                static_cast<long long>(column), static_cast<long long>(row), got, right);
  return text;
}

std::vector<float> noise(int64_t count, uint32_t seed) {
  Chance chance(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) value = chance.value();
  return values;
}

std::vector<float> to_floats(ggml_type type, const uint8_t *bytes, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  if (type == GGML_TYPE_F32) std::memcpy(values.data(), bytes, values.size() * sizeof(float));
  else ggml_get_type_traits(type)->to_float(bytes, values.data(), count);
  return values;
}

Rounded::Rounded(ggml_type type, const std::vector<float> &from, int64_t columns)
    : bytes(ggml_row_size(type, columns) * (from.size() / static_cast<size_t>(columns))) {
  const auto count = static_cast<int64_t>(from.size());
  if (type == GGML_TYPE_F32) std::memcpy(bytes.data(), from.data(), bytes.size());
  else ggml_get_type_traits(type)->from_float_ref(from.data(), bytes.data(), count);
  values = to_floats(type, bytes.data(), count);
  for (size_t i = 0; i < from.size(); i++) most_off = std::max(most_off, static_cast<double>(std::abs(values[i] - from[i])));
}

Weights::Weights(ggml_type type, int64_t columns, int64_t rows) : columns(columns), rows(rows), largest(static_cast<size_t>(rows)) {
  const uint32_t seed = 1 + static_cast<uint32_t>(type);
  if (is_plain(type)) {
    bytes = Rounded(type, noise(columns * rows, seed), columns).bytes;
  } else {
    Chance chance(seed);
    bytes.resize(ggml_row_size(type, columns) * static_cast<size_t>(rows));
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(chance.bits() >> 11);
    for (size_t at = 0; at < bytes.size(); at += ggml_type_size(type)) set_scales(type, &bytes[at], chance);
  }
  values = to_floats(type, bytes.data(), columns * rows);
  for (int64_t i = 0; i < columns * rows; i++) {
    const double value = std::abs(values[i]);
    if (!std::isfinite(value)) throw CodedError("internal_error", std::string("A check of ") + ggml_type_name(type) + " has a weight that is not a number.");
    largest[i / columns] = std::max(largest[i / columns], value);
  }
}

Activations::Activations(int64_t columns, int64_t rows) : columns(columns), rows(rows), values(static_cast<size_t>(columns * rows)), sums(static_cast<size_t>(rows)) {
  Chance chance(3);
  for (int64_t i = 0; i < columns * rows; i++) {
    const int64_t at = i % columns;
    const uint32_t bits = chance.bits();
    values[i] = at % 32 == (at / 32 + i / columns) % 32 ? (bits & 256 ? 127 : -127) : static_cast<float>(static_cast<int32_t>(bits % 253) - 126);
    sums[i / columns] += std::abs(values[i]);
  }
}

std::vector<double> products(const Weights &weights, const Activations &input) {
  std::vector<double> all(static_cast<size_t>(weights.rows * input.rows));
  for (int64_t r = 0; r < input.rows; r++) {
    const float *x = &input.values[r * input.columns];
    for (int64_t n = 0; n < weights.rows; n++) {
      const float *w = &weights.values[n * weights.columns];
      double sums[4] = {0, 0, 0, 0}; // several at a time, so that no addition waits for another
      int64_t i = 0;
      for (; i + 4 <= weights.columns; i += 4) {
        for (int64_t part = 0; part < 4; part++) sums[part] += static_cast<double>(w[i + part]) * x[i + part];
      }
      for (; i < weights.columns; i++) sums[0] += static_cast<double>(w[i]) * x[i];
      all[r * weights.rows + n] = sums[0] + sums[1] + sums[2] + sums[3];
    }
  }
  return all;
}

Attention::Attention(ggml_type type_k, ggml_type type_v) : q(noise(tokens * heads * size, 17)), right(static_cast<size_t>(tokens * heads * size)) {
  // As in Activations, 16 times smaller.
  for (size_t i = 0; i < q.size(); i++) q[i] = (i % 32 == 5 ? 127.0f : std::round(q[i] * 126)) / 16;
  Rounded k(type_k, noise(keys * size, 19), size), v(type_v, noise(keys * size, 23), size);
  k_bytes = std::move(k.bytes);
  v_bytes = std::move(v.bytes);
  std::vector<double> shares(keys);
  for (int64_t row = 0; row < tokens * heads; row++) {
    const int64_t seen = visible(row / heads);
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < seen; i++) {
      double dot = 0;
      for (int64_t d = 0; d < size; d++) dot += static_cast<double>(q[row * size + d]) * k.values[i * size + d];
      shares[i] = dot * scale;
      most = std::max(most, shares[i]);
    }
    for (int64_t i = 0; i < seen; i++) sum += shares[i] = std::exp(shares[i] - most);
    for (int64_t i = 0; i < seen; i++) {
      const double share = shares[i] / sum;
      for (int64_t d = 0; d < size; d++) right[row * size + d] += share * v.values[i * size + d];
    }
  }
}

} // namespace recua::proof
