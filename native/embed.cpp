// Pooled embedding vectors of many inputs in one call, on a context and thread of their own.
#include "addon.h"

#include <cmath>
#include <numeric>

namespace recua {

namespace {

const char *pooling_names[] = {"none", "mean", "cls", "last", "rank"};

enum llama_pooling_type pooling_from(const std::string &name) {
  for (int type = LLAMA_POOLING_TYPE_NONE; type <= LLAMA_POOLING_TYPE_RANK; type++) {
    if (name == pooling_names[type]) return static_cast<enum llama_pooling_type>(type);
  }
  return LLAMA_POOLING_TYPE_UNSPECIFIED;
}

// Inputs [first, last) as one batch, each a sequence of its own.
void compute(ContextCore &core, const std::vector<int32_t> &tokens, const std::vector<int32_t> &lengths, size_t first,
             size_t last, size_t token_offset, float *out, size_t dimensions) {
  llama_context *context = core.context;
  if (llama_memory_t memory = llama_get_memory(context)) llama_memory_clear(memory, false);
  const auto count = static_cast<size_t>(std::accumulate(lengths.begin() + first, lengths.begin() + last, 0));
  llama_batch batch = llama_batch_init(static_cast<int32_t>(count), 0, 1);
  std::unique_ptr<llama_batch, void (*)(llama_batch *)> guard(&batch, [](llama_batch *b) { llama_batch_free(*b); });
  for (size_t input = first; input < last; input++) {
    for (int32_t position = 0; position < lengths[input]; position++) {
      const int32_t row = batch.n_tokens++;
      batch.token[row] = tokens[token_offset++];
      batch.pos[row] = position;
      batch.n_seq_id[row] = 1;
      batch.seq_id[row][0] = static_cast<llama_seq_id>(input - first);
      batch.logits[row] = 1; // pooling reads every row
    }
  }
  const int32_t code = llama_decode(context, batch);
  if (code == 2) throw CodedError("cancelled", "The embedding was aborted.");
  if (code != 0) throw CodedError("generation_failed", "Embedding " + std::to_string(count) + " tokens failed with code " + std::to_string(code) + ".");
  for (size_t input = first; input < last; input++) {
    const float *vector = llama_get_embeddings_seq(context, static_cast<llama_seq_id>(input - first));
    if (vector == nullptr) throw CodedError("generation_failed", "The model gave no vector for input " + std::to_string(input) + ".");
    double sum = 0;
    for (size_t i = 0; i < dimensions; i++) sum += static_cast<double>(vector[i]) * vector[i];
    if (!std::isfinite(sum)) throw CodedError("generation_failed", "The vector of input " + std::to_string(input) + " is not finite.");
    const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
    float *target = out + input * dimensions;
    for (size_t i = 0; i < dimensions; i++) target[i] = static_cast<float>(vector[i] * scale);
  }
}

} // namespace

Napi::Promise Embedder::create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options) {
  auto params = llama_context_default_params();
  std::string pooling = "unspecified";
  uint32_t context_size = 0;
  uint32_t batch_size = 0;
  options.text("pooling", pooling);
  options.number("contextSize", context_size);
  options.number("sequences", params.n_seq_max);
  options.number("batchSize", batch_size);
  options.number("threads", params.n_threads);
  return core->run(
      env, "embeddings_unsupported",
      [=]() mutable {
        // An input is pooled within one forward pass, so a batch must hold the longest one.
        params.n_ctx = params.n_batch = params.n_ubatch = std::max(context_size, batch_size);
        params.n_seq_max = std::min<uint32_t>(params.n_seq_max, llama_max_parallel_sequences());
        params.n_threads_batch = params.n_threads;
        params.embeddings = true;
        params.pooling_type = pooling_from(pooling);
        params.kv_unified = true; // one pool of cells for inputs of any length
        core->open(params);
        const auto type = llama_pooling_type(core->context);
        if (type == LLAMA_POOLING_TYPE_NONE || type == LLAMA_POOLING_TYPE_RANK) {
          throw CodedError("embeddings_unsupported", std::string("Expected a model with pooled vectors, this one's pooling is ") + pooling_names[type] + ".");
        }
      },
      [=](Napi::Env env) -> Napi::Value {
        auto embedder = AddonData::wrap(env, env.GetInstanceData<AddonData>()->embedder, core);
        embedder.Set("pooling", pooling_names[llama_pooling_type(core->context)]);
        embedder.Set("contextSize", context_size);
        return embedder;
      });
}

Napi::Function Embedder::define(Napi::Env env) {
  return DefineClass(env, "Embedder",
                     {InstanceMethod("embed", &Embedder::embed), InstanceMethod("close", &Embedder::close)});
}

Embedder::Embedder(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Embedder>(info), core(*info[0].As<Napi::External<std::shared_ptr<ContextCore>>>().Data()) {}

Napi::Value Embedder::embed(const Napi::CallbackInfo &info) {
  struct Job {
    std::vector<int32_t> tokens, lengths;
    std::vector<float> vectors;
  };
  auto job = std::make_shared<Job>();
  job->tokens = copy_array<int32_t>(info[0]);
  job->lengths = copy_array<int32_t>(info[1]);
  return core->run(
      info.Env(), "generation_failed",
      [core = core, job] {
        core->interrupted = false;
        const auto dimensions = static_cast<size_t>(llama_model_n_embd_out(core->model->model));
        const size_t most_tokens = llama_n_batch(core->context);
        const size_t most_inputs = llama_n_seq_max(core->context);
        job->vectors.resize(job->lengths.size() * dimensions);
        size_t offset = 0;
        for (size_t first = 0; first < job->lengths.size();) {
          // As many inputs as fit into one forward pass.
          size_t last = first;
          size_t count = 0;
          while (last < job->lengths.size() && last - first < most_inputs &&
                 count + static_cast<size_t>(job->lengths[last]) <= most_tokens) {
            count += static_cast<size_t>(job->lengths[last++]);
          }
          if (last == first) throw CodedError("context_length_exceeded", "Input " + std::to_string(first) + " is longer than the embedding context.");
          compute(*core, job->tokens, job->lengths, first, last, offset, job->vectors.data(), dimensions);
          offset += count;
          first = last;
        }
      },
      [job](Napi::Env env) { return make_array(env, job->vectors); });
}

Napi::Value Embedder::close(const Napi::CallbackInfo &info) { return core->close(info.Env()); }

} // namespace recua
