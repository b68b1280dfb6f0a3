// Posts a context's jobs to the compute thread, in order, and brings their results back to the JS
// thread.
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

  // JS thread. Calls `slice` on the compute thread until it returns false; other contexts may
  // compute in between. Then calls `settle` on the JS thread. After stop(), or once the environment
  // is ending, runs nothing and returns false.
  bool post(std::function<bool()> slice, std::function<void(Napi::Env)> settle);

  // Compute thread, from a slice: calls `tell` on the JS thread, before anything sent later.
  void tell(std::function<void(Napi::Env)> tell);

  // Any thread. The jobs use this many of the machine's cores.
  void computes_on(int32_t cores) { lane.computes_on(cores); }

  // Compute thread, from a slice: whether another context is waiting for its turn.
  bool contended() const { return lane.contended(); }

  // JS thread. Waits for the current slice and drops the other jobs. Idempotent.
  void stop();

private:
  void send(void *delivery); // to the JS thread, after the cores are handed over

  struct Mailbox; // outlives the worker until the last settled job is delivered

  Napi::Env env;
  std::shared_ptr<Mailbox> mailbox;
  bool stopped = false;
  compute::Lane lane;
};

} // namespace recua
