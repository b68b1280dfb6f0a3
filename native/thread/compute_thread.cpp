// The compute thread of compute_thread.h: picks the next lane, starts and ends the thread.
#include "thread/compute_thread.h"
#include "machine/team.h"
#include "thread/machine_turn.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace recua::compute {

// A singleton that is never destroyed: other threads may still use it at exit.
struct Thread {
  std::mutex lifecycle; // held while the thread is started or ended
  std::mutex mutex;     // guards the fields below and the contents of the lanes
  std::condition_variable wake, idle;
  std::vector<Lane *> lanes;
  Lane *running = nullptr;
  int64_t latest_us = 0; // used_us of the lane that ran last, when its turn began
  bool halting = false;
  std::thread thread;

  static Thread &the() {
    static auto *one = new Thread();
    return *one;
  }

  Lane *next() {
    Lane *found = nullptr;
    for (Lane *lane : lanes) {
      if (!lane->jobs.empty() && (found == nullptr || lane->used_us < found->used_us)) found = lane;
    }
    return found;
  }

  // Waits for work, and for this process's turn at the cores. `turn` stays empty if the thread must
  // end.
  void next_turn(std::unique_lock<std::mutex> &lock, std::optional<turn::Turn> &turn) {
    wake.wait(lock, [this] { return halting || next() != nullptr; });
    if (halting) return;
    running = next();
    latest_us = std::max(latest_us, running->used_us);
    lock.unlock();
    turn.emplace(running->cores, [lane = running] { return lane->closed.load(); });
  }

  void loop() {
    std::unique_lock<std::mutex> lock(mutex);
    std::optional<turn::Turn> turn;
    next_turn(lock, turn);
    while (turn) {
      std::function<bool()> &slice = running->jobs.front(); // deque elements do not move
      const auto start = std::chrono::steady_clock::now();
      const bool more = slice();
      const auto taken = std::chrono::steady_clock::now() - start;
      const auto go_on = [&] {
        turn.reset();
        for (const auto &work : running->later) work();
        running->later.clear();
        lock.lock();
        running->used_us += std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
        if (!more) running->jobs.pop_front();
        running = nullptr;
        idle.notify_all();
        next_turn(lock, turn);
      };
      // The team must leave the cores before another process gets them.
      if (turn->wanted()) team_asleep(go_on);
      else go_on();
    }
  }

  void end() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      halting = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    halting = false;
  }

  // process.exit() runs no cleanup hooks, but destroys objects that the compute thread still uses.
  static void halt_all() {
    Thread &all = the();
    // OpenMP calls exit() in the compute thread if the system gives it no more threads, and a
    // thread cannot wait for its own end.
    if (all.thread.get_id() == std::this_thread::get_id()) std::_Exit(EXIT_FAILURE);
    const std::lock_guard<std::mutex> guard(all.lifecycle);
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      for (Lane *lane : all.lanes) {
        lane->closed = true;
        lane->interrupt();
      }
    }
    all.end();
  }
};

Lane::Lane(std::function<void()> interrupt) : interrupt(std::move(interrupt)) {
  Thread &all = Thread::the();
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(Thread::halt_all); });
  const std::lock_guard<std::mutex> guard(all.lifecycle);
  if (!all.thread.joinable()) all.thread = std::thread([&all] { all.loop(); });
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.lanes.push_back(this);
}

Lane::~Lane() { close(); }

bool Lane::post(std::function<bool()> slice) {
  Thread &all = Thread::the();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (closed) return false;
    // An idle lane does not save up compute time for later.
    if (jobs.empty()) used_us = std::max(used_us, all.latest_us);
    jobs.push_back(std::move(slice));
  }
  all.wake.notify_one();
  return true;
}

bool Lane::contended() const {
  const Thread &all = Thread::the();
  const std::lock_guard<std::mutex> lock(const_cast<std::mutex &>(all.mutex));
  return std::any_of(all.lanes.begin(), all.lanes.end(), [this](const Lane *lane) { return lane != this && !lane->jobs.empty(); });
}

void Lane::close() {
  Thread &all = Thread::the();
  std::deque<std::function<bool()>> dropped; // destroyed last, with nothing locked: may own other lanes
  const std::lock_guard<std::mutex> guard(all.lifecycle);
  {
    std::unique_lock<std::mutex> lock(all.mutex);
    const auto found = std::find(all.lanes.begin(), all.lanes.end(), this);
    if (found == all.lanes.end()) return;
    all.lanes.erase(found);
    closed = true;
    interrupt();
    all.idle.wait(lock, [&] { return all.running != this; });
    dropped.swap(jobs);
    if (!all.lanes.empty()) return;
  }
  all.end();
}

void halt() { Thread::halt_all(); }

void apart(const std::function<void()> &work) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

} // namespace recua::compute
