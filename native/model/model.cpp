// A loaded model: load with progress and cancel, tokens and their bytes, metadata, close.
#include "addon.h"
#include "machine/backends.h"

#include <algorithm>
#include <chrono>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace recua {

namespace {

// Reads a metadata value of any length (a template, a merges list), growing the buffer as needed.
template <typename Read>
std::string read_text(Read read) {
  std::vector<char> buffer(256);
  int32_t length = read(buffer.data(), buffer.size());
  if (length < 0) return "";
  if (static_cast<size_t>(length) >= buffer.size()) {
    buffer.resize(static_cast<size_t>(length) + 1);
    length = read(buffer.data(), buffer.size());
  }
  return std::string(buffer.data(), static_cast<size_t>(length));
}

const char *pooling_name(const llama_model *model, const std::string &architecture) {
  static const char *names[] = {"none", "mean", "cls", "last", "rank"};
  const std::string value = metadata_value(model, architecture + ".pooling_type");
  if (value.size() == 1 && value[0] >= '0' && value[0] <= '4') return names[value[0] - '0'];
  return "unspecified";
}

Napi::Object describe(Napi::Env env, ModelState &state) {
  const llama_model *model = state.model;
  const llama_vocab *vocab = llama_model_get_vocab(model);
  const std::string architecture = metadata_value(model, "general.architecture");
  auto info = Napi::Object::New(env);
  info.Set("architecture", architecture);
  info.Set("fileType", llama_ftype_name(llama_model_ftype(model)));
  info.Set("vocabSize", llama_vocab_n_tokens(vocab));
  info.Set("vocabType", static_cast<int>(llama_vocab_type(vocab)));
  info.Set("contextTrain", llama_model_n_ctx_train(model));
  info.Set("embeddingSize", llama_model_n_embd_out(model));
  info.Set("layers", llama_model_n_layer(model));
  info.Set("parameters", static_cast<double>(llama_model_n_params(model)));
  info.Set("sizeBytes", static_cast<double>(llama_model_size(model)));
  info.Set("bosToken", llama_vocab_bos(vocab));
  info.Set("eosToken", llama_vocab_eos(vocab));
  info.Set("sepToken", llama_vocab_sep(vocab));
  info.Set("fimPrefix", llama_vocab_fim_pre(vocab));
  info.Set("fimSuffix", llama_vocab_fim_suf(vocab));
  info.Set("fimMiddle", llama_vocab_fim_mid(vocab));
  info.Set("fimRepository", llama_vocab_fim_rep(vocab));
  info.Set("fimSeparator", llama_vocab_fim_sep(vocab));
  info.Set("addBos", llama_vocab_get_add_bos(vocab));
  info.Set("addEos", llama_vocab_get_add_eos(vocab));
  info.Set("addSep", llama_vocab_get_add_sep(vocab));
  info.Set("longestPiece", static_cast<double>(state.length_bound().longest_piece));
  info.Set("takesSpaces", state.length_bound().takes_spaces);
  info.Set("hasDecoder", llama_model_has_decoder(model) && is_causal(model));
  info.Set("hasEncoder", llama_model_has_encoder(model));
  info.Set("recurrent", llama_model_is_recurrent(model) || llama_model_is_hybrid(model));
  info.Set("slidingWindow", llama_model_n_swa(model));
  info.Set("pooling", pooling_name(model, architecture));
  info.Set("hasChatTemplate", llama_model_chat_template(model, nullptr) != nullptr);
  return info;
}

// One load in progress, shared by the pool thread and the JS object that watches and cancels it.
struct Load {
  std::string path;
  llama_model_params params{};
  std::vector<ggml_backend_dev_t> devices; // `params` points into it
  std::atomic<bool> cancelled{false};
  std::atomic<float> progress{0};
  std::shared_ptr<ModelState> state;
};

void cancel_load(void *load) { static_cast<Load *>(load)->cancelled = true; }

void load_weights(Load &load) {
  log::clear_errors();
  if (!load.params.vocab_only) backends::ready(load.devices);
  llama_model *model = llama_model_load_from_file(load.path.c_str(), load.params);
  if (model == nullptr) {
    if (load.cancelled) throw CodedError("cancelled", "Loading was cancelled.");
    const std::string reason = log::last_errors();
    throw CodedError("model_unusable", "Could not load " + load.path + (reason.empty() ? "" : ": " + reason));
  }
  load.state = std::make_shared<ModelState>();
  load.state->model = model;
  load.state->path = load.path;
  load.state->has_weights = !load.params.vocab_only;
  load.state->vocab = llama_model_get_vocab(model);
}

// glibc keeps freed memory for later allocations of the same thread's arena, and many threads
// opened the model.
void return_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Records a child that the model must close before itself, and drops expired ones.
template <typename T>
void adopt(std::vector<std::weak_ptr<T>> &children, const std::shared_ptr<T> &child) {
  children.erase(std::remove_if(children.begin(), children.end(), [](const auto &weak) { return weak.expired(); }),
                 children.end());
  children.push_back(child);
}

// For what computes: llama.cpp would end the process.
std::shared_ptr<ModelState> with_weights(Napi::Env env, const std::shared_ptr<ModelState> &state) {
  if (!state->has_weights) throw make_error(env, "invalid_argument", "The model was loaded without its weights.");
  return state;
}

} // namespace

