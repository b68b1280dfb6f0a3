#include "proof/cpu.h"

#include "coded_error.h"

#include <cstring>

namespace recua::proof {

Cpu::Cpu() : backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr)) {
  if (!backend) throw CodedError("backend_unusable", "No CPU backend is loaded.");
  device = ggml_backend_get_device(backend.get());
  reg = ggml_backend_dev_backend_reg(device);
  const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend.get(), 1);
}

std::vector<ggml_backend_buffer_type_t> Cpu::weight_buffers() const {
  std::vector<ggml_backend_buffer_type_t> all{ggml_backend_cpu_buffer_type()};
  const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts"));
  for (auto *type = extra == nullptr ? nullptr : extra(device); type != nullptr && *type != nullptr; type++) all.push_back(*type);
  return all;
}

bool Cpu::supports(const ggml_tensor *node) const { return ggml_backend_dev_supports_op(device, node); }

bool Cpu::takes(ggml_backend_buffer_type_t memory, ggml_tensor *weights, const ggml_tensor *node) const {
  if (memory == ggml_backend_cpu_buffer_type()) return supports(node);
  // llama.cpp asks the same way: with weights that appear to be in that memory.
  const ggml_backend_buffer_ptr nothing(ggml_backend_buft_alloc_buffer(memory, 0));
  weights->buffer = nothing.get();
  const bool taken = nothing && supports(node);
  weights->buffer = nullptr;
  return taken;
}

void Cpu::compute(ggml_context *context, ggml_tensor *node) const {
  ggml_cgraph *graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, node);
  for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
    ggml_tensor *one = ggml_graph_node(graph, i);
    if (one->view_src == nullptr && one->data != nullptr) std::memset(one->data, 0xff, ggml_nbytes(one));
  }
  if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) throw Wrong("it was not computed");
}

ggml_context_ptr new_context() { return ggml_context_ptr(ggml_init({ggml_tensor_overhead() * 64 + ggml_graph_overhead() * 2, nullptr, true})); }

ggml_backend_buffer_ptr allocate(const ggml_context_ptr &context, ggml_backend_buffer_type_t type) {
  ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
  if (!buffer) throw CodedError("out_of_memory", "There is not enough memory to check the CPU backend.");
  return buffer;
}

} // namespace recua::proof
