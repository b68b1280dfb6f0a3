// Attention of Recua's own, in place of the CPU backend's. docs/design/attention.md says how it
// gets its nodes and what it computes. Called by machine/backends.cpp and context/context.cpp.
#pragma once

#include "js.h"

#include "ggml-backend.h"

#include <cstdint>
#include <string>

namespace recua::attention {

// Once per process, when a CPU backend is there.
void install();

// Whether a registered backend is this one, which is nobody's device.
bool is_own(ggml_backend_reg_t reg);

// While it lives, contexts that this thread makes get attention of their own, for so many threads
// at most; 0: ggml's. One whose model is on a GPU is not to have it.
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
