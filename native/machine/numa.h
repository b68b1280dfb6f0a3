// Machines with several memory nodes: whether and how ggml spreads its threads over them. One
// choice for the whole process, made before weights are loaded: they are then mapped without
// reading ahead, so that each page is placed on the node that needs it first. Called by addon.cpp
// and team.cpp.
#pragma once

#include "js.h"

namespace recua::numa {

// setNuma(strategy): described in src/addon/addon.ts.
Napi::Value set(const Napi::CallbackInfo &info);

// Whether ggml places its threads itself. Any thread.
bool on();

} // namespace recua::numa
