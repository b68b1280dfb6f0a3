// Whether the CPU backend computes what it should: described in src/addon/addon.ts.
#pragma once

#include "js.h"

namespace recua::proof {

Napi::Value run(const Napi::CallbackInfo &info);

} // namespace recua::proof
