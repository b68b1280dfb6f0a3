// The kernels of attention/ or of matmul/ that this processor can run.
#pragma once

#include "coded_error.h"

#include <initializer_list>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace recua::accel {

// Any thread.
template <typename Kernel> class Kernels {
public:
  // The fastest first: whether the processor can run it, and the kernel, which is null if the build
  // has none.
  Kernels(std::initializer_list<std::pair<bool, const Kernel *>> known) {
    for (const auto &[usable, kernel] : known) {
      if (usable && kernel != nullptr) usables.push_back(kernel);
    }
  }

  const std::vector<const Kernel *> &all() const { return usables; }

  const Kernel &named(const std::string &name) const {
    for (const Kernel *kernel : usables) {
      if (name == kernel->name) return *kernel;
    }
    throw CodedError("invalid_argument", "This processor has no kernel " + name + ".");
  }

  // Null if there is none that is not refused.
  const Kernel *best() const {
    const std::lock_guard<std::mutex> lock(refusing);
    for (const Kernel *kernel : usables) {
      if (refused.count(kernel) == 0) return kernel;
    }
    return nullptr;
  }

  // Contexts made from now on do not use `kernel`.
  void refuse(const Kernel &kernel) {
    const std::lock_guard<std::mutex> lock(refusing);
    refused.insert(&kernel);
  }

private:
  std::vector<const Kernel *> usables;
  mutable std::mutex refusing; // guards the set below
  std::set<const Kernel *> refused;
};

} // namespace recua::accel
