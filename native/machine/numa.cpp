#include "machine/numa.h"

#include "machine/backends.h"

#include "ggml-cpu.h"

#include <atomic>
#include <mutex>

namespace recua::numa {

namespace {

std::mutex mutex; // guards the variables below, and ggml's own state during its initialization
std::string chosen;
std::atomic<bool> several{false};

ggml_numa_strategy strategy_of(const std::string &name) {
  if (name == "distribute") return GGML_NUMA_STRATEGY_DISTRIBUTE;
  if (name == "isolate") return GGML_NUMA_STRATEGY_ISOLATE;
  if (name == "numactl") return GGML_NUMA_STRATEGY_NUMACTL;
  throw CodedError("invalid_argument", "Expected distribute, isolate or numactl, got " + name + ".");
}

// The CPU backend may be one of several libraries, so its functions are looked up by name.
template <typename Function>
Function of_cpu(const char *name) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  auto function = reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
  if (function == nullptr) throw CodedError("backend_unusable", std::string("The CPU backend has no ") + name + ".");
  return function;
}

} // namespace

Napi::Value set(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const std::string name = info[0].As<Napi::String>().Utf8Value();
    const ggml_numa_strategy strategy = strategy_of(name);
    backends::require_cpu();
    const std::lock_guard<std::mutex> lock(mutex);
    if (!chosen.empty() && chosen != name) {
      throw CodedError("invalid_argument", "This process already places its threads by NUMA strategy " + chosen + ", which cannot be changed to " + name + ".");
    }
    if (chosen.empty()) {
      of_cpu<decltype(&ggml_numa_init)>("ggml_backend_cpu_numa_init")(strategy);
      chosen = name;
      several = of_cpu<decltype(&ggml_is_numa)>("ggml_backend_cpu_is_numa")();
    }
    return Napi::Boolean::New(info.Env(), several);
  });
}

bool on() { return several; }

} // namespace recua::numa
