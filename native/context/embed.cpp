// Pooled embedding vectors, or a reranker's scores, for many inputs in one call, on their own
// context.
#include "addon.h"
#include "machine/team.h"

#include "ggml.h"
#include "gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace recua {

namespace {

const char *pooling_names[] = {"none", "mean", "cls", "last", "rank"};

enum llama_pooling_type pooling_from(const std::string &name) {
  for (int type = LLAMA_POOLING_TYPE_NONE; type <= LLAMA_POOLING_TYPE_RANK; type++) {
    if (name == pooling_names[type]) return static_cast<enum llama_pooling_type>(type);
  }
  return LLAMA_POOLING_TYPE_UNSPECIFIED;
}

// A vector does not need the vocabulary's output matrix, but llama.cpp multiplies every row by it;
// for a small model with a large vocabulary that is most of the work. This turns the graph's node
// for it into one that computes nothing.
bool skip_output_matrix(ggml_tensor *node, bool ask, void *) {
  // matmul/ has turned it into a custom operation already.
  if (ask && (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_CUSTOM) && node->src[0] != nullptr) {
    const char *weight = node->src[0]->name;
    if (std::strcmp(weight, "output.weight") == 0 || std::strcmp(weight, "token_embd.weight") == 0) node->op = GGML_OP_NONE;
  }
  return !ask; // request no node's data
}

// Rows per forward pass. llama.cpp copies logits out for each row, so a large vocabulary limits
// them.
uint32_t pass_rows(const llama_vocab *vocab) {
  constexpr size_t logits_bytes = 128u << 20;
  const size_t rows = logits_bytes / (sizeof(float) * static_cast<size_t>(llama_vocab_n_tokens(vocab)));
  uint32_t power = 64;
  while (power < 512 && power * 2 <= rows) power *= 2;
  return power;
}

// Without its classification head, a model would return some internal number as a score. The head
// of a split model may be in any part, so only unsplit files are checked.
bool has_rank_head(const std::string &path) {
  std::unique_ptr<gguf_context, void (*)(gguf_context *)> file(gguf_init_from_file(path.c_str(), {true, nullptr}), gguf_free);
  if (!file || gguf_find_key(file.get(), "split.count") >= 0) return true;
  return gguf_find_tensor(file.get(), "cls.weight") >= 0 || gguf_find_tensor(file.get(), "cls.output.weight") >= 0;
}

// Floats per input: the vector's, or one per label of a reranker's head.
size_t output_size(const llama_model *model, enum llama_pooling_type pooling) {
  return pooling == LLAMA_POOLING_TYPE_RANK ? llama_model_n_cls_out(model) : static_cast<size_t>(llama_model_n_embd_out(model));
}

// A part of an input that goes into one forward pass.
struct Piece {
  size_t input;
  int32_t from, count;
};

// How long a pass may take while another context waits for its turn: the gap that an answer gets.
constexpr double shared_pass_ms = 100;

// The inputs of one call, and how far they have been read.
struct Work {
  std::shared_ptr<ContextCore> core;
  std::vector<int32_t> tokens, lengths;
  int32_t context_size;
  size_t dimensions = 0;
  std::vector<size_t> offsets = {}; // per input: its index in `tokens`
  std::vector<float> vectors = {};
  size_t input = 0; // the next input to read …
  int32_t from = 0; // … from this token on

  // Runs one forward pass and adds its results to the vectors of the inputs.
  void pass(const std::vector<Piece> &pieces) {
    llama_context *context = core->context;
    if (llama_memory_t memory = pieces[0].from > 0 ? nullptr : llama_get_memory(context)) llama_memory_clear(memory, false);
    int32_t rows = 0;
    for (const auto &piece : pieces) rows += piece.count;
    llama_batch batch = llama_batch_init(rows, 0, 1);
    std::unique_ptr<llama_batch, void (*)(llama_batch *)> guard(&batch, [](llama_batch *b) { llama_batch_free(*b); });
    for (size_t i = 0; i < pieces.size(); i++) {
      for (int32_t position = pieces[i].from; position < pieces[i].from + pieces[i].count; position++) {
        const int32_t row = batch.n_tokens++;
        batch.token[row] = tokens[offsets[pieces[i].input] + static_cast<size_t>(position)];
        batch.pos[row] = position;
        batch.n_seq_id[row] = 1;
        batch.seq_id[row][0] = static_cast<llama_seq_id>(i);
        batch.logits[row] = 1; // pooling reads every row
      }
    }
    const int64_t start = llama_time_us();
    const int32_t code = core->decode(batch);
    if (code == 2) throw CodedError("cancelled", "The embedding was aborted.");
    if (code != 0) throw CodedError("generation_failed", "Embedding " + std::to_string(rows) + " tokens failed with code " + std::to_string(code) + ".");
    llama_synchronize(context);
    core->rows_per_ms = rows / std::max(0.001, static_cast<double>(llama_time_us() - start) / 1000);
    const auto pooling = llama_pooling_type(context);
    for (size_t i = 0; i < pieces.size(); i++) {
      const float *vector = llama_get_embeddings_seq(context, static_cast<llama_seq_id>(i));
      if (vector == nullptr) throw CodedError("generation_failed", "The model gave no vector for input " + std::to_string(pieces[i].input) + ".");
      add(pieces[i], vector, pooling);
    }
  }

