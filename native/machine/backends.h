// The ggml backends of this process: compiled in, or loaded from libraries. ggml's own search (the
// executable's folder, the current directory, GGML_BACKEND_PATH) never runs: only files that JS
// names by an absolute path are loaded. Called by addon.cpp and model.cpp.
#pragma once

#include "js.h"

#include "ggml-backend.h"

#include <string>
#include <vector>

namespace recua::backends {

// Call once per process, when the addon is imported. Loads no library.
void start();

// Throws `backend_unusable` if no CPU backend is registered; llama.cpp would search for one.
void require_cpu();

// The devices with these names, in order, ending with a null as llama.cpp requires. Throws
// `device_not_found`.
std::vector<ggml_backend_dev_t> named(const std::vector<std::string> &names);

// Initializes these devices (every GPU if the list is empty), one thread at a time. ggml
// initializes a device on first use, and lets a second thread use it half-initialized.
void ready(const std::vector<ggml_backend_dev_t> &devices);

// loadBackends(folder, cpuOnly, refused), loadBackend(file), rateBackend(file), backends(),
// devices(): described in src/addon/addon.ts.
Napi::Value load_folder(const Napi::CallbackInfo &info);
Napi::Value load_file(const Napi::CallbackInfo &info);
Napi::Value rate_file(const Napi::CallbackInfo &info);
Napi::Value list(const Napi::CallbackInfo &info);
Napi::Value devices(const Napi::CallbackInfo &info);
std::vector<std::string> names();

} // namespace recua::backends
