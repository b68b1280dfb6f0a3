// The lane of worker.h, and the thread-safe function that brings results back.
#include "thread/worker.h"

#include <utility>

namespace recua {

struct Worker::Mailbox {
  napi_threadsafe_function function = nullptr;
  size_t pending = 0; // JS thread only: jobs posted and not yet settled
};

namespace {

struct Delivery {
  std::function<void(Napi::Env)> settle;
  std::function<void(Napi::Env)> done;
};

// JS thread. `env` is null while the environment ends; then the delivery is only destroyed.
void deliver(napi_env env, napi_value, void *, void *data) {
  std::unique_ptr<Delivery> delivery(static_cast<Delivery *>(data));
  if (env == nullptr) return;
  Napi::HandleScope scope(env);
  try {
    if (delivery->done) delivery->done(env);
    delivery->settle(env);
  } catch (const Napi::Error &) {
    // settle() turns all other errors into rejections. This one means that the environment is being
    // terminated and takes no more values.
  }
}

void on_env_cleanup(void *worker) { static_cast<Worker *>(worker)->stop(); }

} // namespace

Worker::Worker(Napi::Env env, std::function<void()> interrupt)
    : env(env), mailbox(std::make_shared<Mailbox>()), lane(std::move(interrupt)) {
  const auto name = Napi::String::New(env, "recua worker");
  const napi_status status = napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr,
                                                             nullptr, deliver, &mailbox->function);
  if (status != napi_ok) throw Napi::Error::New(env, "napi_create_threadsafe_function failed");
  napi_unref_threadsafe_function(env, mailbox->function); // an idle context does not keep the process alive
  // Registered after the thread-safe function, so that it runs before that is torn down.
  napi_add_env_cleanup_hook(env, on_env_cleanup, this);
}

Worker::~Worker() { stop(); }

bool Worker::post(std::function<bool()> slice, std::function<void(Napi::Env)> settle) {
  struct Job {
    std::function<bool()> slice;
    std::function<void(Napi::Env)> settle;
  };
  auto job = std::make_shared<Job>(Job{std::move(slice), std::move(settle)});
  const bool posted = lane.post([this, job, box = mailbox] {
    if (job->slice()) return true;
    const auto done = [box](Napi::Env env) {
      if (--box->pending == 0 && box->function != nullptr) napi_unref_threadsafe_function(env, box->function);
    };
    // The slice's captures may hold the last reference to objects that must die on the JS thread,
    // so send it along.
    auto *delivery = new Delivery{
        [settle = std::move(job->settle), slice = std::move(job->slice)](Napi::Env env) { settle(env); }, done};
    send(delivery);
    return false;
  });
  if (posted && mailbox->pending++ == 0) napi_ref_threadsafe_function(env, mailbox->function);
  return posted;
}

void Worker::tell(std::function<void(Napi::Env)> tell) { send(new Delivery{std::move(tell), nullptr}); }

// If the call fails, the environment is ending. Leaking one closure is better than destroying it on
// this thread.
void Worker::send(void *delivery) {
  lane.afterwards([box = mailbox, delivery] { napi_call_threadsafe_function(box->function, delivery, napi_tsfn_nonblocking); });
}

void Worker::stop() {
  if (stopped) return;
  stopped = true;
  napi_remove_env_cleanup_hook(env, on_env_cleanup, this);
  const std::shared_ptr<Mailbox> box = mailbox;
  lane.close(); // a job that is dropped may have owned this worker: nothing of it may be used below
  if (box->function != nullptr) {
    napi_release_threadsafe_function(box->function, napi_tsfn_release);
    box->function = nullptr;
  }
}

} // namespace recua
