#include "accel/check.h"
#include "thread/compute_thread.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace recua::accel {

ggml_type type_named(const std::string &name) {
  for (int type = 0; type < GGML_TYPE_COUNT; type++) {
    const char *known = ggml_type_name(static_cast<ggml_type>(type));
    const bool floats = type == GGML_TYPE_F32 || ggml_get_type_traits(static_cast<ggml_type>(type))->to_float != nullptr;
    if (known != nullptr && name == known && floats) return static_cast<ggml_type>(type);
  }
  throw CodedError("invalid_argument", "Expected a type such as q8_0, got " + name + ".");
}

ggml_backend_ptr cpu_backend() {
  ggml_backend_ptr backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
  if (!backend) throw CodedError("backend_unusable", "No CPU backend is loaded.");
  return backend;
}

Napi::Object computed(Napi::Env env, ggml_backend_t backend, ggml_context *context, ggml_tensor *node, bool taken, int32_t threads, int32_t repeat) {
  ggml_cgraph *graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, node);
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
  auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend, threads);

  double least_ms = 0;
  compute::apart([&] {
    for (int32_t i = 0; i < std::max(repeat, 1); i++) {
      const auto begin = std::chrono::steady_clock::now();
      ggml_backend_graph_compute(backend, graph);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      if (i == 0 || ms < least_ms) least_ms = ms;
    }
  });

  auto out = Napi::Float32Array::New(env, static_cast<size_t>(ggml_nelements(node)));
  std::memcpy(out.Data(), node->data, ggml_nbytes(node));
  auto result = Napi::Object::New(env);
  result.Set("out", out);
  result.Set("taken", taken);
  result.Set("ms", least_ms);
  return result;
}

} // namespace recua::accel
