// The one thread that computes for all contexts of the process, in turns.
//
// OpenMP keeps a team of threads for each thread that ever computed. With two teams there are more
// threads than cores; then GNU OpenMP sleeps at barriers instead of spinning, hundreds of times a
// step, for the rest of the process's life. So there is one compute thread, however many contexts
// there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace recua::compute {

// The jobs of one context. They run in the order they were posted, one slice after the other.
// Between two slices other lanes may run: the next slice always comes from the lane with the least
// compute time used.
class Lane {
public:
  // `interrupt` is called on any thread to cut the current slice short. Throws std::system_error if
  // the thread cannot be created.
  explicit Lane(std::function<void()> interrupt);
  ~Lane();
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;

  // Any thread. Calls `slice` on the compute thread until it returns false. Returns false after
  // close().
  bool post(std::function<bool()> slice);

  // Any thread. The lane's slices use `count` of the machine's cores, and wait for their turn if
  // other processes compute too (machine_turn.h). Initially 0: no cores, no waiting.
  void computes_on(int32_t count) { cores = count; }

  // From a slice: calls `work` after the slice, on the same thread, once the cores have been handed
  // over. Use it for anything that wakes a thread: the woken thread would run on this core first,
  // while the whole team waits.
  void afterwards(std::function<void()> work) { later.push_back(std::move(work)); }

  // From a slice: whether another lane is waiting for its turn.
  bool contended() const;

  // Any thread but the compute thread. Waits for the current slice and drops the other jobs.
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

// Any thread but the compute thread. Ends all computing, before the process ends. Idempotent.
void halt();

// Any thread but the compute thread. Runs `work` on a new thread and ends that thread, and with it
// its OpenMP team. For work that llama.cpp does outside of steps, such as repacking weights during
// a load.
void apart(const std::function<void()> &work);

} // namespace recua::compute
