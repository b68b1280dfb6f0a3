// glibc's account of its heaps, looked up at run time: older versions and other C libraries lack
// it.
#include "machine/heap.h"

#include <cstdlib>
#include <string>

#if defined(__GLIBC__)
#include <dlfcn.h>
#include <malloc.h>
#endif

namespace recua::heap {

namespace {

#if defined(__GLIBC__)
// struct mallinfo2, declared by glibc since 2.33. Sums over all arenas.
struct Account {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

} // namespace

Napi::Value measure(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
#if defined(__GLIBC__)
  static const auto account = reinterpret_cast<Account (*)()>(dlsym(RTLD_DEFAULT, "mallinfo2"));
  if (account != nullptr) {
    const Account now = account();
    auto result = Napi::Object::New(env);
    result.Set("usedBytes", static_cast<double>(now.uordblks + now.hblkhd));
    result.Set("freeBytes", static_cast<double>(now.fordblks));
    return result;
  }
#endif
  return env.Undefined();
}

void require(size_t bytes, const char *what) {
  // Volatile, because the compiler may remove a malloc and free whose result is unused.
  void *volatile probe = std::malloc(bytes);
  const bool there = probe != nullptr;
  std::free(probe);
  if (there) return;
  throw CodedError("model_unusable", "There is too little memory for " + std::string(what) + ": " + std::to_string(bytes >> 20) +
                                         " MiB more could not be allocated. Use a smaller context, fewer requests at once (--parallel) or a higher limit (ulimit -v or -d).");
}

} // namespace recua::heap
