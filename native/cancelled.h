// Cancellation of work off the JS thread: a flag that JS sets. Any thread.
#pragma once

#include "coded_error.h"

#include <cstdint>

namespace recua {

// Throws `cancelled` once the flag is not 0. Null: nothing cancels the work.
inline void throw_if_cancelled(const volatile int32_t *flag) {
  if (flag != nullptr && *flag != 0) throw CodedError("cancelled", "The request was cancelled.");
}

} // namespace recua