std::string metadata_value(const llama_model *model, const std::string &key) {
  return read_text([&](char *out, size_t size) { return llama_model_meta_val_str(model, key.c_str(), out, size); });
}

const std::vector<llama_token> &ModelState::end_tokens() {
  std::call_once(ends_found, [this] {
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
      if (llama_vocab_is_eog(vocab, token)) ends.push_back(token);
    }
  });
  return ends;
}

const Specials &ModelState::special_tokens() {
  std::call_once(specials_made, [this] { specials = std::make_unique<Specials>(vocab); });
  return *specials;
}

ModelState::~ModelState() {
  templates.clear();
  llama_model_free(model);
  released.set_value();
}

std::shared_ptr<Templates> ModelState::chat_templates(const std::string &source) {
  constexpr size_t most = 4; // the file's own, and some that requests send
  const auto known = [&]() -> std::shared_ptr<Templates> {
    const auto found = std::find_if(templates.begin(), templates.end(), [&](const auto &entry) { return entry.first == source; });
    if (found == templates.end()) return nullptr;
    templates.splice(templates.begin(), templates, found);
    return found->second;
  };
  {
    const std::lock_guard<std::mutex> lock(templates_mutex);
    if (auto found = known()) return found;
  }
  // Without the lock, so that requests with other templates need not wait for this compilation.
  auto made = std::make_shared<Templates>(model, source);
  const std::lock_guard<std::mutex> lock(templates_mutex);
  if (auto found = known()) return found;
  templates.emplace_front(source, made);
  if (templates.size() > most) templates.pop_back();
  return made;
}

Napi::Value Model::load(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] { return start_load(info.Env(), Options(info[0])); });
}

Napi::Value Model::start_load(Napi::Env env, const Options &options) {
  backends::require_cpu();
  auto load = std::make_shared<Load>();
  options.text("path", load->path);
  load->params = llama_model_default_params();
  std::vector<std::string> devices;
  if (options.get("devices").IsArray()) {
    options.texts("devices", devices);
    load->devices = backends::named(devices);
    load->params.devices = load->devices.data();
  }
  bool mmap = true;
  bool mlock = false;
  options.number("gpuLayers", load->params.n_gpu_layers);
  options.boolean("mmap", mmap);
  options.boolean("mlock", mlock);
  options.boolean("repack", load->params.use_extra_bufts);
  options.boolean("vocabOnly", load->params.vocab_only);
  load->params.load_mode = mmap ? (mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP)
                                : (mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE);
  load->params.progress_callback = [](float fraction, void *data) {
    auto *load = static_cast<Load *>(data);
    load->progress = fraction;
    return !load->cancelled;
  };
  load->params.progress_callback_user_data = load.get();
  auto promise = Task<int>::run(
      env, "model_unusable", [load](int &) { compute::apart([&] { load_weights(*load); }); },
      [load](Napi::Env env, int &) -> Napi::Value {
        auto state = std::move(load->state);
        // cancel() works until the caller has the model.
        if (load->cancelled) throw CodedError("cancelled", "Loading was cancelled.");
        return AddonData::wrap(env, env.GetInstanceData<AddonData>()->model, state);
      },
      [env, load] { napi_remove_env_cleanup_hook(env, cancel_load, load.get()); });
  // Do not delay an exit until the weights are loaded. The task, which now runs, removes the hook.
  napi_add_env_cleanup_hook(env, cancel_load, load.get());
  auto result = Napi::Object::New(env);
  result.Set("promise", promise);
  result.Set("progress", Napi::Function::New(env, [load](const Napi::CallbackInfo &info) {
               return Napi::Number::New(info.Env(), load->progress);
             }));
  result.Set("cancel", Napi::Function::New(env, [load](const Napi::CallbackInfo &) { load->cancelled = true; }));
  return result;
}

