// Runs one attention by one of our kernels or by ggml, on arrays from JavaScript. Tests compare the
// results with a reference and measure the time.
#include "attention/attention.h"
#include "attention/work.h"
#include "thread/compute_thread.h"

#include "ggml-cpp.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace recua::attention {

namespace {

struct Call {
  std::string kernel = "ggml", type_k = "f16", type_v = "f16";
  int32_t threads = 1, dk = 64, dv = 64, keys = 1, tokens = 1, heads = 1, kv_heads = 1, streams = 1, repeat = 1;
  float scale = 1, max_bias = 0, softcap = 0;
  Napi::Float32Array q, k, v, mask, sinks;

  explicit Call(const Options &options) {
    options.text("kernel", kernel);
    options.text("typeK", type_k);
    options.text("typeV", type_v);
    options.number("threads", threads);
    options.number("dk", dk);
    options.number("dv", dv);
    options.number("keys", keys);
    options.number("tokens", tokens);
    options.number("heads", heads);
    options.number("kvHeads", kv_heads);
    options.number("streams", streams);
    options.number("repeat", repeat);
    options.number("scale", scale);
    options.number("maxBias", max_bias);
    options.number("softcap", softcap);
    const auto array = [&](const char *name, Napi::Float32Array &field) {
      if (options.get(name).IsTypedArray()) field = options.get(name).As<Napi::Float32Array>();
    };
    array("q", q);
    array("k", k);
    array("v", v);
    array("mask", mask);
    array("sinks", sinks);
  }
};

ggml_type type_named(const std::string &name) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
    if (name == ggml_type_name(type)) return type;
  }
  throw CodedError("invalid_argument", "Expected a type such as f16, got " + name + ".");
}

// Fills a tensor of any type, and writes the rounded values back to the array.
void fill(ggml_tensor *tensor, const Napi::Float32Array &from) {
  float *values = const_cast<Napi::Float32Array &>(from).Data();
  const int64_t count = ggml_nelements(tensor);
  if (static_cast<int64_t>(from.ElementLength()) != count) throw CodedError("invalid_argument", "Expected an array of the shape's length, got another length.");
  if (tensor->type == GGML_TYPE_F32) {
    std::memcpy(tensor->data, values, ggml_nbytes(tensor));
    return;
  }
  ggml_get_type_traits(tensor->type)->from_float_ref(values, tensor->data, count);
  ggml_get_type_traits(tensor->type)->to_float(tensor->data, values, count);
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
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 32 + ggml_graph_overhead(), nullptr, true}));
  // llama.cpp's layout: the heads of a token, or of a key, are adjacent.
  ggml_tensor *q = ggml_new_tensor_4d(context.get(), GGML_TYPE_F32, call.dk, call.heads, call.tokens, call.streams);
  ggml_tensor *k = ggml_new_tensor_4d(context.get(), type_named(call.type_k), call.dk, call.kv_heads, call.keys, call.streams);
  ggml_tensor *v = ggml_new_tensor_4d(context.get(), type_named(call.type_v), call.dv, call.kv_heads, call.keys, call.streams);
  ggml_tensor *mask = call.mask.IsEmpty() ? nullptr : ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, call.keys, call.tokens, 1, call.streams);
  ggml_tensor *sinks = call.sinks.IsEmpty() ? nullptr : ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, call.heads);
  ggml_tensor *node = ggml_flash_attn_ext(context.get(), ggml_permute(context.get(), q, 0, 2, 1, 3), ggml_permute(context.get(), k, 0, 2, 1, 3),
                                          ggml_permute(context.get(), v, 0, 2, 1, 3), mask, call.scale, call.max_bias, call.softcap);
  ggml_flash_attn_ext_add_sinks(node, sinks);
  ggml_prec_set_acc(node, GGML_PREC_F32);
  ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
  if (!buffer) throw CodedError("out_of_memory", "There is not enough memory for a check this large.");
  fill(q, call.q);
  fill(k, call.k);
  fill(v, call.v);
  if (mask != nullptr) fill(mask, call.mask);
  if (sinks != nullptr) fill(sinks, call.sinks);

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
  auto result = Napi::Object::New(info.Env());
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

Napi::Value attend(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return run(info.Env(), Call(Options(info[0]))); });
}

} // namespace recua::attention
