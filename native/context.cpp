// A context: KV memory of several sequences, and the thread that computes on it. The hot path is in step.cpp.
#include "addon.h"

#include "ggml.h"

#include <algorithm>
#include <cstring>

namespace recua {

// --- ContextCore

ContextCore::ContextCore(Napi::Env env, std::shared_ptr<ModelState> model)
    : model(std::move(model)), worker(env, [this] { interrupted = true; }) {}

ContextCore::~ContextCore() {
  worker.stop();
  if (context != nullptr) llama_free(context);
}

void ContextCore::open(llama_context_params params) {
  params.abort_callback = [](void *data) { return static_cast<std::atomic<bool> *>(data)->load(std::memory_order_relaxed); };
  params.abort_callback_data = &interrupted;
  params.no_perf = true;
  log::clear_errors();
  context = llama_init_from_model(model->model, params);
  if (context == nullptr) {
    const std::string reason = log::last_errors();
    throw CodedError("model_unusable", "Could not create a context" + (reason.empty() ? "" : ": " + reason));
  }
}

Napi::Promise ContextCore::run(Napi::Env env, const char *fallback, std::function<void()> work,
                               std::function<Napi::Value(Napi::Env)> convert) {
  if (closed) return rejected(env, "closed", "The context is closed.");
  auto deferred = std::make_shared<Napi::Promise::Deferred>(env);
  auto outcome = std::make_shared<Outcome>();
  auto self = shared_from_this();
  const bool posted = worker.post(
      [self, outcome, fallback, work = std::move(work)] { *outcome = Outcome::of(work, fallback); },
      [self, outcome, deferred, convert = std::move(convert)](Napi::Env env) {
        settle(env, *deferred, *outcome, [&] { return convert(env); });
      });
  if (!posted) return rejected(env, "closed", "The context is closed.");
  return deferred->Promise();
}

void ContextCore::close(Napi::Env env, std::function<void(Napi::Env)> done) {
  if (closed && !model) return done(env);
  waiting_for_close.push_back(std::move(done));
  if (closed) return;
  closed = true;
  auto self = shared_from_this();
  const auto finish = [self](Napi::Env env) {
    self->worker.stop();
    self->model.reset();
    for (const auto &done : std::exchange(self->waiting_for_close, {})) done(env);
  };
  const auto free_context = [self] {
    if (self->context != nullptr) llama_free(self->context);
    self->context = nullptr;
  };
  if (!worker.post(free_context, finish)) finish(env);
}

Napi::Promise ContextCore::close(Napi::Env env) {
  auto deferred = std::make_shared<Napi::Promise::Deferred>(env);
  close(env, [deferred](Napi::Env env) { deferred->Resolve(env.Undefined()); });
  return deferred->Promise();
}

// --- Context

namespace {

ggml_type cache_type(const std::string &name) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                               GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
    if (name == ggml_type_name(type)) return type;
  }
  throw CodedError("invalid_argument", "Expected a KV cache type such as f16 or q8_0, got " + name + ".");
}

llama_flash_attn_type flash_attention(const std::string &mode) {
  if (mode == "on") return LLAMA_FLASH_ATTN_TYPE_ENABLED;
  if (mode == "off") return LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

} // namespace

Napi::Promise Context::create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options) {
  auto params = llama_context_default_params();
  uint32_t size = 0;
  std::string type_k = "f16";
  std::string type_v = "f16";
  std::string flash = "auto";
  options.number("contextSize", size);
  options.number("sequences", params.n_seq_max);
  options.number("batchSize", params.n_batch);
  options.number("microBatchSize", params.n_ubatch);
  options.number("threads", params.n_threads);
  options.number("threadsBatch", params.n_threads_batch);
  options.text("flashAttention", flash);
  options.text("cacheTypeK", type_k);
  options.text("cacheTypeV", type_v);
  return core->run(
      env, "model_unusable",
      [=]() mutable {
        params.type_k = cache_type(type_k);
        params.type_v = cache_type(type_v);
        params.flash_attn_type = flash_attention(flash);
        // Each sequence has a stream of cells of its own, so that unrelated requests do not slow each other.
        params.kv_unified = false;
        params.n_ctx = size * params.n_seq_max;
        params.n_outputs_max = std::max(params.n_seq_max, 1u); // a step asks for at most one row per sequence
        core->open(params);
      },
      [=](Napi::Env env) -> Napi::Value {
        if (core->closed) throw CodedError("closed", "The context was closed while it was made.");
        auto context = AddonData::wrap(env, env.GetInstanceData<AddonData>()->context, core);
        context.Set("contextSize", std::min(size, llama_n_ctx_seq(core->context)));
        context.Set("sequences", llama_n_seq_max(core->context));
        context.Set("batchSize", llama_n_batch(core->context));
        return context;
      });
}