Napi::Function Model::define(Napi::Env env) {
  return DefineClass(env, "Model",
                     {InstanceMethod("metadata", &Model::metadata), InstanceMethod("chatTemplate", &Model::chat_template),
                      InstanceMethod("tokenize", &Model::tokenize), InstanceMethod("detokenize", &Model::detokenize),
                      InstanceMethod("piece", &Model::piece), InstanceMethod("pieces", &Model::pieces),
                      InstanceMethod("hasRankHead", &Model::has_rank_head), InstanceMethod("createContext", &Model::create_context),
                      InstanceMethod("createEmbedder", &Model::create_embedder),
                      InstanceMethod("createSampler", &Model::create_sampler),
                      InstanceMethod("applyChatTemplate", &Model::apply_chat_template),
                      InstanceMethod("prepareChat", &Model::prepare_chat),
                      InstanceMethod("createParser", &Model::create_parser),
                      InstanceMethod("remember", &Model::remember), InstanceMethod("remembers", &Model::remembers),
                      InstanceMethod("forget", &Model::forget),
                      InstanceMethod("limitGrammars", &Model::limit_grammars), InstanceMethod("close", &Model::close)});
}

Model::Model(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Model>(info), state(*info[0].As<Napi::External<std::shared_ptr<ModelState>>>().Data()) {
  info.This().As<Napi::Object>().Set("info", describe(info.Env(), *state));
}

std::shared_ptr<ModelState> Model::open(Napi::Env env) const {
  if (!state) throw make_error(env, "closed", "The model is closed.");
  return state;
}

Napi::Value Model::metadata(const Napi::CallbackInfo &info) {
  const auto model = open(info.Env())->model;
  auto object = Napi::Object::New(info.Env());
  for (int32_t i = 0; i < llama_model_meta_count(model); i++) {
    object.Set(read_text([&](char *out, size_t size) { return llama_model_meta_key_by_index(model, i, out, size); }),
               read_text([&](char *out, size_t size) { return llama_model_meta_val_str_by_index(model, i, out, size); }));
  }
  return object;
}

Napi::Value Model::chat_template(const Napi::CallbackInfo &info) {
  const char *source = llama_model_chat_template(open(info.Env())->model, nullptr);
  return Napi::String::New(info.Env(), source == nullptr ? "" : source);
}

Napi::Value Model::tokenize(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    auto model = open(info.Env());
    auto text = std::make_shared<std::string>(info[0].As<Napi::String>().Utf8Value());
    const Options given(info[3].IsObject() ? info[3] : Napi::Object::New(info.Env()));
    TokenizeOptions options;
    options.add_special = info[1].ToBoolean();
    options.parse_special = info[2].ToBoolean();
    if (given.get("literal").IsTypedArray()) options.literal = copy_array<int32_t>(given.get("literal"));
    bool known = false;
    given.boolean("known", known);
    if (known) options.known = &model->history();
    const auto flag = Flag::of(given.get("cancelled"));
    using Tokens = std::vector<llama_token>;
    return Task<Tokens>::run(
        info.Env(), "internal_error",
        [=](Tokens &tokens) {
          tokens = recua::tokenize(model->vocab, model->special_tokens(), *text, options, flag->value());
        },
        [](Napi::Env env, Tokens &tokens) { return make_array(env, tokens); });
  });
}