  // With mean pooling, the mean of a long input is the weighted mean of its parts; with the other
  // kinds only one part counts. A reranker read in parts is causal, so its last token has seen
  // everything.
  void add(const Piece &piece, const float *vector, enum llama_pooling_type pooling) {
    const bool ends = piece.from + piece.count == lengths[piece.input];
    if (pooling == LLAMA_POOLING_TYPE_LAST || pooling == LLAMA_POOLING_TYPE_RANK ? !ends : pooling == LLAMA_POOLING_TYPE_CLS && piece.from > 0) return;
    const float weight = pooling == LLAMA_POOLING_TYPE_MEAN ? static_cast<float>(piece.count) : 1;
    float *target = vectors.data() + piece.input * dimensions;
    for (size_t i = 0; i < dimensions; i++) target[i] += vector[i] * weight;
  }

  // Normalizes a vector to unit length; leaves scores alone.
  void finish(size_t input, bool scores) {
    float *vector = vectors.data() + input * dimensions;
    double sum = 0;
    for (size_t i = 0; i < dimensions; i++) sum += static_cast<double>(vector[i]) * vector[i];
    if (!std::isfinite(sum)) throw CodedError("generation_failed", core->model->damaged());
    if (scores) return;
    const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
    for (size_t i = 0; i < dimensions; i++) vector[i] = static_cast<float>(vector[i] * scale);
  }

  // How many rows the next pass may take: fewer while another context waits. A power of two, so
  // that rounding differs as rarely as possible.
  int32_t shared_rows() const {
    const auto most = static_cast<int32_t>(llama_n_ubatch(core->context));
    if (core->rows_per_ms == 0 || !core->contended()) return most;
    int32_t rows = 64;
    while (rows * 2 <= most && rows * 2 <= core->rows_per_ms * shared_pass_ms) rows *= 2;
    return std::min(rows, most);
  }

  // Runs one pass: as many whole inputs as fit, or a part of one that is too long. False when all
  // inputs are read.
  bool read_on() {
    const int32_t wanted = shared_rows();
    const int32_t most = is_causal(core->model->model) ? wanted : static_cast<int32_t>(llama_n_ubatch(core->context));
    const size_t most_inputs = llama_n_seq_max(core->context);
    std::vector<Piece> pieces;
    if (from > 0 || lengths[input] > most) {
      pieces.push_back({input, from, std::min(most, lengths[input] - from)});
    } else {
      for (int32_t rows = 0; input + pieces.size() < lengths.size() && pieces.size() < most_inputs;) {
        const int32_t length = lengths[input + pieces.size()];
        if (!pieces.empty() && rows + length > wanted) break;
        pieces.push_back({input + pieces.size(), 0, length});
        rows += length;
      }
    }
    pass(pieces);
    const Piece &last = pieces.back();
    const bool ends = last.from + last.count == lengths[last.input];
    input = ends ? last.input + 1 : last.input;
    from = ends ? 0 : last.from + last.count;
    return input < lengths.size();
  }

  void begin() {
    dimensions = output_size(core->model->model, llama_pooling_type(core->context));
    vectors.assign(lengths.size() * dimensions, 0);
    check_tokens(core->model->vocab, tokens);
    size_t offset = 0;
    for (size_t i = 0; i < lengths.size(); i++) {
      if (lengths[i] < 1 || static_cast<size_t>(lengths[i]) > tokens.size() - offset) {
        throw CodedError("invalid_argument", "Expected one length per input, and their sum to be the number of tokens.");
      }
      if (lengths[i] > context_size) throw CodedError("context_length_exceeded", "Input " + std::to_string(i) + " is longer than the embedding context.");
      offsets.push_back(offset);
      offset += static_cast<size_t>(lengths[i]);
    }
  }