Napi::Function Context::define(Napi::Env env) {
  return DefineClass(
      env, "Context",
      {InstanceMethod("step", &Context::step), InstanceMethod("copySequence", &Context::copy_sequence),
       InstanceMethod("removeSequence", &Context::remove_sequence),
       InstanceMethod("shiftSequence", &Context::shift_sequence), InstanceMethod("saveSequence", &Context::save_sequence),
       InstanceMethod("loadSequence", &Context::load_sequence), InstanceMethod("abort", &Context::abort),
       InstanceMethod("close", &Context::close)});
}

Context::Context(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Context>(info), core(*info[0].As<Napi::External<std::shared_ptr<ContextCore>>>().Data()) {}

namespace {

// Runs a KV operation that answers yes or no on the context's thread.
Napi::Promise run_yes_no(Napi::Env env, const std::shared_ptr<ContextCore> &core,
                         std::function<bool(llama_context *)> operation) {
  auto answer = std::make_shared<bool>(false);
  return core->run(
      env, "generation_failed", [core, answer, operation = std::move(operation)] { *answer = operation(core->context); },
      [answer](Napi::Env env) { return Napi::Boolean::New(env, *answer); });
}

// True where any range of a sequence can be cut out or copied: plain attention over the whole context.
bool is_plain_attention(const llama_model *model) {
  return !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model) && llama_model_n_swa(model) == 0;
}

} // namespace

Napi::Value Context::copy_sequence(const Napi::CallbackInfo &info) {
  const int32_t from = info[0].ToNumber();
  const int32_t to = info[1].ToNumber();
  const int32_t length = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    if (!is_plain_attention(llama_get_model(context))) return false;
    // llama_memory_seq_cp across streams copies the whole stream and aborts on a part of one; the state functions
    // move just the cells in use.
    try {
      std::vector<uint8_t> state(llama_state_seq_get_size_ext(context, from, LLAMA_STATE_SEQ_FLAGS_NONE));
      const size_t size =
          llama_state_seq_get_data_ext(context, state.data(), state.size(), from, LLAMA_STATE_SEQ_FLAGS_NONE);
      if (size == 0 || llama_state_seq_set_data_ext(context, state.data(), size, to, LLAMA_STATE_SEQ_FLAGS_NONE) == 0) {
        return false;
      }
    } catch (const std::bad_alloc &) {
      return false;
    }
    return llama_memory_seq_rm(llama_get_memory(context), to, length, -1);
  });
}

Napi::Value Context::remove_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  const int32_t from = info[1].ToNumber();
  const int32_t to = info[2].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    return llama_memory_seq_rm(llama_get_memory(context), sequence, from, to);
  });
}

Napi::Value Context::shift_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  const int32_t from = info[1].ToNumber();
  const int32_t to = info[2].ToNumber();
  const int32_t delta = info[3].ToNumber();
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    llama_memory_t memory = llama_get_memory(context);
    if (!llama_memory_can_shift(memory)) return false;
    llama_memory_seq_add(memory, sequence, from, to, delta);
    return true;
  });
}

namespace {

// A saved sequence begins with a checksum of the rest: llama.cpp trusts the counts inside.
uint64_t checksum(const uint8_t *bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

} // namespace

Napi::Value Context::save_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  auto state = std::make_shared<std::vector<uint8_t>>();
  return core->run(
      info.Env(), "generation_failed",
      [core = core, state, sequence] {
        constexpr size_t head = sizeof(uint64_t);
        state->resize(head + llama_state_seq_get_size(core->context, sequence));
        const size_t size =
            llama_state_seq_get_data(core->context, state->data() + head, state->size() - head, sequence);
        state->resize(head + size);
        const uint64_t sum = checksum(state->data() + head, size);
        std::memcpy(state->data(), &sum, head);
      },
      [state](Napi::Env env) { return make_array(env, *state); });
}

Napi::Value Context::load_sequence(const Napi::CallbackInfo &info) {
  const int32_t sequence = info[0].ToNumber();
  auto state = std::make_shared<std::vector<uint8_t>>(copy_array<uint8_t>(info[1]));
  return run_yes_no(info.Env(), core, [=](llama_context *context) {
    uint64_t sum = 0;
    constexpr size_t head = sizeof sum;
    if (state->size() <= head) return false;
    std::memcpy(&sum, state->data(), head);
    const size_t size = state->size() - head;
    if (sum != checksum(state->data() + head, size)) return false;
    return llama_state_seq_set_data(context, state->data() + head, size, sequence) > 0;
  });
}

Napi::Value Context::abort(const Napi::CallbackInfo &info) {
  core->interrupted = true; // cleared by the next step()
  return info.Env().Undefined();
}

Napi::Value Context::close(const Napi::CallbackInfo &info) { return core->close(info.Env()); }

} // namespace recua
