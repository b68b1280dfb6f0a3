// What malloc holds for this process: the measure of growth that neither other programs nor the
// kernel's paging disturb; and whether there is more. Called by addon.cpp and context.cpp.
#pragma once

#include "js.h"

namespace recua::heap {

// heap(): described in src/addon/addon.ts.
Napi::Value measure(const Napi::CallbackInfo &info);

// Any thread. Throws `model_unusable` unless so much could be had at once now. Nothing is taken,
// and no page is touched: what this finds is an end of addresses (ulimit -v) or of what the system
// promises. Asked before llama.cpp asks, which ends the process where it gets none.
void require(size_t bytes, const char *what);

} // namespace recua::heap
