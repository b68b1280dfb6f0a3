// Turns of processes at the cores. Two engines that compute at once fight at every barrier of every
// step: each waits for threads that the other keeps from their core. So engines of one user that
// need more cores than there are compute in turns, a step each, in the order in which they asked.
//
// Who computes on what is in a small file that they share. A process that died is found and left
// out; one that does not end its step (stopped by a debugger) is waited for once, and for so long
// only. Linux alone: elsewhere nobody waits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace recua::turn {

// Shares the cores with those that name the same file. Made if it is not there. False where that is
// not possible: then this process computes when it likes. Any thread, before the first Turn; one
// file for a process, the first that is named.
bool share(const std::string &path);

// How often this process computed in turns, and how often it had to wait for its turn.
struct Counts {
  uint64_t taken = 0;
  uint64_t waited = 0;
};
Counts counts();

// The right to compute, on the compute thread, while it lives. `threads` is how many cores that
// takes; 0 needs no turn. Waits for it until `given_up` says true, which is asked now and then.
class Turn {
public:
  Turn(int32_t threads, const std::function<bool()> &given_up);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

  // Whether another process waits for these cores.
  bool wanted() const;

private:
  bool taken = false;
};

} // namespace recua::turn
