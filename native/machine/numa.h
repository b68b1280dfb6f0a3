// Machines with several memory nodes: whether and how ggml spreads its threads over them. One
// choice for the whole process, to be made before weights are loaded, because they are then mapped
// without reading ahead: each page comes to the node that needs it first. Called by addon.cpp and
// team.cpp.
#pragma once

#include "js.h"

namespace recua::numa {

// setNuma(strategy): described in src/addon/addon.ts.
Napi::Value set(const Napi::CallbackInfo &info);

// Whether ggml says where its threads run. Any thread.
bool on();

} // namespace recua::numa
