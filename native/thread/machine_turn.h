// Turns of processes at the cores. If two engines compute at once, they fight at every barrier of
// every step: each waits for threads whose core the other occupies. So engines of one user that
// together need more cores than there are compute in turns, one step each, in the order in which
// they asked.
//
// A small shared file records which process computes on which cores. A process that died or was
// stopped (Ctrl-Z) is found and skipped. One that does not end its step for another reason is
// waited for once, for five seconds. Linux only: elsewhere nobody waits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace recua::turn {

// Shares the cores with the processes that name the same file, which is created if needed. Returns
// false if that fails: then this process computes without turns. Any thread, before the first Turn.
// A process uses only one file, the first that it names.
bool share(const std::string &path);

// How often this process computed in a turn, had to wait for one, and skipped a stopped process.
struct Counts {
  uint64_t taken = 0;
  uint64_t waited = 0;
  uint64_t skipped = 0;
};
Counts counts();

// Compute thread. The right to compute, for as long as the object lives. `threads` is the number of
// cores needed; 0 needs no turn. The constructor waits for the turn, or until `given_up` returns
// true; it calls `given_up` now and then.
class Turn {
public:
  Turn(int32_t threads, const std::function<bool()> &given_up);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

  // Whether another process is waiting for these cores.
  bool wanted() const;

private:
  bool taken = false;
};

} // namespace recua::turn
