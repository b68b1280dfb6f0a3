// The team of threads of team.h.
//
// They meet at a barrier after each node of the graph, hundreds of times a step. Where there are as
// many as cores, the system's scheduler now and then puts two on one core, because a third program
// ran on the other for a moment; until it mends that, a step takes several times as long. With
// fewer threads than cores there is room, and the scheduler is left alone; and where ggml itself
// places threads (numa.h), so is ggml.
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

// The cores this process may use, as it was when it started.
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
    sched_setaffinity(0, sizeof one, &one); // where it is refused, things stay as they were
    return;
  }
}

// What a step reads at most, in bytes of weights for each row, to be done without one of the cores:
// less than half a millisecond's work, in which any thread that has to wait for its core stops all
// others.
constexpr uint64_t small_step = 16 << 20;

// Where the threads of a team sleep while the first one works.
class Rest {
public:
  // On the others, until end().
  void sleep() {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t done = 0;
    while (true) {
      wake.wait(lock, [&] { return ended || (common != nullptr && turn != done); });
      if (ended) return;
      done = turn;
      at_work++;
      const std::function<void()> &work = *common; // wake_for() ends it once all have left
      lock.unlock();
      work();
      lock.lock();
      at_work--;
      left.notify_one();
    }
  }

  // On the first.
  void wake_for(const std::function<void()> &work) {
    std::unique_lock<std::mutex> lock(mutex);
    common = &work;
    turn++;
    lock.unlock();
    wake.notify_all();
    work();
    lock.lock();
    common = nullptr; // who has not begun need not
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

thread_local Rest *rest = nullptr; // that of the team this thread is the first of

} // namespace

int32_t team_for(const llama_model *model, size_t rows, int32_t threads) {
  const bool small = rows * llama_model_size(model) <= small_step;
  return small && threads > 1 && threads == CPU_COUNT(&allowed()) ? threads - 1 : threads;
}

void settle_team(int32_t threads) {
  team_size = threads;
  if (numa::on()) return;
  const bool place = threads > 1 && threads == CPU_COUNT(&allowed());
  if (!place && !settled) return; // as it is for all of the team: they are placed and freed together
  // OpenMP keeps its threads for the next region. One that is new starts on its maker's core.
#pragma omp parallel num_threads(threads)
  {
    if (place && !settled) settle_on(omp_get_thread_num());
    if (!place) sched_setaffinity(0, sizeof(cpu_set_t), &allowed());
    settled = place;
  }
}

void team_asleep(const std::function<void()> &work) {
  if (team_size == 1 || omp_in_parallel() != 0) return work(); // there are no others, or they sleep already
  Rest here;
  // Not of another size, for which OpenMP would make threads or end some. From here on the others
  // go to sleep; one that a third program keeps from its core does it late, and is not waited for.
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
