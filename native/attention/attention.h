// Recua's own attention, in place of the CPU backend's. docs/design/attention.md explains how it
// gets its nodes and what it computes. Called by machine/backends.cpp and context/context.cpp.
#pragma once

#include "js.h"

namespace recua::attention {

// attention(), attend(options), refuseAttention(kernel): described in src/addon/addon.ts.
Napi::Value describe(const Napi::CallbackInfo &info);
Napi::Value attend(const Napi::CallbackInfo &info);
Napi::Value refuse(const Napi::CallbackInfo &info);

} // namespace recua::attention
