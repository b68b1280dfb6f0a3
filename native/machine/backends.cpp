// Registers ggml backends from libraries, and lists them. Runs on JS threads, possibly several at
// once.
#include "machine/backends.h"

#include "accel/accel.h"
#include "addon.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace recua::backends {

namespace {

namespace fs = std::filesystem;

std::mutex mutex; // guards ggml's registry, which several JS threads may fill, and the variables below
std::map<ggml_backend_reg_t, std::string> files;
std::map<std::string, std::string> refused; // file → reason, for files in a loaded folder that cannot be used
bool initialized = false;

// A library opened for inspection.
class Library {
public:
  explicit Library(const fs::path &path) {
#ifdef _WIN32
    handle = LoadLibraryW(path.c_str());
    if (handle == nullptr) error = "Windows error " + std::to_string(GetLastError());
#else
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) error = dlerror();
#endif
  }
  ~Library() {
    if (handle == nullptr) return;
#ifdef _WIN32
    FreeLibrary(handle);
#else
    dlclose(handle);
#endif
  }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  template <typename Function>
  Function find(const char *name) const {
#ifdef _WIN32
    return reinterpret_cast<Function>(reinterpret_cast<void *>(GetProcAddress(handle, name)));
#else
    return reinterpret_cast<Function>(dlsym(handle, name));
#endif
  }

  std::string error; // '' if it is open

private:
#ifdef _WIN32
  HMODULE handle;
#else
  void *handle;
#endif
};

ggml_backend_reg_t find_cpu() {
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) return ggml_backend_dev_backend_reg(device);
  }
  return nullptr;
}

// llama.cpp searches for backends if none is registered, so this waits for the first one.
void initialize() {
  if (initialized || ggml_backend_reg_count() == 0) return;
  llama_backend_init();
  accel::install();
  initialized = true;
}

// How well a library suits this machine; 0: not at all. A library that does not say gets 1, the
// lowest usable score.
int score(const fs::path &file, std::string &reason) {
  const Library library(file);
  if (!library.error.empty()) {
    reason = library.error;
    return 0;
  }
  if (library.find<void *>("ggml_backend_init") == nullptr) {
    reason = "it is no ggml backend (it has no ggml_backend_init)";
    return 0;
  }
  using Score = int (*)();
  const auto own = library.find<Score>("ggml_backend_score");
  const int points = own == nullptr ? 1 : own();
  if (points == 0) reason = "this processor lacks instructions that it uses";
  return points;
}

// Throws CodedError. Returns '' if the library is already registered.
std::string load(const fs::path &file) {
  std::string reason;
  if (score(file, reason) == 0) throw CodedError("backend_unusable", reason);
  log::clear_errors();
  const size_t before = ggml_backend_reg_count();
  ggml_backend_reg_t reg = ggml_backend_load(file.u8string().c_str());
  if (reg == nullptr) {
    const std::string told = log::last_errors();
    throw CodedError("backend_unusable", told.empty() ? "its initializer returned nothing" : told);
  }
  initialize();
  if (ggml_backend_reg_count() == before) return "";
  files[reg] = file.u8string();
  refused.erase(file.u8string());
  return ggml_backend_reg_name(reg);
}

// "cpu-haswell" for libggml-cpu-haswell.so; '' if the file is not a backend.
std::string kind_of(const fs::path &file) {
#ifdef _WIN32
  const std::string prefix = "ggml-", suffix = ".dll";
#else
  const std::string prefix = "libggml-", suffix = ".so"; // ggml's modules end in .so on macOS too
#endif
  const std::string name = file.filename().u8string();
  if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return "";
  }
  const std::string kind = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  return kind == "base" ? "" : kind;
}

bool is_cpu(const std::string &kind) { return kind == "cpu" || kind.compare(0, 4, "cpu-") == 0; }

fs::path absolute_path(const Napi::Value &value) {
  const fs::path path = fs::u8path(value.As<Napi::String>().Utf8Value());
  // The system would search its library folders for a name without a folder.
  if (!path.is_absolute()) throw CodedError("invalid_argument", "Expected an absolute path, got " + path.u8string() + ".");
  return path;
}

std::string load_best_cpu(const std::vector<fs::path> &variants) {
  fs::path best;
  int most = 0;
  for (const auto &variant : variants) {
    if (refused.count(variant.u8string()) > 0) continue;
    std::string reason;
    const int points = score(variant, reason);
    if (points == 0) refused[variant.u8string()] = reason;
    if (points > most) {
      most = points;
      best = variant;
    }
  }
  return best.empty() ? "" : load(best);
}

std::string describe_refused() {
  std::string text;
  for (const auto &[file, reason] : refused) text += "; " + fs::u8path(file).filename().u8string() + ": " + reason;
  return text;
}

Napi::Object features(Napi::Env env, ggml_backend_reg_t reg) {
  auto object = Napi::Object::New(env);
  auto get = reinterpret_cast<ggml_backend_get_features_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
  if (get == nullptr) return object;
  for (auto *feature = get(reg); feature != nullptr && feature->name != nullptr; feature++) object.Set(feature->name, feature->value);
  return object;
}

const char *device_kind(ggml_backend_dev_t device) {
  switch (ggml_backend_dev_type(device)) {
    case GGML_BACKEND_DEVICE_TYPE_GPU: return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU: return "igpu";
    case GGML_BACKEND_DEVICE_TYPE_CPU: return "cpu";
    default: return "accelerator";
  }
}

