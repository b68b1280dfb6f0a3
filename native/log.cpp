// Routes llama.cpp's log lines to a JS function of each environment that set one, never to stdout.
// Lines come from any thread and belong to no environment, so every function gets all of them. Each
// function is called on the JS thread that set it.
#include "addon.h"

#include "log.h"

#include <deque>
#include <map>

namespace recua::log {

namespace {

std::mutex mutex;                                  // guards the sinks
std::map<void *, napi_threadsafe_function> sinks;  // by environment

// Per thread, so that one thread's failure is not explained by another thread's log lines.
thread_local std::string partial; // llama.cpp logs pieces of lines with level CONT
thread_local ggml_log_level partial_level = GGML_LOG_LEVEL_INFO;
thread_local std::deque<std::string> errors;
thread_local const std::atomic<bool> *stop_asked = nullptr; // null: nothing is held back
thread_local std::vector<std::pair<ggml_log_level, std::string>> held;

struct Line {
  const char *level;
  std::string text;
};

const char *level_name(ggml_log_level level) {
  switch (level) {
    case GGML_LOG_LEVEL_ERROR: return "error";
    case GGML_LOG_LEVEL_WARN: return "warn";
    case GGML_LOG_LEVEL_INFO: return "info";
    default: return "debug";
  }
}

void on_line(ggml_log_level level, std::string text) {
  const bool tells_trouble = level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN;
  if (tells_trouble && stop_asked != nullptr && stop_asked->load(std::memory_order_relaxed)) {
    held.emplace_back(level, std::move(text));
    return;
  }
  if (level == GGML_LOG_LEVEL_ERROR) {
    errors.push_back(text);
    if (errors.size() > 4) errors.pop_front();
  }
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto &[owner, sink] : sinks) {
    auto *line = new Line{level_name(level), text};
    if (napi_call_threadsafe_function(sink, line, napi_tsfn_nonblocking) != napi_ok) delete line;
  }
}

void on_log(ggml_log_level level, const char *text, void *) {
  if (level != GGML_LOG_LEVEL_CONT) {
    if (!partial.empty()) on_line(partial_level, std::move(partial));
    partial.clear();
    partial_level = level;
  }
  partial += text;
  size_t begin = 0;
  for (size_t end; (end = partial.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (end > begin) on_line(partial_level, partial.substr(begin, end - begin));
  }
  partial.erase(0, begin);
}

void deliver(napi_env env, napi_value function, void *, void *data) {
  std::unique_ptr<Line> line(static_cast<Line *>(data));
  if (env == nullptr || function == nullptr) return;
  Napi::HandleScope scope(env);
  try {
    Napi::Function(env, function).Call({Napi::String::New(env, line->level), Napi::String::New(env, line->text)});
  } catch (const Napi::Error &error) {
    error.ThrowAsJavaScriptException();
  }
}

void drop_sink(void *owner) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = sinks.find(owner);
  if (found == sinks.end()) return;
  napi_release_threadsafe_function(found->second, napi_tsfn_abort);
  sinks.erase(found);
}

} // namespace

void install() {
  llama_log_set(on_log, nullptr); // sets ggml's too
  common_log_pause(common_log_main());
}

Napi::Value set_sink(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  void *owner = static_cast<napi_env>(env);
  drop_sink(owner);
  if (!info[0].IsFunction()) return env.Undefined();
  napi_threadsafe_function function = nullptr;
  napi_create_threadsafe_function(env, info[0], nullptr, Napi::String::New(env, "recua log"), 4096, 1, nullptr, nullptr,
                                  nullptr, deliver, &function);
  napi_unref_threadsafe_function(env, function);
  auto *data = env.GetInstanceData<AddonData>();
  if (!data->log_hook) napi_add_env_cleanup_hook(env, drop_sink, owner);
  data->log_hook = true;
  std::lock_guard<std::mutex> lock(mutex);
  sinks[owner] = function;
  return env.Undefined();
}

void clear_errors() { errors.clear(); }

std::string last_errors() {
  std::string text;
  for (const auto &line : errors) text += (text.empty() ? "" : "; ") + line;
  return text;
}

HeldTrouble::HeldTrouble(const std::atomic<bool> &asked) { stop_asked = &asked; }

HeldTrouble::~HeldTrouble() {
  stop_asked = nullptr;
  for (auto &[level, text] : std::exchange(held, {})) on_line(level, std::move(text));
}

void HeldTrouble::expected() {
  for (auto &[level, text] : std::exchange(held, {})) on_line(GGML_LOG_LEVEL_DEBUG, std::move(text));
}

} // namespace recua::log
