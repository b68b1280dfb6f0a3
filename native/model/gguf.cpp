// A GGUF header read by llama.cpp's own reader, without the weights.
#include "addon.h"

#include "gguf.h"

namespace recua {

namespace {

using Gguf = std::shared_ptr<gguf_context>;

Napi::Value value_of(Napi::Env env, const gguf_context *file, int64_t key) {
  const auto number = [&](double value) { return Napi::Number::New(env, value); };
  switch (gguf_get_kv_type(file, key)) {
    case GGUF_TYPE_UINT8: return number(gguf_get_val_u8(file, key));
    case GGUF_TYPE_INT8: return number(gguf_get_val_i8(file, key));
    case GGUF_TYPE_UINT16: return number(gguf_get_val_u16(file, key));
    case GGUF_TYPE_INT16: return number(gguf_get_val_i16(file, key));
    case GGUF_TYPE_UINT32: return number(gguf_get_val_u32(file, key));
    case GGUF_TYPE_INT32: return number(gguf_get_val_i32(file, key));
    case GGUF_TYPE_UINT64: return number(static_cast<double>(gguf_get_val_u64(file, key)));
    case GGUF_TYPE_INT64: return number(static_cast<double>(gguf_get_val_i64(file, key)));
    case GGUF_TYPE_FLOAT32: return number(gguf_get_val_f32(file, key));
    case GGUF_TYPE_FLOAT64: return number(gguf_get_val_f64(file, key));
    case GGUF_TYPE_BOOL: return Napi::Boolean::New(env, gguf_get_val_bool(file, key));
    case GGUF_TYPE_STRING: return Napi::String::New(env, gguf_get_val_str(file, key));
    case GGUF_TYPE_ARRAY: {
      auto array = Napi::Object::New(env);
      array.Set("type", gguf_type_name(gguf_get_arr_type(file, key)));
      array.Set("length", static_cast<double>(gguf_get_arr_n(file, key)));
      return array;
    }
    default: return env.Null();
  }
}

} // namespace

Napi::Value read_gguf(const Napi::CallbackInfo &info) {
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  return Task<Gguf>::run(
      info.Env(), "invalid_gguf",
      [path](Gguf &file) {
        log::clear_errors();
        gguf_init_params params{};
        params.no_alloc = true;
        file = Gguf(gguf_init_from_file(path.c_str(), params), [](gguf_context *f) {
          if (f != nullptr) gguf_free(f);
        });
        if (!file) {
          throw CodedError("invalid_gguf", "Expected a GGUF file at " + path + "; llama.cpp says: " + log::last_errors());
        }
      },
      [](Napi::Env env, Gguf &file) {
        auto header = Napi::Object::New(env);
        header.Set("version", gguf_get_version(file.get()));
        header.Set("tensorCount", static_cast<double>(gguf_get_n_tensors(file.get())));
        auto metadata = Napi::Object::New(env);
        for (int64_t i = 0; i < gguf_get_n_kv(file.get()); i++) {
          metadata.Set(gguf_get_key(file.get(), i), value_of(env, file.get(), i));
        }
        header.Set("metadata", metadata);
        return header;
      });
}

} // namespace recua
