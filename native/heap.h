// What malloc holds for this process: the measure of growth that neither other programs nor the kernel's paging disturb. Called by addon.cpp.
#pragma once

#include "js.h"

namespace recua::heap {

// heap(): described in src/addon.ts.
Napi::Value measure(const Napi::CallbackInfo &info);

// Any thread. Gives freed pages back to the system where malloc would keep them.
void trim();

} // namespace recua::heap
