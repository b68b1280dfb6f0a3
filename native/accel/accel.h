// Which nodes of llama.cpp's graphs Recua computes itself: attention/ and matmul/.
// docs/design/attention.md explains how they get their nodes. Called by machine/backends.cpp and
// context/context.cpp.
#pragma once

#include "ggml-backend.h"

#include <cstdint>

namespace recua::accel {

// Call once per process, when a CPU backend is registered.
void install();

// Whether a registered backend is this one, which offers no device to users.
bool is_own(ggml_backend_reg_t reg);

// While it lives, contexts that this thread makes compute these nodes with Recua's kernels, on at
// most `threads` threads, and the others with ggml's. Pass none for a context whose model is on a
// GPU.
class Wanted {
public:
  Wanted(int32_t threads, bool attention, bool matmul);
  ~Wanted();
  Wanted(const Wanted &) = delete;
  Wanted &operator=(const Wanted &) = delete;
};

} // namespace recua::accel
