// The team of threads of team.h.
//
// The threads meet at a barrier after each node of the graph, hundreds of times a step. With as
// many threads as cores, the system's scheduler now and then puts two of them on one core, because
// another program ran on the other core for a moment; until it corrects that, a step takes several
// times as long. With fewer threads than cores there is room, so the scheduler is left alone, and
// so is ggml if it places threads itself (numa.h).
#include "machine/team.h"
#include "machine/numa.h"

#include <llama.h>

#if defined(__linux__) && defined(_OPENMP)
#include <condition_variable>
#include <mutex>
#include <omp.h>
#include <sched.h>
#endif

namespace recua {

#if defined(__linux__) && defined(_OPENMP)

namespace {

// The cores this process may use, as of the first call.
const cpu_set_t &allowed() {
  static const cpu_set_t set = [] {
    cpu_set_t all;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    return all;
  }();
  return set;
}

thread_local bool settled = false;
thread_local int32_t team_size = 1; // of the last step

void settle_on(int32_t index) {
  for (int32_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed()) || index-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one); // if refused, nothing changes
    return;
  }
}

// The most bytes of weights, summed over its rows, that a step may read and still leave one core
// free. That is less than half a millisecond of work, in which any thread that has to wait for its
// core stops all others.
constexpr uint64_t small_step = 16 << 20;

// The threads of a team sleep here while the first one works.
class Rest {
public:
  // For the other threads; returns after end().
  void sleep() {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t done = 0;
    while (true) {
      wake.wait(lock, [&] { return ended || (common != nullptr && turn != done); });
      if (ended) return;
      done = turn;
      at_work++;
      const std::function<void()> &work = *common; // valid until all have left: wake_for() waits for that
      lock.unlock();
      work();
      lock.lock();
      at_work--;
      left.notify_one();
    }
  }

  // For the first thread.
  void wake_for(const std::function<void()> &work) {
    std::unique_lock<std::mutex> lock(mutex);
    common = &work;
    turn++;
    lock.unlock();
    wake.notify_all();
    work();
    lock.lock();
    common = nullptr; // threads that have not begun need not
    left.wait(lock, [this] { return at_work == 0; });
  }

  void end() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ended = true;
    }
    wake.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable wake, left;
  const std::function<void()> *common = nullptr;
  uint64_t turn = 0;
  int32_t at_work = 0;
  bool ended = false;
};

thread_local Rest *rest = nullptr; // of the team whose first thread this is

} // namespace

int32_t team_for(const llama_model *model, size_t rows, int32_t threads) {
  const bool small = rows * llama_model_size(model) <= small_step;
  return small && threads > 1 && threads == CPU_COUNT(&allowed()) ? threads - 1 : threads;
}

void settle_team(int32_t threads) {
  team_size = threads;
  if (numa::on()) return;
  const bool place = threads > 1 && threads == CPU_COUNT(&allowed());
  if (!place && !settled) return; // same for the whole team: all are placed and freed together
  // OpenMP keeps its threads for the next region. A new thread starts on its creator's core.
#pragma omp parallel num_threads(threads)
  {
    if (place && !settled) settle_on(omp_get_thread_num());
    if (!place) sched_setaffinity(0, sizeof(cpu_set_t), &allowed());
    settled = place;
  }
}

void team_asleep(const std::function<void()> &work) {
  if (team_size == 1 || omp_in_parallel() != 0) return work(); // no others, or they already sleep
  Rest here;
  // The same team size: for another, OpenMP would create or end threads. The others now go to
  // sleep. A thread that another program keeps off its core does so late, and nobody waits for it.
#pragma omp parallel num_threads(team_size)
  {
    if (omp_get_thread_num() == 0) {
      rest = &here;
      work();
      rest = nullptr;
      here.end();
    } else {
      here.sleep();
    }
  }
}

void team_waits(const std::function<void()> &work) {
  if (rest != nullptr) return rest->wake_for(work);
  if (team_size == 1 || omp_in_parallel() != 0) return work();
#pragma omp parallel num_threads(team_size)
  work();
}

#else

int32_t team_for(const llama_model *, size_t, int32_t threads) { return threads; }
void settle_team(int32_t) {}
void team_asleep(const std::function<void()> &work) { work(); }
void team_waits(const std::function<void()> &work) { work(); }

#endif

} // namespace recua
