// The threads that compute a step: how many, and where each runs. Called by step.cpp and embed.cpp
// on the compute thread.
//
// They meet at a barrier after each node of the graph, hundreds of times a step. Where there are as
// many as cores, the system's scheduler now and then puts two on one core, because a third program
// ran on the other for a moment; until it mends that, a step takes several times as long. With
// fewer threads than cores there is room, and the scheduler is left alone; and where ggml itself
// places threads (numa.h), so is ggml.
#include "addon.h"
#include "machine/numa.h"

#if defined(__linux__) && defined(_OPENMP)
#include <sched.h>
#include <omp.h>
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

} // namespace

int32_t team_for(const llama_model *model, size_t rows, int32_t threads) {
  const bool small = rows * llama_model_size(model) <= small_step;
  return small && threads > 1 && threads == CPU_COUNT(&allowed()) ? threads - 1 : threads;
}

void settle_team(int32_t threads) {
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

#else

int32_t team_for(const llama_model *, size_t, int32_t threads) { return threads; }
void settle_team(int32_t) {}

#endif

} // namespace recua
