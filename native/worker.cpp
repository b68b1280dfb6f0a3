// The thread of worker.h, and the thread-safe function that brings its results back.
#include "worker.h"

#include <cstdlib>
#include <set>
#include <system_error>
#include <utility>

namespace recua {

struct Worker::Mailbox {
  napi_threadsafe_function function = nullptr;
  size_t pending = 0; // JS thread only: posted and not yet settled
};

namespace {

struct Delivery {
  std::function<void(Napi::Env)> settle;
  std::function<void(Napi::Env)> done;
};

// JS thread. `env` is null while the environment ends: then the delivery is only destroyed.
void deliver(napi_env env, napi_value, void *, void *data) {
  std::unique_ptr<Delivery> delivery(static_cast<Delivery *>(data));
  if (env == nullptr) return;
  Napi::HandleScope scope(env);
  try {
    if (delivery->done) delivery->done(env);
    delivery->settle(env);
  } catch (const Napi::Error &) {
    // settle() makes rejections of all else: only an environment that is being terminated takes no more values.
  }
}

void on_env_cleanup(void *worker) { static_cast<Worker *>(worker)->stop(); }

std::mutex workers_mutex;
std::set<Worker *> workers; // those whose thread may run

} // namespace

Worker::Worker(Napi::Env env, std::function<void()> interrupt)
    : env(env), interrupt(std::move(interrupt)), mailbox(std::make_shared<Mailbox>()) {
  const auto name = Napi::String::New(env, "recua worker");
  const napi_status status = napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr,
                                                             nullptr, deliver, &mailbox->function);
  if (status != napi_ok) throw Napi::Error::New(env, "napi_create_threadsafe_function failed");
  napi_unref_threadsafe_function(env, mailbox->function); // an idle context does not keep the process alive
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(halt_all); });
  try {
    thread = std::thread([this] { loop(); });
    std::lock_guard<std::mutex> lock(workers_mutex);
    workers.insert(this);
  } catch (const std::system_error &) {
    napi_release_threadsafe_function(mailbox->function, napi_tsfn_release);
    throw;
  }
  // Registered after the thread-safe function, so that it runs before that one is torn down.
  napi_add_env_cleanup_hook(env, on_env_cleanup, this);
}

Worker::~Worker() { stop(); }

bool Worker::post(std::function<void()> run, std::function<void(Napi::Env)> settle) {
  auto job = std::make_unique<Job>(Job{std::move(run), std::move(settle)});
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (stopping) return false;
    queue.push_back(std::move(job));
  }
  if (mailbox->pending++ == 0) napi_ref_threadsafe_function(env, mailbox->function);
  wake.notify_one();
  return true;
}

void Worker::loop() {
  while (true) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) return;
      job = std::move(queue.front());
      queue.pop_front();
    }
    job->run();
    auto box = mailbox;
    auto *delivery = new Delivery{std::move(job->settle), [box](Napi::Env env) {
                                    if (--box->pending == 0 && box->function != nullptr) {
                                      napi_unref_threadsafe_function(env, box->function);
                                    }
                                  }};
    // What `run` captured may hold the last reference to objects that must die on the JS thread: send it along.
    delivery->settle = [settle = std::move(delivery->settle), run = std::move(job->run)](Napi::Env env) { settle(env); };
    if (napi_call_threadsafe_function(box->function, delivery, napi_tsfn_nonblocking) != napi_ok) {
      // The environment is ending; stop() frees the rest. Leaking one closure beats destroying it on this thread.
      return;
    }
  }
}

bool Worker::tell(std::function<void(Napi::Env)> tell) {
  auto *delivery = new Delivery{std::move(tell), nullptr};
  return napi_call_threadsafe_function(mailbox->function, delivery, napi_tsfn_nonblocking) == napi_ok; // else it is leaked, as above
}

void Worker::halt() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  if (interrupt) interrupt();
  wake.notify_all();
  if (thread.joinable()) thread.join();
}

void Worker::halt_all() {
  std::lock_guard<std::mutex> lock(workers_mutex);
  for (Worker *worker : workers) worker->halt();
}

void Worker::stop() {
  if (stopped) return;
  stopped = true;
  {
    std::lock_guard<std::mutex> lock(workers_mutex);
    workers.erase(this);
  }
  halt();
  queue.clear();
  napi_remove_env_cleanup_hook(env, on_env_cleanup, this);
  if (mailbox->function != nullptr) {
    napi_release_threadsafe_function(mailbox->function, napi_tsfn_release);
    mailbox->function = nullptr;
  }
}

} // namespace recua
