// The addon's entry: versions, the log sink, the backends of backends.h and the classes of addon.h.
#include "addon.h"
#include "backends.h"
#include "heap.h"
#include "numa.h"

#include "common.h"

namespace recua {

namespace {

// Told anew each time: backends are loaded after the import.
Napi::Value version(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  auto object = Napi::Object::New(env);
  object.Set("llamaCpp", llama_version());
  object.Set("backends", make_texts(env, backends::names()));
  object.Set("mathThreads", common_cpu_get_num_math());
  return object;
}

Napi::Value schema_to_grammar(const Napi::CallbackInfo &info) {
  const std::string schema = info[0].As<Napi::String>().Utf8Value();
  return Task<std::string>::run(
      info.Env(), "invalid_schema",
      [schema](std::string &grammar) { grammar = schema_grammar(schema); },
      [](Napi::Env env, std::string &grammar) { return Napi::String::New(env, grammar); });
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  static std::once_flag once;
  std::call_once(once, [] {
    log::install();
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
  exports.Set("backends", Napi::Function::New(env, backends::list, "backends"));
  exports.Set("devices", Napi::Function::New(env, backends::devices, "devices"));
  exports.Set("setNuma", Napi::Function::New(env, numa::set, "setNuma"));
  exports.Set("setLog", Napi::Function::New(env, log::set_sink, "setLog"));
  exports.Set("loadModel", Napi::Function::New(env, Model::load, "loadModel"));
  exports.Set("heap", Napi::Function::New(env, heap::measure, "heap"));
  exports.Set("readGguf", Napi::Function::New(env, read_gguf, "readGguf"));
  exports.Set("schemaToGrammar", Napi::Function::New(env, schema_to_grammar, "schemaToGrammar"));
  return exports;
}

} // namespace

static Napi::Object Init(Napi::Env env, Napi::Object exports) { return init(env, exports); }
NODE_API_MODULE(recua, Init)

} // namespace recua
