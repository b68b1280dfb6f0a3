// Input of the checks of the CPU backend, always the same, and the right results, computed by plain
// code.
#pragma once

#include "ggml.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace recua::proof {

// A kernel computes wrong results. The message says where, for people.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "product of 5 rows: value 3 of row 1 is 12.5 instead of 13".
std::string place(const char *what, int64_t rows, int64_t row, int64_t column, double got, double right);

// Values from -1 to 1.
std::vector<float> noise(int64_t count, uint32_t seed);

// A matrix of any type. The bits of a quantized one are random, so that every code occurs; its
// scales are small numbers.
struct Weights {
  Weights(ggml_type type, int64_t columns, int64_t rows);
  int64_t columns, rows;
  std::vector<uint8_t> bytes;
  std::vector<float> values;
  std::vector<double> largest; // by row: largest absolute value
};

// Rows of whole numbers, with 127 or -127 in every 32 of them: a kernel that rounds them to 8 bits
// loses nothing, so its results can be compared closely.
struct Activations {
  Activations(int64_t columns, int64_t rows);
  int64_t columns, rows;
  std::vector<float> values;
  std::vector<double> sums; // by row: sum of absolute values
};

// Indexed [row of the input][row of the weights].
std::vector<double> products(const Weights &weights, const Activations &input);

std::vector<float> to_floats(ggml_type type, const uint8_t *bytes, int64_t count);

// Rows after rounding to a type.
struct Rounded {
  Rounded(ggml_type type, const std::vector<float> &from, int64_t columns);
  std::vector<uint8_t> bytes;
  std::vector<float> values;
  double most_off = 0;
};

// One KV head shared by two heads; each token sees a few more keys than the one before.
struct Attention {
  Attention(ggml_type type_k, ggml_type type_v);
  static constexpr int64_t size = 64, heads = 2, keys = 256, tokens = 66;
  static constexpr float scale = 0.125f;
  static int64_t visible(int64_t token) { return 40 + 3 * token; }
  std::vector<float> q; // [token][head][value]
  std::vector<uint8_t> k_bytes, v_bytes;
  std::vector<double> right; // [token][head][value]
};

} // namespace recua::proof