std::string device_names() {
  std::string text;
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    text += (i == 0 ? "" : ", ") + std::string(ggml_backend_dev_name(ggml_backend_dev_get(i)));
  }
  return text;
}

} // namespace

void start() {
  const std::lock_guard<std::mutex> lock(mutex);
  initialize();
}

void require_cpu() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (find_cpu() == nullptr) throw CodedError("backend_unusable", "No CPU backend is loaded; call loadBackends first.");
}

std::vector<ggml_backend_dev_t> named(const std::vector<std::string> &names) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<ggml_backend_dev_t> found;
  for (const auto &name : names) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
    if (device == nullptr) throw CodedError("device_not_found", "There is no device " + name + ", there are: " + device_names() + ".");
    found.push_back(device);
  }
  found.push_back(nullptr);
  return found;
}

void ready(const std::vector<ggml_backend_dev_t> &devices) {
  std::vector<ggml_backend_dev_t> used = devices;
  if (used.empty()) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) used.push_back(ggml_backend_dev_get(i));
  }
  // A separate lock: this may take seconds, and JS threads wait for the other lock.
  static std::mutex readying;
  const std::lock_guard<std::mutex> lock(readying);
  for (ggml_backend_dev_t device : used) {
    if (device == nullptr || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) continue;
    ggml_backend_dev_buffer_type(device);
  }
}

Napi::Value load_folder(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const fs::path folder = absolute_path(info[0]);
    const bool cpu_only = info[1].ToBoolean();
    const auto without = info[2].IsObject() ? info[2].As<Napi::Object>() : Napi::Object::New(info.Env());
    std::vector<fs::path> variants, others;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const std::string kind = kind_of(entry->path());
      if (!kind.empty()) (is_cpu(kind) ? variants : others).push_back(entry->path());
    }
    if (error) throw CodedError("backend_unusable", folder.u8string() + " cannot be read: " + error.message());
    std::sort(variants.begin(), variants.end());
    std::sort(others.begin(), others.end());

    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<std::string> loaded;
    const auto add = [&](const std::string &name) {
      if (!name.empty()) loaded.push_back(name);
    };
    if (find_cpu() == nullptr) {
      for (const auto &variant : variants) {
        const Napi::Value reason = without.Get(variant.u8string());
        if (reason.IsString()) refused[variant.u8string()] = reason.As<Napi::String>().Utf8Value();
      }
      add(load_best_cpu(variants));
    }
    if (find_cpu() == nullptr) {
      throw CodedError("backend_unusable", "No CPU backend of " + folder.u8string() + " can be used" +
                                               (variants.empty() ? ": it has none" : describe_refused()));
    }
    if (cpu_only) others.clear();
    for (const auto &file : others) {
      try {
        add(load(file));
      } catch (const CodedError &failure) {
        refused[file.u8string()] = failure.what();
      }
    }
    return make_texts(info.Env(), loaded);
  });
}

Napi::Value load_file(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const fs::path file = absolute_path(info[0]);
    const std::lock_guard<std::mutex> lock(mutex);
    const std::string name = load(file);
    return make_texts(info.Env(), name.empty() ? std::vector<std::string>{} : std::vector<std::string>{name});
  });
}

Napi::Value rate_file(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    std::string reason;
    return Napi::Number::New(info.Env(), score(absolute_path(info[0]), reason));
  });
}

std::vector<std::string> names() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> all;
  for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
    if (!accel::is_own(ggml_backend_reg_get(i))) all.push_back(ggml_backend_reg_name(ggml_backend_reg_get(i)));
  }
  return all;
}

Napi::Value list(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const std::lock_guard<std::mutex> lock(mutex);
  auto all = Napi::Array::New(env);
  for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
    ggml_backend_reg_t reg = ggml_backend_reg_get(i);
    if (accel::is_own(reg)) continue;
    auto entry = Napi::Object::New(env);
    entry.Set("name", ggml_backend_reg_name(reg));
    entry.Set("file", files.count(reg) > 0 ? files[reg] : "");
    entry.Set("features", features(env, reg));
    entry.Set("reason", "");
    all.Set(all.Length(), entry);
  }
  for (const auto &[file, reason] : refused) {
    auto entry = Napi::Object::New(env);
    entry.Set("name", "");
    entry.Set("file", file);
    entry.Set("features", Napi::Object::New(env));
    entry.Set("reason", reason);
    all.Set(all.Length(), entry);
  }
  return all;
}

Napi::Value devices(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const std::lock_guard<std::mutex> lock(mutex);
  auto list = Napi::Array::New(env);
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (accel::is_own(ggml_backend_dev_backend_reg(device))) continue;
    ggml_backend_dev_props props{};
    ggml_backend_dev_get_props(device, &props);
    auto entry = Napi::Object::New(env);
    entry.Set("name", ggml_backend_dev_name(device));
    entry.Set("description", ggml_backend_dev_description(device));
    entry.Set("kind", device_kind(device));
    entry.Set("backend", ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)));
    entry.Set("id", props.device_id == nullptr ? "" : props.device_id);
    entry.Set("memoryFreeBytes", static_cast<double>(props.memory_free));
    entry.Set("memoryTotalBytes", static_cast<double>(props.memory_total));
    list.Set(list.Length(), entry);
  }
  return list;
}

} // namespace recua::backends