Napi::Value Model::detokenize(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    auto model = open(info.Env());
    const auto tokens = copy_array<int32_t>(info[0]);
    const bool special = info[1].ToBoolean();
    return Task<std::string>::run(
        info.Env(), "internal_error",
        [=](std::string &bytes) {
          for (const llama_token token : tokens) bytes += token_bytes(model->vocab, token, special);
        },
        [](Napi::Env env, std::string &bytes) {
          return make_array(env, std::vector<uint8_t>(bytes.begin(), bytes.end()));
        });
  });
}

Napi::Value Model::piece(const Napi::CallbackInfo &info) {
  const auto bytes = token_bytes(open(info.Env())->vocab, info[0].ToNumber().Int32Value(), info[1].ToBoolean());
  return make_array(info.Env(), std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

Napi::Value Model::pieces(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    auto model = open(info.Env());
    const bool special = info[0].ToBoolean();
    struct Table {
      std::vector<uint8_t> bytes, flags;
      std::vector<uint32_t> offsets;
    };
    return Task<Table>::run(
        info.Env(), "internal_error",
        [=](Table &table) {
          const int32_t count = llama_vocab_n_tokens(model->vocab);
          table.offsets.reserve(static_cast<size_t>(count) + 1);
          table.flags.reserve(static_cast<size_t>(count));
          for (llama_token token = 0; token < count; token++) {
            table.offsets.push_back(static_cast<uint32_t>(table.bytes.size()));
            const std::string bytes = token_bytes(model->vocab, token, special);
            table.bytes.insert(table.bytes.end(), bytes.begin(), bytes.end());
            table.flags.push_back(static_cast<uint8_t>((llama_vocab_is_eog(model->vocab, token) ? 1 : 0) |
                                                       (llama_vocab_is_control(model->vocab, token) ? 2 : 0)));
          }
          table.offsets.push_back(static_cast<uint32_t>(table.bytes.size()));
        },
        [](Napi::Env env, Table &table) {
          auto object = Napi::Object::New(env);
          object.Set("bytes", make_array(env, table.bytes));
          object.Set("offsets", make_array(env, table.offsets));
          object.Set("flags", make_array(env, table.flags));
          return object;
        });
  });
}

Napi::Value Model::create_context(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    auto core = std::make_shared<ContextCore>(info.Env(), with_weights(info.Env(), open(info.Env())));
    adopt(contexts, core);
    return Context::create(info.Env(), core, Options(info[0]));
  });
}

Napi::Value Model::create_embedder(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    auto core = std::make_shared<ContextCore>(info.Env(), with_weights(info.Env(), open(info.Env())));
    adopt(contexts, core);
    return Embedder::create(info.Env(), core, Options(info[0]));
  });
}

std::shared_ptr<SamplerState> Model::new_sampler(Napi::Env env) {
  auto sampler = std::make_shared<SamplerState>();
  sampler->model = open(env);
  adopt(samplers, sampler);
  return sampler;
}

Napi::Value Model::close(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  if (!closing.IsEmpty()) return closing.Value();
  auto deferred = Napi::Promise::Deferred::New(env);
  closing = Napi::Persistent(deferred.Promise().As<Napi::Object>());

  auto released = std::make_shared<std::shared_future<void>>(state->released.get_future());
  auto held = std::make_shared<std::shared_ptr<ModelState>>(std::move(state));
  auto remaining = std::make_shared<size_t>(1);
  auto open_samplers = std::make_shared<std::vector<std::weak_ptr<SamplerState>>>(std::move(samplers));
  const auto context_closed = [=](Napi::Env env) {
    if (--*remaining > 0) return;
    // No step runs any more, so the sampler states can be released.
    for (const auto &weak : *open_samplers) {
      if (auto sampler = weak.lock()) sampler->release();
    }
    auto last = std::make_shared<std::shared_ptr<ModelState>>(std::move(*held));
    // Waits for tasks in flight and unmaps gigabytes, so it runs off the JS thread.
    auto freed = Task<int>::run(
        env, "internal_error",
        [=](int &) {
          last->reset();
          released->wait();
          return_memory();
        },
        [](Napi::Env env, int &) { return env.Undefined(); });
    deferred.Resolve(freed);
  };
  const auto open_contexts = std::move(contexts);
  for (const auto &weak : open_contexts) {
    if (auto core = weak.lock()) {
      ++*remaining;
      core->close(env, context_closed);
    }
  }
  context_closed(env);
  return closing.Value();
}

} // namespace recua
