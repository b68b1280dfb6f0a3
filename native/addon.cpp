// The addon's entry point: versions, the log sink, the backends of backends.h and the classes of
// addon.h.
#include "addon.h"
#include "attention/attention.h"
#include "machine/backends.h"
#include "machine/heap.h"
#include "machine/numa.h"
#include "matmul/matmul.h"
#include "proof/proof.h"
#include "schema/schema.h"
#include "thread/compute_thread.h"
#include "thread/machine_turn.h"

#include "common.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace recua {

namespace {

// Computed at each access: backends are loaded after the import.
Napi::Value version(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  auto object = Napi::Object::New(env);
  object.Set("llamaCpp", llama_version());
  object.Set("backends", make_texts(env, backends::names()));
  object.Set("mathThreads", common_cpu_get_num_math());
  return object;
}

Napi::Value compile_schema(const Napi::CallbackInfo &info) {
  const std::string text = info[0].As<Napi::String>().Utf8Value();
  struct Made {
    std::string grammar;
    std::vector<schema::Loss> losses;
  };
  return Task<Made>::run(
      info.Env(), "invalid_schema",
      [text](Made &made) { made.grammar = schema::refusing(-1, [&] { return schema::convert(text, &made.losses); }); },
      [](Napi::Env env, Made &made) {
        auto result = Napi::Object::New(env);
        result.Set("grammar", made.grammar);
        result.Set("unenforced", to_js(env, made.losses));
        return result;
      });
}

Napi::Value turns(const Napi::CallbackInfo &info) {
  const turn::Counts counts = turn::counts();
  auto result = Napi::Object::New(info.Env());
  result.Set("taken", static_cast<double>(counts.taken));
  result.Set("waited", static_cast<double>(counts.waited));
  result.Set("skipped", static_cast<double>(counts.skipped));
  return result;
}

// Keeps this library loaded. Else Node would unload it at the end of the JavaScript thread that
// imported it, but its threads and ggml's terminate handler last as long as the process.
void stay_loaded() {
  const auto address = reinterpret_cast<void *>(&stay_loaded);
#ifdef _WIN32
  HMODULE self = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, static_cast<LPCWSTR>(address), &self);
#else
  Dl_info self;
  if (dladdr(address, &self) != 0) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
#endif
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  static std::once_flag once;
  std::call_once(once, [] {
    stay_loaded();
    log::install();
    schema::install();
    backends::start();
  });
  auto *data = new AddonData();
  env.SetInstanceData(data);
  data->model = Napi::Persistent(Model::define(env));
  data->context = Napi::Persistent(Context::define(env));
  data->embedder = Napi::Persistent(Embedder::define(env));
  data->sampler = Napi::Persistent(Sampler::define(env));
  data->parser = Napi::Persistent(Parser::define(env));

  exports.DefineProperty(Napi::PropertyDescriptor::Accessor<version>("version", napi_enumerable));
  exports.Set("loadBackends", Napi::Function::New(env, backends::load_folder, "loadBackends"));
  exports.Set("loadBackend", Napi::Function::New(env, backends::load_file, "loadBackend"));
  exports.Set("rateBackend", Napi::Function::New(env, backends::rate_file, "rateBackend"));
  exports.Set("proveCpu", Napi::Function::New(env, proof::run, "proveCpu"));
  exports.Set("refuseMatmul", Napi::Function::New(env, matmul::refuse, "refuseMatmul"));
  exports.Set("refuseAttention", Napi::Function::New(env, attention::refuse, "refuseAttention"));
  exports.Set("backends", Napi::Function::New(env, backends::list, "backends"));
  exports.Set("devices", Napi::Function::New(env, backends::devices, "devices"));
  exports.Set("setNuma", Napi::Function::New(env, numa::set, "setNuma"));
  exports.Set("halt", Napi::Function::New(env, [](const Napi::CallbackInfo &) { compute::halt(); }, "halt"));
  exports.Set("setLog", Napi::Function::New(env, log::set_sink, "setLog"));
  exports.Set("loadModel", Napi::Function::New(env, Model::load, "loadModel"));
  exports.Set("turns", Napi::Function::New(env, turns, "turns"));
  exports.Set("heap", Napi::Function::New(env, heap::measure, "heap"));
  exports.Set("attention", Napi::Function::New(env, attention::describe, "attention"));
  exports.Set("matmul", Napi::Function::New(env, matmul::describe, "matmul"));
  exports.Set("multiply", Napi::Function::New(env, matmul::multiply, "multiply"));
  exports.Set("attend", Napi::Function::New(env, attention::attend, "attend"));
  exports.Set("compileSchema", Napi::Function::New(env, compile_schema, "compileSchema"));
  return exports;
}

} // namespace

static Napi::Object Init(Napi::Env env, Napi::Object exports) { return init(env, exports); }
NODE_API_MODULE(recua, Init)

} // namespace recua
