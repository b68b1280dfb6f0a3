// The one thread that computes for all contexts of the process, in turns.
//
// OpenMP keeps a team of threads for each thread that ever computed. With two teams there are more
// of its threads than cores; then GNU OpenMP no longer spins at a barrier but sleeps, hundreds of
// times a step, for the rest of the process's life. So there is one such thread, however many
// contexts there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace recua::compute {

// The jobs of one context: done in the order they were posted, one slice after the other. Between
// two slices the other lanes get their turn: next is always the lane that computed least lately.
class Lane {
public:
  // `interrupt` is called to cut the slice in progress short; any thread. Throws std::system_error
  // where no thread can be made.
  explicit Lane(std::function<void()> interrupt);
  ~Lane();
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;

  // Any thread. `slice` is called on the compute thread until it returns false. False after
  // close().
  bool post(std::function<bool()> slice);

  // Any thread. Its slices take so many of the machine's cores, and wait for their turn at them
  // where other processes compute too (machine_turn.h). 0, as at first: no cores.
  void computes_on(int32_t count) { cores = count; }

  // From a slice: `work` is called after it, on the same thread, when the cores have been handed
  // over. It is for whatever wakes a thread: that one would run first on this core, while all who
  // compute wait.
  void afterwards(std::function<void()> work) { later.push_back(std::move(work)); }

  // From a slice: whether another lane waits for its turn.
  bool contended() const;

  // Any thread but the compute thread. Waits for the slice in progress and drops all else.
  // Idempotent.
  void close();

private:
  friend struct Thread;
  std::function<void()> interrupt;
  std::deque<std::function<bool()>> jobs;
  std::vector<std::function<void()>> later; // compute thread only
  int64_t used_us = 0;
  std::atomic<int32_t> cores{0};
  std::atomic<bool> closed{false};
};

// Any thread but the compute thread. Does the work on a thread that ends with it, and its OpenMP
// team with that: for what llama.cpp computes outside of steps, such as weights that are repacked
// while they are loaded.
void apart(const std::function<void()> &work);

} // namespace recua::compute
