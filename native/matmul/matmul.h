// Recua's own products of quantized weights, in place of the CPU backend's.
// docs/design/matmul.md explains what they compute and why they are fast.
#pragma once

#include "js.h"

namespace recua::matmul {

// matmul(), multiply(options), refuseMatmul(kernel): described in src/addon/addon.ts.
Napi::Value describe(const Napi::CallbackInfo &info);
Napi::Value multiply(const Napi::CallbackInfo &info);
Napi::Value refuse(const Napi::CallbackInfo &info);

} // namespace recua::matmul
