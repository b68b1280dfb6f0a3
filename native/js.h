// The only napi glue: coded errors, options from objects, work off the JS thread. Every native file
// includes it. Functions run on the JS thread unless they say otherwise.
#pragma once

#include "coded_error.h"

#include <napi.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace recua {

inline Napi::Error make_error(Napi::Env env, const char *code, const std::string &message, int32_t index = -1) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Value().Set("code", Napi::String::New(env, code));
  if (index >= 0) error.Value().Set("index", Napi::Number::New(env, index));
  return error;
}

// Runs a synchronous native function and turns every C++ exception into a coded JS error.
template <typename Body>
auto guarded(Napi::Env env, Body &&body) -> decltype(body()) {
  try {
    return body();
  } catch (const Napi::Error &) {
    throw;
  } catch (const CodedError &error) {
    throw make_error(env, error.code, error.what(), error.index);
  } catch (const std::exception &error) {
    throw make_error(env, "internal_error", error.what());
  } catch (...) {
    throw make_error(env, "internal_error", "unknown C++ exception");
  }
}

// JS thread. Settles a promise: resolves it with the value that `convert` returns, or rejects it
// with the outcome's error or the exception that `convert` throws.
template <typename Convert>
void settle(Napi::Env env, Napi::Promise::Deferred &deferred, const Outcome &outcome, Convert &&convert) {
  Napi::HandleScope scope(env);
  try {
    deferred.Resolve(guarded(env, [&]() -> Napi::Value {
      if (outcome.code != nullptr) throw CodedError(outcome.code, outcome.message, outcome.index);
      return convert();
    }));
  } catch (const Napi::Error &error) {
    deferred.Reject(error.Value());
  }
}

// One task on libuv's pool. R must be default-constructible. `work` fills it on a pool thread;
// `convert` makes the promise's value from it on the JS thread. Values that the lambdas capture are
// destroyed on the JS thread.
template <typename R>
class Task : public Napi::AsyncWorker {
public:
  using Work = std::function<void(R &)>;
  using Convert = std::function<Napi::Value(Napi::Env, R &)>;

  // `ended` runs on the JS thread after the work, before the promise settles.
  static Napi::Promise run(Napi::Env env, const char *fallback, Work work, Convert convert,
                           std::function<void()> ended = nullptr) {
    auto *task = new Task(env, fallback, std::move(work), std::move(convert));
    task->ended = std::move(ended);
    Napi::Promise promise = task->deferred.Promise();
    task->Queue();
    return promise;
  }

  void Execute() override {
    outcome = Outcome::of([&] { work(result); }, fallback);
  }

  void OnOK() override {
    if (ended) ended();
    settle(Env(), deferred, outcome, [&] { return convert(Env(), result); });
  }

private:
  Task(Napi::Env env, const char *fallback, Work work, Convert convert)
      : Napi::AsyncWorker(env, "recua"), deferred(env), fallback(fallback), work(std::move(work)),
        convert(std::move(convert)) {}

  Napi::Promise::Deferred deferred;
  const char *fallback;
  Work work;
  Convert convert;
  std::function<void()> ended;
  R result{};
  Outcome outcome;
};

inline Napi::Promise rejected(Napi::Env env, const char *code, const std::string &message) {
  auto deferred = Napi::Promise::Deferred::New(env);
  deferred.Reject(make_error(env, code, message).Value());
  return deferred.Promise();
}

// The body of a method that returns a promise. Exceptions thrown before the work starts become
// rejections.
template <typename Body>
Napi::Value promised(Napi::Env env, Body &&body) {
  try {
    return guarded(env, body);
  } catch (const Napi::Error &error) {
    auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Reject(error.Value());
    return deferred.Promise();
  }
}

// Reads the fields of an options object. A missing or undefined field keeps its default.
class Options {
public:
  explicit Options(const Napi::Value &value) : object(value.As<Napi::Object>()) {}

  template <typename T>
  void number(const char *name, T &field) const {
    const Napi::Value value = object.Get(name);
    if (value.IsNumber()) field = static_cast<T>(value.As<Napi::Number>().DoubleValue());
  }
  void boolean(const char *name, bool &field) const {
    const Napi::Value value = object.Get(name);
    if (value.IsBoolean()) field = value.As<Napi::Boolean>().Value();
  }
  void text(const char *name, std::string &field) const {
    const Napi::Value value = object.Get(name);
    if (value.IsString()) field = value.As<Napi::String>().Utf8Value();
  }
  void texts(const char *name, std::vector<std::string> &field) const {
    const Napi::Value value = object.Get(name);
    if (!value.IsArray()) return;
    const auto array = value.As<Napi::Array>();
    field.clear();
    for (uint32_t i = 0; i < array.Length(); i++) field.push_back(array.Get(i).ToString().Utf8Value());
  }
  Napi::Value get(const char *name) const { return object.Get(name); }

private:
  Napi::Object object;
};

// The first number of an Int32Array, which JS may set while a task runs. Keeps the array and its
// memory alive. Tasks must capture the Flag, so that it is destroyed on the JS thread.
class Flag {
public:
  static std::shared_ptr<Flag> of(const Napi::Value &value) {
    auto flag = std::make_shared<Flag>();
    if (!value.IsTypedArray()) return flag;
    const auto array = value.As<Napi::Int32Array>();
    // JS can detach the memory of any other array, and then free it.
    if (array.ArrayBuffer().IsArrayBuffer() || array.ElementLength() == 0) {
      throw CodedError("invalid_argument", "Expected a flag in a SharedArrayBuffer.");
    }
    flag->held = Napi::Persistent(value.As<Napi::Object>());
    flag->at = array.Data();
    return flag;
  }
  // Any thread.
  const volatile int32_t *value() const { return at; }

private:
  Napi::ObjectReference held;
  const volatile int32_t *at = nullptr;
};

// Copies a typed array, so that no other thread depends on a buffer that JS may detach.
template <typename T>
std::vector<T> copy_array(const Napi::Value &value, size_t count = SIZE_MAX) {
  const auto array = value.As<Napi::TypedArrayOf<T>>();
  const size_t length = std::min(count, array.ElementLength());
  return std::vector<T>(array.Data(), array.Data() + length);
}

template <typename T>
Napi::TypedArrayOf<T> make_array(Napi::Env env, const std::vector<T> &values) {
  auto array = Napi::TypedArrayOf<T>::New(env, values.size());
  if (!values.empty()) std::copy(values.begin(), values.end(), array.Data());
  return array;
}

inline Napi::Array make_texts(Napi::Env env, const std::vector<std::string> &values) {
  auto array = Napi::Array::New(env, values.size());
  for (size_t i = 0; i < values.size(); i++) array.Set(static_cast<uint32_t>(i), values[i]);
  return array;
}

} // namespace recua
