// Counted work. What a request may make us compute is limited in steps, never in time, and can be
// cancelled between steps. A step is about the cost of looking at one element of a grammar (some 10
// ns). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace recua {

// Thrown when the steps are used up. The interrupted computation has no effect.
struct TooMuchWork : std::runtime_error {
  TooMuchWork()
      : std::runtime_error(
            "the grammar has too many possible continuations at once; make it less ambiguous") {}
};

struct WorkCancelled : std::runtime_error {
  WorkCancelled() : std::runtime_error("cancelled") {}
};

class Effort {
public:
  // `cancelled` may be null; otherwise it must outlive this object.
  explicit Effort(uint64_t steps, const std::atomic<bool> *cancelled = nullptr)
      : left(steps), cancelled(cancelled) {}

  void spend(uint64_t steps = 1) {
    if (steps > left) {
      left = 0;
      throw TooMuchWork();
    }
    left -= steps;
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) throw WorkCancelled();
  }

private:
  uint64_t left;
  const std::atomic<bool> *cancelled;
};

} // namespace recua
