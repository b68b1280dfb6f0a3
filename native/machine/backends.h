// The ggml backends of this process: those compiled in, and those that come as libraries. ggml's
// own search (the executable's folder, the current directory, GGML_BACKEND_PATH) never happens:
// only files that JS names by an absolute path are loaded. Called by addon.cpp and model.cpp.
#pragma once

#include "js.h"

#include "ggml-backend.h"

#include <string>
#include <vector>

namespace recua::backends {

// Once per process, when the addon is imported. Leaves the registry as the linker made it.
void start();

// Throws `backend_unusable` where no CPU backend is registered: llama.cpp would go and search for
// one.
void require_cpu();

// The devices of these names, in their order and ended by a null as llama.cpp wants it. Throws
// `device_not_found`.
std::vector<ggml_backend_dev_t> named(const std::vector<std::string> &names);

// Makes these devices ready (none named: every GPU), one thread at a time. ggml makes them ready
// when they are first used and lets a second thread use what is half done.
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
