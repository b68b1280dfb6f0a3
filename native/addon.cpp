// The addon's entry: devices, versions, the log sink, and the classes of addon.h.
#include "addon.h"

#include "common.h"
#include "ggml-backend.h"

namespace recua {

namespace {

const char *device_kind(ggml_backend_dev_t device) {
  switch (ggml_backend_dev_type(device)) {
    case GGML_BACKEND_DEVICE_TYPE_GPU: return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU: return "igpu";
    case GGML_BACKEND_DEVICE_TYPE_CPU: return "cpu";
    default: return "accelerator";
  }
}

Napi::Value devices(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  auto list = Napi::Array::New(env);
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    auto entry = Napi::Object::New(env);
    entry.Set("name", ggml_backend_dev_name(device));
    entry.Set("description", ggml_backend_dev_description(device));
    entry.Set("kind", device_kind(device));
    entry.Set("backend", ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)));
    entry.Set("memoryFreeBytes", static_cast<double>(free_bytes));
    entry.Set("memoryTotalBytes", static_cast<double>(total_bytes));
    list.Set(list.Length(), entry);
  }
  return list;
}

Napi::Object version(Napi::Env env) {
  auto backends = Napi::Array::New(env);
  for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
    backends.Set(backends.Length(), ggml_backend_reg_name(ggml_backend_reg_get(i)));
  }
  auto object = Napi::Object::New(env);
  object.Set("llamaCpp", llama_version());
  object.Set("backends", backends);
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
    ggml_backend_load_all();
    llama_backend_init();
  });
  auto *data = new AddonData();
  env.SetInstanceData(data);
  data->model = Napi::Persistent(Model::define(env));
  data->context = Napi::Persistent(Context::define(env));
  data->embedder = Napi::Persistent(Embedder::define(env));
  data->sampler = Napi::Persistent(Sampler::define(env));
  data->parser = Napi::Persistent(Parser::define(env));

  exports.Set("version", version(env));
  exports.Set("devices", Napi::Function::New(env, devices, "devices"));
  exports.Set("setLog", Napi::Function::New(env, log::set_sink, "setLog"));
  exports.Set("loadModel", Napi::Function::New(env, Model::load, "loadModel"));
  exports.Set("readGguf", Napi::Function::New(env, read_gguf, "readGguf"));
  exports.Set("schemaToGrammar", Napi::Function::New(env, schema_to_grammar, "schemaToGrammar"));
  return exports;
}

} // namespace

static Napi::Object Init(Napi::Env env, Napi::Object exports) { return init(env, exports); }
NODE_API_MODULE(recua, Init)

} // namespace recua
