// Computes one product by one of our kernels or by ggml, on arrays from JavaScript. Tests compare
// the results with a reference and measure the time.
#include "matmul/matmul.h"
#include "matmul/work.h"
#include "thread/compute_thread.h"

#include "ggml-backend.h"
#include "ggml-cpp.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace recua::matmul {

namespace {

struct Call {
  std::string kernel = "ggml", type = "q8_0";
  int32_t threads = 1, columns = 256, outputs = 16, rows = 1, repeat = 1;
  Napi::Float32Array weights, input;

  explicit Call(const Options &options) {
    options.text("kernel", kernel);
    options.text("type", type);
    options.number("threads", threads);
    options.number("columns", columns);
    options.number("outputs", outputs);
    options.number("rows", rows);
    options.number("repeat", repeat);
    const auto array = [&](const char *name, Napi::Float32Array &field, int64_t count) {
      if (options.get(name).IsTypedArray()) field = options.get(name).As<Napi::Float32Array>();
      if (field.IsEmpty() || static_cast<int64_t>(field.ElementLength()) != count) {
        throw CodedError("invalid_argument", std::string("Expected an array of the shape's length for ") + name + ".");
      }
    };
    array("weights", weights, static_cast<int64_t>(columns) * outputs);
    array("input", input, static_cast<int64_t>(columns) * rows);
  }
};

ggml_type type_named(const std::string &name) {
  for (int type = 0; type < GGML_TYPE_COUNT; type++) {
    const char *known = ggml_type_name(static_cast<ggml_type>(type));
    if (known != nullptr && name == known && ggml_get_type_traits(static_cast<ggml_type>(type))->to_float != nullptr) return static_cast<ggml_type>(type);
  }
  throw CodedError("invalid_argument", "Expected a type such as q8_0, got " + name + ".");
}

const Kernel *kernel_named(const std::string &name) {
  for (const Kernel *kernel : kernels()) {
    if (name == kernel->name) return kernel;
  }
  throw CodedError("invalid_argument", "This processor has no kernel " + name + ".");
}

Napi::Value run(Napi::Env env, const Call &call) {
  ggml_backend_ptr backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
  if (!backend) throw CodedError("backend_unusable", "No CPU backend is loaded.");
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
  ggml_tensor *weights = ggml_new_tensor_2d(context.get(), type_named(call.type), call.columns, call.outputs);
  ggml_tensor *input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, call.columns, call.rows);
  ggml_tensor *node = ggml_mul_mat(context.get(), weights, input);
  ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
  if (!buffer) throw CodedError("out_of_memory", "There is not enough memory for a check this large.");
  float *values = const_cast<Napi::Float32Array &>(call.weights).Data();
  ggml_quantize_chunk(weights->type, values, weights->data, 0, call.outputs, call.columns, nullptr);
  ggml_get_type_traits(weights->type)->to_float(weights->data, values, ggml_nelements(weights));
  std::memcpy(input->data, const_cast<Napi::Float32Array &>(call.input).Data(), ggml_nbytes(input));

  std::unique_ptr<Work> work;
  bool taken = false;
  if (call.kernel != "ggml") {
    work = std::make_unique<Work>(*kernel_named(call.kernel), call.threads);
    taken = work->take(node);
  }
  ggml_cgraph *graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, node);
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend.get()));
  auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend.get(), call.threads);

  double least_ms = 0;
  compute::apart([&] {
    for (int32_t i = 0; i < std::max(call.repeat, 1); i++) {
      const auto begin = std::chrono::steady_clock::now();
      ggml_backend_graph_compute(backend.get(), graph);
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

} // namespace

Napi::Value describe(const Napi::CallbackInfo &info) {
  auto names = Napi::Array::New(info.Env());
  for (const Kernel *kernel : kernels()) names.Set(names.Length(), kernel->name);
  auto known = Napi::Array::New(info.Env());
  for (const ggml_type type : types()) known.Set(known.Length(), ggml_type_name(type));
  auto result = Napi::Object::New(info.Env());
  const Kernel *best = best_kernel();
  result.Set("best", best == nullptr ? "" : best->name);
  result.Set("types", known);
  result.Set("kernels", names);
  result.Set("taken", static_cast<double>(Work::taken()));
  return result;
}

Napi::Value refuse(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    refuse_kernel(*kernel_named(info[0].As<Napi::String>().Utf8Value()));
    return info.Env().Undefined();
  });
}

Napi::Value multiply(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return run(info.Env(), Call(Options(info[0]))); });
}

} // namespace recua::matmul
