// The threads that compute a step: how many, and where each runs. For the compute thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct llama_model;

namespace recua {

// Of `threads` that may compute, how many shall for a step of so many rows. One less than there are
// cores where the step is so small that those who bring its tokens to the client (JavaScript, the
// gateway) would hold it up on theirs.
int32_t team_for(const llama_model *model, size_t rows, int32_t threads);

// Before a step of `threads` threads: gives each a core of its own, where all cores are needed.
void settle_team(int32_t threads);

// Does the work, which is to wait for something, on this thread. The others of the team sleep
// meanwhile: by themselves they would spin for some milliseconds, on cores that another process is
// given.
void team_asleep(const std::function<void()> &work);

// Does the work on all threads of the team at once, within team_asleep() or not: to wait for what
// wakes them together, so that none has to be woken by another. Returns on this thread when it did
// its own; every thread must end soon after the first.
void team_waits(const std::function<void()> &work);

} // namespace recua
