// A context: the KV memory of several sequences, computed on the compute thread. The hot path is in
// step.cpp, KV operations between steps in kv.cpp.
#include "addon.h"
#include "accel/accel.h"
#include "machine/heap.h"
#include "thread/machine_turn.h"

#include "../src/llama-ext.h" // a private header, for the devices of a model
#include "ggml.h"

#include <algorithm>
#include <cstring>

namespace recua {

namespace {

// What llama.cpp allocates for graphs while it makes a context, beside KV and buffers. Without this
// memory llama.cpp ends the process.
constexpr size_t context_bytes = 64 << 20;
// What requests take on top of the context when all sequences are in use: JavaScript's heap, heaps
// of threads, samplers.
constexpr size_t requests_bytes = 256 << 20;
// Per compute thread. The threads start with the first step, and OpenMP ends the process if it
// cannot create one.
constexpr size_t stack_bytes = 8 << 20;

} // namespace

// --- ContextCore

ContextCore::ContextCore(Napi::Env env, std::shared_ptr<ModelState> model)
    : model(std::move(model)), worker(env, [this] { interrupted = true; }) {}

ContextCore::~ContextCore() {
  worker.stop();
  if (context != nullptr) llama_free(context);
}

void ContextCore::open(llama_context_params params, bool own_attention, bool own_matmul) {
  params.abort_callback = [](void *data) {
    auto *core = static_cast<ContextCore *>(data);
    core->polls.fetch_add(1, std::memory_order_relaxed);
    return core->interrupted.load(std::memory_order_relaxed);
  };
  params.abort_callback_data = this;
  params.no_perf = true;
  log::clear_errors();
  heap::require(context_bytes, "a context");
  const bool on_processor = llama_model_n_devices(model->model) == 0;
  const accel::Wanted wanted(std::max(params.n_threads, params.n_threads_batch), own_attention && on_processor, own_matmul && on_processor);
  context = llama_init_from_model(model->model, params);
  if (context == nullptr) {
    const std::string reason = log::last_errors();
    throw CodedError("model_unusable", "Could not create a context" + (reason.empty() ? "" : ": " + reason));
  }
}

void ContextCore::compute_in_turn(const std::string &turn_file, int32_t cores) {
  if (!turn_file.empty() && turn::share(turn_file)) worker.computes_on(cores);
}

int32_t ContextCore::decode(const llama_batch &batch) {
  log::HeldTrouble held(interrupted);
  const int32_t code = llama_decode(context, batch);
  if (code == 2) held.expected();
  return code;
}

Napi::Promise ContextCore::run(Napi::Env env, const char *fallback, std::function<void()> work,
                               std::function<Napi::Value(Napi::Env)> convert) {
  return run_slices(
      env, fallback,
      [work = std::move(work)] {
        work();
        return false;
      },
      std::move(convert));
}

Napi::Promise ContextCore::run_slices(Napi::Env env, const char *fallback, std::function<bool()> slice,
                                      std::function<Napi::Value(Napi::Env)> convert) {
  if (closed) return rejected(env, "closed", "The context is closed.");
  auto deferred = std::make_shared<Napi::Promise::Deferred>(env);
  auto outcome = std::make_shared<Outcome>();
  auto self = shared_from_this();
  const bool posted = worker.post(
      [self, outcome, fallback, slice = std::move(slice)] {
        bool more = false;
        *outcome = Outcome::of([&] { more = slice(); }, fallback);
        return more;
      },
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
  paused = true;
  auto self = shared_from_this();
  const auto finish = [self](Napi::Env env) {
    self->worker.stop();
    self->model.reset();
    for (const auto &done : std::exchange(self->waiting_for_close, {})) done(env);
  };
  const auto free_context = [self] {
    if (self->context != nullptr) llama_free(self->context);
    self->context = nullptr;
    self->stashes.clear();
    return false;
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

// Far more than any step has. llama.cpp multiplies these numbers.
constexpr uint32_t most_rows = 1 << 16;

llama_flash_attn_type flash_attention(const std::string &mode) {
  if (mode == "on") return LLAMA_FLASH_ATTN_TYPE_ENABLED;
  if (mode == "off") return LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

} // namespace

Napi::Promise Context::create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options) {
  auto params = llama_context_default_params();
  uint32_t size = 0;
  uint32_t draft = 0;
  std::string type_k = "f16";
  std::string type_v = "f16";
  std::string flash = "auto";
  std::string turn_file;
  options.text("turnFile", turn_file);
  options.number("contextSize", size);
  options.number("sequences", params.n_seq_max);
  options.number("draft", draft);
  uint32_t predict = 0;
  options.number("predict", predict);
  uint32_t scores = 0;
  options.number("scores", scores);
  bool draft_always = false;
  options.boolean("draftAlways", draft_always);
  options.number("batchSize", params.n_batch);
  options.number("microBatchSize", params.n_ubatch);
  options.number("threads", params.n_threads);
  options.number("threadsBatch", params.n_threads_batch);
  bool on_devices = false;
  options.boolean("onDevices", on_devices);
  options.text("flashAttention", flash);
  std::string attention = "ggml", matmul = "ggml";
  options.text("attention", attention);
  options.text("matmul", matmul);
  options.text("cacheTypeK", type_k);
  options.text("cacheTypeV", type_v);
  return core->run(
      env, "model_unusable",
      [=]() mutable {
        if (std::max({params.n_seq_max, draft, predict, scores}) > most_rows) {
          throw CodedError("invalid_argument", "Expected at most " + std::to_string(most_rows) + " sequences, guesses and scores.");
        }
        params.type_k = cache_type(type_k);
        params.type_v = cache_type(type_v);
        params.flash_attn_type = flash_attention(flash);
        // Each sequence gets its own stream of cells, so that unrelated requests do not slow each
        // other down.
        params.kv_unified = false;
        params.n_ctx = size * params.n_seq_max;
        // A step requests one row per sequence, plus rows of a prompt or guesses; guesses are only
        // evaluated while few sequences run.
        const uint32_t guesses = is_plain_attention(core->model->model) ? std::max(draft, predict) : 0;
        params.n_outputs_max = std::max(params.n_seq_max, 1u) + std::max(scores, 2 * guesses);
        core->logits.attach(params, core->model->vocab);
        core->open(params, attention == "auto", matmul == "auto");
        heap::require(requests_bytes + static_cast<size_t>(std::max(params.n_threads, params.n_threads_batch)) * stack_bytes, "the requests");
        core->most_outputs = params.n_outputs_max;
        core->threads = params.n_threads;
        core->threads_batch = params.n_threads_batch;
        core->on_devices = on_devices;
        core->compute_in_turn(turn_file, std::max(core->threads, core->threads_batch));
        if (guesses > 0) core->draft_costs = std::make_unique<DraftCosts>(params.n_seq_max, guesses, draft_always);
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
      {InstanceMethod("steps", &Context::steps), InstanceMethod("copySequence", &Context::copy_sequence),
       InstanceMethod("removeSequence", &Context::remove_sequence), InstanceMethod("createStash", &Context::create_stash),
       InstanceMethod("readStash", &Context::read_stash), InstanceMethod("writeStash", &Context::write_stash),
       InstanceMethod("stashSequence", &Context::stash_sequence),
       InstanceMethod("checkpointSequence", &Context::checkpoint_sequence), InstanceMethod("rollBackSequence", &Context::roll_back_sequence),
       InstanceMethod("unstashSequence", &Context::unstash_sequence), InstanceMethod("dropStash", &Context::drop_stash),
       InstanceMethod("pause", &Context::pause), InstanceMethod("abort", &Context::abort),
       InstanceMethod("polls", &Context::polls),
       InstanceMethod("copyMs", &Context::copy_ms),
       InstanceMethod("close", &Context::close)});
}

Context::Context(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Context>(info), core(*info[0].As<Napi::External<std::shared_ptr<ContextCore>>>().Data()) {}

Napi::Value Context::pause(const Napi::CallbackInfo &info) {
  core->paused = true; // cleared by the next steps()
  return info.Env().Undefined();
}

Napi::Value Context::abort(const Napi::CallbackInfo &info) {
  core->interrupted = true; // cleared by the next steps()
  return info.Env().Undefined();
}

Napi::Value Context::polls(const Napi::CallbackInfo &info) {
  return Napi::Number::New(info.Env(), static_cast<double>(core->polls.load(std::memory_order_relaxed)));
}

Napi::Value Context::close(const Napi::CallbackInfo &info) { return core->close(info.Env()); }

} // namespace recua