  // Computes one slice. False when everything is done.
  bool compute() {
    if (offsets.empty()) begin();
    const auto threads = llama_n_threads(core->context);
    settle_team(threads);
    if (!lengths.empty() && read_on()) return true;
    for (size_t i = 0; i < lengths.size(); i++) finish(i, llama_pooling_type(core->context) == LLAMA_POOLING_TYPE_RANK);
    return false;
  }
};

} // namespace

Napi::Value Model::has_rank_head(const Napi::CallbackInfo &info) {
  return Napi::Boolean::New(info.Env(), recua::has_rank_head(open(info.Env())->path));
}

Napi::Promise Embedder::create(Napi::Env env, const std::shared_ptr<ContextCore> &core, const Options &options) {
  auto params = llama_context_default_params();
  std::string pooling = "unspecified";
  uint32_t context_size = 0;
  options.text("pooling", pooling);
  options.number("contextSize", context_size);
  options.number("sequences", params.n_seq_max);
  options.number("threads", params.n_threads);
  std::string turn_file, matmul = "ggml";
  options.text("matmul", matmul);
  options.text("turnFile", turn_file);
  return core->run(
      env, "embeddings_unsupported",
      [=]() mutable {
        // If the model is causal, a long input can be read in parts; otherwise one pass must hold
        // all of it.
        const uint32_t rows = pass_rows(core->model->vocab);
        params.n_ctx = std::max(context_size, rows);
        params.n_batch = params.n_ubatch = is_causal(core->model->model) ? rows : params.n_ctx;
        params.cb_eval = skip_output_matrix;
        params.n_seq_max = std::min<uint32_t>(params.n_seq_max, llama_max_parallel_sequences());
        params.n_threads_batch = params.n_threads;
        params.embeddings = true;
        params.pooling_type = pooling_from(pooling);
        params.kv_unified = true; // one pool of cells for inputs of any length
        if (params.pooling_type == LLAMA_POOLING_TYPE_RANK && !has_rank_head(core->model->path)) {
          throw CodedError("rerank_unsupported", "Expected a reranker, but this model has no classification head (no tensor cls.weight or cls.output.weight).");
        }
        core->open(params, false, matmul == "auto");
        core->compute_in_turn(turn_file, params.n_threads);
        const auto type = llama_pooling_type(core->context);
        if (type == LLAMA_POOLING_TYPE_NONE) {
          throw CodedError("embeddings_unsupported", "Expected a model with pooled vectors, got one whose pooling is none.");
        }
      },
      [=](Napi::Env env) -> Napi::Value {
        if (core->closed) throw CodedError("closed", "The embedder was closed while it was made.");
        auto embedder = AddonData::wrap(env, env.GetInstanceData<AddonData>()->embedder, core);
        Embedder::Unwrap(embedder)->context_size = static_cast<int32_t>(context_size);
        return embedder;
      });
}

Napi::Function Embedder::define(Napi::Env env) {
  return DefineClass(env, "Embedder",
                     {InstanceMethod("embed", &Embedder::embed), InstanceMethod("polls", &Embedder::polls),
                      InstanceMethod("close", &Embedder::close)});
}

Embedder::Embedder(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Embedder>(info), core(*info[0].As<Napi::External<std::shared_ptr<ContextCore>>>().Data()) {}

Napi::Value Embedder::embed(const Napi::CallbackInfo &info) {
  auto work = std::make_shared<Work>(Work{core, copy_array<int32_t>(info[0]), copy_array<int32_t>(info[1]), context_size});
  core->interrupted = false;
  return core->run_slices(
      info.Env(), "generation_failed", [work] { return work->compute(); },
      [work](Napi::Env env) { return make_array(env, work->vectors); });
}

Napi::Value Embedder::polls(const Napi::CallbackInfo &info) {
  return Napi::Number::New(info.Env(), static_cast<double>(core->polls.load(std::memory_order_relaxed)));
}

Napi::Value Embedder::close(const Napi::CallbackInfo &info) { return core->close(info.Env()); }

} // namespace recua
