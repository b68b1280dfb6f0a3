// The team of threads that computes a step: its size, and the core of each thread. For the compute
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct llama_model;

namespace recua {

// How many of `threads` threads should compute a step of `rows` rows. One fewer than there are
// cores if the step is so small that the threads which bring its tokens to the client (JavaScript,
// the gateway) would hold it up by taking a core.
int32_t team_for(const llama_model *model, size_t rows, int32_t threads);

// Call before a step of `threads` threads. Gives each thread its own core if all cores are needed.
void settle_team(int32_t threads);

// Runs `work`, which waits for something, on this thread, while the rest of the team sleeps.
// Otherwise they would spin for some milliseconds, on cores that another process is about to get.
void team_asleep(const std::function<void()> &work);

// Runs `work` on all threads of the team at once, inside or outside of team_asleep(). It waits for
// the event that wakes them all together, so that no thread has to wake another. Returns when this
// thread has finished its own run; every other thread must finish soon after the first.
void team_waits(const std::function<void()> &work);

} // namespace recua
