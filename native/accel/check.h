// What the checks of attention/ and matmul/ share: they compute one node, on arrays from
// JavaScript, by one of our kernels or by ggml. Tests compare the results with a reference and
// measure the time.
#pragma once

#include "js.h"

#include "ggml-cpp.h"

#include <string>

namespace recua::accel {

// Types that ggml can read back as floats.
ggml_type type_named(const std::string &name);

// Throws if no CPU backend is loaded.
ggml_backend_ptr cpu_backend();

// Computes `node` `repeat` times: {out, taken, ms}, with the least time of all.
Napi::Object computed(Napi::Env env, ggml_backend_t backend, ggml_context *context, ggml_tensor *node, bool taken, int32_t threads, int32_t repeat);

// {kernels, best, taken}. Kernel has a `name`.
template <typename Kernels> Napi::Object described(Napi::Env env, const Kernels &kernels, uint64_t taken) {
  auto names = Napi::Array::New(env);
  for (const auto *kernel : kernels.all()) names.Set(names.Length(), kernel->name);
  const auto *best = kernels.best();
  auto result = Napi::Object::New(env);
  result.Set("kernels", names);
  result.Set("best", best == nullptr ? "" : best->name);
  result.Set("taken", static_cast<double>(taken));
  return result;
}

} // namespace recua::accel
