// Computes one product, for tests and measurements (accel/check.h).
#include "matmul/matmul.h"
#include "accel/check.h"
#include "matmul/work.h"

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

Napi::Value run(Napi::Env env, const Call &call) {
  const auto backend = accel::cpu_backend();
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
  ggml_tensor *weights = ggml_new_tensor_2d(context.get(), accel::type_named(call.type), call.columns, call.outputs);
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
    work = std::make_unique<Work>(kernels().named(call.kernel), call.threads);
    taken = work->take(node);
  }
  return accel::computed(env, backend.get(), context.get(), node, taken, call.threads, call.repeat);
}

} // namespace

Napi::Value describe(const Napi::CallbackInfo &info) {
  auto known = Napi::Array::New(info.Env());
  for (const ggml_type type : types()) known.Set(known.Length(), ggml_type_name(type));
  auto result = accel::described(info.Env(), kernels(), Work::taken());
  result.Set("types", known);
  return result;
}

Napi::Value refuse(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    kernels().refuse(kernels().named(info[0].As<Napi::String>().Utf8Value()));
    return info.Env().Undefined();
  });
}

Napi::Value multiply(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return run(info.Env(), Call(Options(info[0]))); });
}

} // namespace recua::matmul
