// Products of weights of one type, plain and in each layout that they may be copied to.
#include "matmul/work.h"
#include "proof/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace recua::proof {

namespace {

// Bounds for a dot product, in units of its largest weight times the sum of the absolute inputs.
// F32 sums of 512 products are off by less than 1e-5 of that; one missing or wrong product is about
// 1e-3. ARM may sum F16 in F16.
#if defined(__x86_64__) || defined(_M_X64)
constexpr double half_bound = 1e-4;
#else
constexpr double half_bound = 5e-4;
#endif
constexpr double product_bound = 1e-4;

// A matrix times rows of activations, for each number of rows.
void check_product(const Cpu &cpu, const matmul::Kernel *kernel, ggml_type type, int64_t columns, int64_t outputs, const std::vector<int64_t> &counts) {
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  const Weights weights(type, columns, outputs);
  const Activations input(columns, most);
  const std::vector<double> right = products(weights, input);
  const double bound = type == GGML_TYPE_F16 ? half_bound : product_bound;
  for (const auto memory : cpu.weight_buffers()) {
    // Ours take weights as they are in the file.
    if (kernel != nullptr && memory != ggml_backend_cpu_buffer_type()) continue;
    const auto of_weights = new_context();
    ggml_tensor *matrix = ggml_new_tensor_2d(of_weights.get(), type, columns, outputs);
    {
      const auto asking = new_context();
      ggml_tensor *x = ggml_new_tensor_2d(asking.get(), GGML_TYPE_F32, columns, most);
      if (!cpu.takes(memory, matrix, ggml_mul_mat(asking.get(), matrix, x))) continue;
    }
    const auto weight_buffer = allocate(of_weights, memory);
    ggml_backend_buffer_set_usage(weight_buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(matrix, weights.bytes.data(), 0, weights.bytes.size());
    for (const int64_t rows : counts) {
      const auto context = new_context();
      ggml_tensor *x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows);
      ggml_tensor *node = ggml_mul_mat(context.get(), matrix, x);
      const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
      std::memcpy(x->data, input.values.data(), ggml_nbytes(x));
      std::unique_ptr<matmul::Work> work;
      if (kernel != nullptr) {
        work = std::make_unique<matmul::Work>(*kernel, 1);
        if (!work->take(node)) continue; // ggml computes it
      }
      cpu.compute(context.get(), node);
      const auto *got = static_cast<const float *>(node->data);
      for (int64_t r = 0; r < rows; r++) {
        for (int64_t n = 0; n < outputs; n++) {
          const double off = std::abs(got[r * outputs + n] - right[r * outputs + n]);
          if (!(off <= bound * weights.largest[n] * input.sums[r])) {
            throw Wrong(place(memory == ggml_backend_cpu_buffer_type() ? "product" : ggml_backend_buft_name(memory), rows, r, n,
                              got[r * outputs + n], right[r * outputs + n]));
          }
        }
      }
    }
  }
}

void check_lookup(const Cpu &cpu, ggml_type type) {
  const int64_t columns = 512, rows = 9;
  const Weights weights(type, columns, rows);
  const auto context = new_context();
  ggml_tensor *matrix = ggml_new_tensor_2d(context.get(), type, columns, rows);
  ggml_tensor *which = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 3);
  ggml_tensor *node = ggml_get_rows(context.get(), matrix, which);
  if (!cpu.supports(node)) return;
  const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
  std::memcpy(matrix->data, weights.bytes.data(), weights.bytes.size());
  const int32_t wanted[] = {8, 0, 5};
  std::memcpy(which->data, wanted, sizeof wanted);
  cpu.compute(context.get(), node);
  for (int64_t r = 0; r < 3; r++) {
    for (int64_t i = 0; i < columns; i++) {
      const double got = static_cast<const float *>(node->data)[r * columns + i], right = weights.values[wanted[r] * columns + i];
      if (!(std::abs(got - right) <= 1e-6 * weights.largest[wanted[r]])) throw Wrong(place("look-up", 3, r, i, got, right));
    }
  }
}

} // namespace

void check_products(const Cpu &cpu, const matmul::Kernel *kernel, ggml_type type) {
  const int64_t block = ggml_blck_size(type);
  check_product(cpu, kernel, type, 512, 64, {1, 2, 5, 33, 130});
  // An odd number of blocks or values, and of outputs, that no vector size divides.
  check_product(cpu, kernel, type, block == 1 ? 77 : block <= 32 ? block * 11 : block * 3, 37, {1, 3, 34});
  if (kernel == nullptr) check_lookup(cpu, type);
}

// Each row goes to some of several matrices.
void check_experts(const Cpu &cpu, ggml_type type) {
  const int64_t columns = 512, outputs = 32, experts = 4, used = 2;
  const Weights weights(type, columns, outputs * experts);
  for (const int64_t rows : {1, 9}) {
    const Activations input(columns, rows * used);
    const std::vector<double> right = products(weights, input);
    for (const auto memory : cpu.weight_buffers()) {
      const auto of_weights = new_context();
      ggml_tensor *matrices = ggml_new_tensor_3d(of_weights.get(), type, columns, outputs, experts);
      const auto context = new_context();
      ggml_tensor *x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, columns, used, rows);
      ggml_tensor *which = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, used, rows);
      ggml_tensor *node = ggml_mul_mat_id(context.get(), matrices, x, which);
      if (!cpu.takes(memory, matrices, node)) continue;
      const auto weight_buffer = allocate(of_weights, memory);
      ggml_backend_tensor_set(matrices, weights.bytes.data(), 0, weights.bytes.size());
      const auto buffer = allocate(context, ggml_backend_cpu_buffer_type());
      std::memcpy(x->data, input.values.data(), ggml_nbytes(x));
      auto *chosen = static_cast<int32_t *>(which->data);
      for (int64_t i = 0; i < rows * used; i++) chosen[i] = static_cast<int32_t>((i / used + 3 * (i % used)) % experts);
      cpu.compute(context.get(), node);
      const auto *got = static_cast<const float *>(node->data);
      for (int64_t i = 0; i < rows * used; i++) {
        for (int64_t n = 0; n < outputs; n++) {
          const int64_t at = chosen[i] * outputs + n;
          const double expected = right[i * outputs * experts + at];
          if (!(std::abs(got[i * outputs + n] - expected) <= (type == GGML_TYPE_F16 ? half_bound : product_bound) * weights.largest[at] * input.sums[i])) {
            throw Wrong(place("product with experts", rows, i, n, got[i * outputs + n], expected));
          }
        }
      }
    }
  }
}

} // namespace recua::proof
