// A thread of its own for one context: jobs run in the order they were posted, and settle on the JS thread.
// Decoding stays on one thread because OpenMP keeps a team of threads for every thread that computes.
#pragma once

#include <napi.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace recua {

class Worker {
public:
  // `interrupt` is called on the JS thread when the environment ends, to cut a running job short.
  Worker(Napi::Env env, std::function<void()> interrupt);
  ~Worker();

  // JS thread. `run` happens on the worker's thread, then `settle` on the JS thread. After stop(), or once the
  // environment is ending, nothing runs and false is returned.
  bool post(std::function<void()> run, std::function<void(Napi::Env)> settle);

  // The worker's thread, from a job: brings `tell` to the JS thread before anything that comes later. False where that is not possible any more.
  bool tell(std::function<void(Napi::Env)> tell);

  // JS thread. Waits for the job that runs, drops those that wait, ends the thread. Idempotent.
  void stop();

private:
  struct Job {
    std::function<void()> run;
    std::function<void(Napi::Env)> settle;
  };
  struct Mailbox; // outlives the worker until the last settled job has been delivered

  void loop();
  void halt(); // ends the thread; no napi

  // process.exit() runs no cleanup hooks, but destroys what a computing thread still uses.
  static void halt_all();

  Napi::Env env;
  std::function<void()> interrupt;
  std::shared_ptr<Mailbox> mailbox;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::unique_ptr<Job>> queue;
  bool stopping = false;
  bool stopped = false;
  std::thread thread;
};

} // namespace recua
