// Operations on each value or row alone.
#include "proof/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace recua::proof {

namespace {

using Build = std::function<ggml_tensor *(ggml_context *, ggml_tensor *)>;
using Plain = std::function<std::vector<double>(const std::vector<float> &, int64_t columns)>;

void check_element(const Cpu &cpu, const char *name, const Build &build, const Plain &plain, double bound) {
  for (const int64_t columns : {64, 77, 512}) {
    const int64_t rows = 3;
    std::vector<float> from = noise(columns * rows, 11);
    for (float &value : from) value *= 4;
    const auto context = new_context();
    ggml_tensor *x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows);
    ggml_tensor *node = build(context.get(), x);
    const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
    std::memcpy(x->data, from.data(), ggml_nbytes(x));
    cpu.compute(context.get(), node);
    const std::vector<double> right = plain(from, columns);
    const auto *got = static_cast<const float *>(node->data);
    for (size_t i = 0; i < right.size(); i++) {
      if (!(std::abs(got[i] - right[i]) <= bound * std::max(1.0, std::abs(right[i])))) {
        throw Wrong(place(name, rows, static_cast<int64_t>(i) / columns, static_cast<int64_t>(i) % columns, got[i], right[i]));
      }
    }
  }
}

// One value at a time.
Plain each(const std::function<double(double)> &function) {
  return [function](const std::vector<float> &from, int64_t) {
    std::vector<double> to(from.size());
    for (size_t i = 0; i < from.size(); i++) to[i] = function(from[i]);
    return to;
  };
}

// One row at a time.
Plain rows(const std::function<void(const float *, double *, int64_t)> &function) {
  return [function](const std::vector<float> &from, int64_t columns) {
    std::vector<double> to(from.size());
    for (size_t i = 0; i < from.size(); i += static_cast<size_t>(columns)) function(&from[i], &to[i], columns);
    return to;
  };
}

// Rotates pairs of values by their position.
void check_rotation(const Cpu &cpu, int kind) {
  const int64_t size = 64, heads = 2, tokens = 3;
  const std::vector<float> from = noise(size * heads * tokens, 13);
  const auto context = new_context();
  ggml_tensor *x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, size, heads, tokens);
  ggml_tensor *positions = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, tokens);
  ggml_tensor *node = ggml_rope_ext(context.get(), x, positions, nullptr, static_cast<int>(size), kind, 0, 10000, 1, 0, 1, 0, 0);
  const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
  std::memcpy(x->data, from.data(), ggml_nbytes(x));
  const int32_t at[] = {0, 1, 77};
  std::memcpy(positions->data, at, sizeof at);
  cpu.compute(context.get(), node);
  const auto *got = static_cast<const float *>(node->data);
  for (int64_t row = 0; row < heads * tokens; row++) {
    for (int64_t pair = 0; pair < size / 2; pair++) {
      const double angle = at[row / heads] * std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(size));
      const int64_t first = row * size + (kind == GGML_ROPE_TYPE_NEOX ? pair : 2 * pair);
      const int64_t second = first + (kind == GGML_ROPE_TYPE_NEOX ? size / 2 : 1);
      const double right[] = {from[first] * std::cos(angle) - from[second] * std::sin(angle), from[first] * std::sin(angle) + from[second] * std::cos(angle)};
      if (!(std::abs(got[first] - right[0]) <= 1e-4)) throw Wrong(place("rotation", heads * tokens, row, first % size, got[first], right[0]));
      if (!(std::abs(got[second] - right[1]) <= 1e-4)) throw Wrong(place("rotation", heads * tokens, row, second % size, got[second], right[1]));
    }
  }
}

} // namespace

void check_elements(const Cpu &cpu) {
  using C = ggml_context *;
  using T = ggml_tensor *;
  const double exact = 1e-5, tabled = 5e-3; // GELU is looked up in a table of F16
  check_element(cpu, "RMS norm", [](C c, T x) { return ggml_rms_norm(c, x, 1e-5f); }, rows([](const float *x, double *y, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += static_cast<double>(x[i]) * x[i];
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5);
  }), exact);
  check_element(cpu, "norm", [](C c, T x) { return ggml_norm(c, x, 1e-5f); }, rows([](const float *x, double *y, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    const double mean = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) / std::sqrt(squares / static_cast<double>(n) + 1e-5);
  }), exact);
  check_element(cpu, "softmax", [](C c, T x) { return ggml_soft_max_ext(c, x, nullptr, 0.5f, 0); }, rows([](const float *x, double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += y[i] = std::exp(0.5 * x[i]);
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
  }), exact);
  check_element(cpu, "SiLU", [](C c, T x) { return ggml_silu(c, x); }, each([](double x) { return x / (1 + std::exp(-x)); }), exact);
  check_element(cpu, "SwiGLU", [](C c, T x) { return ggml_swiglu_split(c, x, x); }, each([](double x) { return x * x / (1 + std::exp(-x)); }), exact);
  check_element(cpu, "GELU", [](C c, T x) { return ggml_gelu(c, x); },
                each([](double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))); }), tabled);
  check_element(cpu, "sigmoid", [](C c, T x) { return ggml_sigmoid(c, x); }, each([](double x) { return 1 / (1 + std::exp(-x)); }), exact);
  check_element(cpu, "sum", [](C c, T x) { return ggml_add(c, x, ggml_scale(c, x, 0.25f)); }, each([](double x) { return 1.25 * x; }), exact);
  check_element(cpu, "product by element", [](C c, T x) { return ggml_mul(c, x, x); }, each([](double x) { return x * x; }), exact);
  check_element(cpu, "F16", [](C c, T x) { return ggml_cast(c, ggml_cast(c, x, GGML_TYPE_F16), GGML_TYPE_F32); }, each([](double x) { return x; }), 1e-3);
  check_element(cpu, "BF16", [](C c, T x) { return ggml_cast(c, ggml_cast(c, x, GGML_TYPE_BF16), GGML_TYPE_F32); }, each([](double x) { return x; }), 8e-3);
  check_rotation(cpu, GGML_ROPE_TYPE_NORMAL);
  check_rotation(cpu, GGML_ROPE_TYPE_NEOX);
}

} // namespace recua::proof
