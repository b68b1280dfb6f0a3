// The CPU backend for checks: computes one graph at a time, on one thread.
#pragma once

#include "proof/data.h"

#include "ggml-backend.h"
#include "ggml-cpp.h"

#include <string>
#include <vector>

namespace recua::attention {
struct Kernel;
}
namespace recua::matmul {
struct Kernel;
}

namespace recua::proof {

class Cpu {
public:
  Cpu();

  // The buffer types that weights may be copied to: each has its own layout, and kernels for it.
  std::vector<ggml_backend_buffer_type_t> weight_buffers() const;

  bool supports(const ggml_tensor *node) const;

  // Whether weights in this memory would be accepted; `node` is the operation on them.
  bool takes(ggml_backend_buffer_type_t memory, ggml_tensor *weights, const ggml_tensor *node) const;

  // Throws Wrong if it is not computed. Values that no kernel writes are NaN.
  void compute(ggml_context *context, ggml_tensor *node) const;

private:
  ggml_backend_ptr backend;
  ggml_backend_dev_t device;
  ggml_backend_reg_t reg;
};

ggml_context_ptr new_context();
// Throws CodedError.
ggml_backend_buffer_ptr allocate(const ggml_context_ptr &context, ggml_backend_buffer_type_t type);

// All throw Wrong. `kernel`: one of ours; null: ggml's.
void check_products(const Cpu &cpu, const matmul::Kernel *kernel, ggml_type type);
void check_experts(const Cpu &cpu, ggml_type type);
void check_attention(const Cpu &cpu, const attention::Kernel *kernel, ggml_type type_k, ggml_type type_v);
void check_store(const Cpu &cpu, ggml_type type);
void check_elements(const Cpu &cpu);

} // namespace recua::proof
