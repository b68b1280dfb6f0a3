// malloc's account of the memory this process holds, a measure of growth that neither other
// programs nor the kernel's paging disturb; and a check whether more is available. Called by
// addon.cpp and context.cpp.
#pragma once

#include "js.h"

namespace recua::heap {

// heap(): described in src/addon/addon.ts.
Napi::Value measure(const Napi::CallbackInfo &info);

// Any thread. Throws `model_unusable` unless `bytes` bytes could be allocated in one piece now.
// Keeps nothing and touches no page: it detects the end of the address space (ulimit -v) or of the
// memory that the system commits. Called before llama.cpp allocates, because a failed allocation
// there ends the process.
void require(size_t bytes, const char *what);

} // namespace recua::heap
