// Recua's own attention, in place of the CPU backend's. docs/design/attention.md explains how it
// gets its nodes and what it computes. Called by machine/backends.cpp and context/context.cpp.
#pragma once

#include "js.h"

#include "ggml-backend.h"

#include <cstdint>
#include <string>

namespace recua::attention {

// Call once per process, when a CPU backend is registered.
void install();

// Whether a registered backend is this one, which offers no device to users.
bool is_own(ggml_backend_reg_t reg);

// While it lives, contexts that this thread makes use Recua's attention on at most `threads`
// threads; 0: ggml's attention. Pass 0 for a context whose model is on a GPU.
class Wanted {
public:
  explicit Wanted(int32_t threads);
  ~Wanted();
  Wanted(const Wanted &) = delete;
  Wanted &operator=(const Wanted &) = delete;
};

// attention(), attend(options), refuseAttention(kernel): described in src/addon/addon.ts.
Napi::Value describe(const Napi::CallbackInfo &info);
Napi::Value attend(const Napi::CallbackInfo &info);
Napi::Value refuse(const Napi::CallbackInfo &info);

} // namespace recua::attention
