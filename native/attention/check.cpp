// Computes one attention, for tests and measurements (accel/check.h).
#include "attention/attention.h"
#include "accel/check.h"
#include "attention/work.h"

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

Napi::Value run(Napi::Env env, const Call &call) {
  const auto backend = accel::cpu_backend();
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 32 + ggml_graph_overhead(), nullptr, true}));
  // llama.cpp's layout: the heads of a token, or of a key, are adjacent.
  ggml_tensor *q = ggml_new_tensor_4d(context.get(), GGML_TYPE_F32, call.dk, call.heads, call.tokens, call.streams);
  ggml_tensor *k = ggml_new_tensor_4d(context.get(), accel::type_named(call.type_k), call.dk, call.kv_heads, call.keys, call.streams);
  ggml_tensor *v = ggml_new_tensor_4d(context.get(), accel::type_named(call.type_v), call.dv, call.kv_heads, call.keys, call.streams);
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
    work = std::make_unique<Work>(kernels().named(call.kernel), call.threads);
    taken = work->take(node);
  }
  return accel::computed(env, backend.get(), context.get(), node, taken, call.threads, call.repeat);
}

} // namespace

Napi::Value describe(const Napi::CallbackInfo &info) { return accel::described(info.Env(), kernels(), Work::taken()); }

Napi::Value refuse(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    kernels().refuse(kernels().named(info[0].As<Napi::String>().Utf8Value()));
    return info.Env().Undefined();
  });
}

Napi::Value attend(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return run(info.Env(), Call(Options(info[0]))); });
}

} // namespace recua::attention
