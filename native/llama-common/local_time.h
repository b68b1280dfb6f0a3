// Included before each file of llama-common: std::localtime with a result of its own per thread.
// The C library's result is shared, and chats of several requests are rendered at once.
#pragma once

#include <ctime>

namespace recua {

inline std::tm *local_time(const std::time_t *time) {
  thread_local std::tm result;
  return localtime_r(time, &result);
}

} // namespace recua

namespace std {
using recua::local_time;
}

#define localtime local_time
