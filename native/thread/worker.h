// Brings a context's jobs to the compute thread, in the order they were posted, and what comes of
// them back to the JS thread.
#pragma once

#include "thread/compute_thread.h"

#include <napi.h>

#include <functional>
#include <memory>

namespace recua {

class Worker {
public:
  // `interrupt` is called on the JS thread when the environment ends, to cut a running job short.
  Worker(Napi::Env env, std::function<void()> interrupt);
  ~Worker();

  // JS thread. `slice` is called on the compute thread until it returns false; other contexts may
  // compute in between. Then `settle` happens on the JS thread. After stop(), or once the
  // environment is ending, nothing runs and false is returned.
  bool post(std::function<bool()> slice, std::function<void(Napi::Env)> settle);

  // The compute thread, from a slice: brings `tell` to the JS thread before
  // anything that comes later.
  void tell(std::function<void(Napi::Env)> tell);

  // Any thread. The jobs take so many of the machine's cores.
  void computes_on(int32_t cores) { lane.computes_on(cores); }

  // The compute thread, from a slice: whether another context waits for its turn.
  bool contended() const { return lane.contended(); }

  // JS thread. Waits for the slice in progress and drops all else. Idempotent.
  void stop();

private:
  void send(void *delivery); // to the JS thread, once the cores are free

  struct Mailbox; // outlives the worker until the last settled job has been delivered

  Napi::Env env;
  std::shared_ptr<Mailbox> mailbox;
  bool stopped = false;
  compute::Lane lane;
};

} // namespace recua
