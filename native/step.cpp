// The hot path: a batch in, one token per asking row out. Runs on the context's own thread.
#include "addon.h"

#include <algorithm>

namespace recua {

namespace {

// One step's input, owned: JS may reuse its arrays as soon as step() returns.
struct Step {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<int32_t> sequences;
  std::vector<int8_t> outputs;
  std::vector<std::shared_ptr<SamplerState>> samplers; // one per wanted row, null: no sample

  std::vector<int32_t> sampled;
  std::vector<std::pair<int32_t, std::string>> failures;
};

std::string decode_failure(int32_t code) {
  switch (code) {
    case 1: return "no free cells in the KV memory for this batch";
    case -1: return "invalid batch";
    default: return "decode failed with code " + std::to_string(code);
  }
}

void decode(llama_context *context, Step &step) {
  const size_t rows = step.tokens.size();
  std::vector<int32_t> sequence_counts(rows, 1);
  std::vector<llama_seq_id *> sequence_ids(rows);
  for (size_t i = 0; i < rows; i++) sequence_ids[i] = &step.sequences[i];
  llama_batch batch{};
  batch.n_tokens = static_cast<int32_t>(rows);
  batch.token = step.tokens.data();
  batch.pos = step.positions.data();
  batch.n_seq_id = sequence_counts.data();
  batch.seq_id = sequence_ids.data();
  batch.logits = step.outputs.data();
  const int32_t code = llama_decode(context, batch);
  if (code == 2) throw CodedError("cancelled", "The step was aborted.");
  if (code != 0) throw CodedError("generation_failed", "Step of " + std::to_string(rows) + " tokens: " + decode_failure(code) + ".");
  llama_synchronize(context);
}

// Logits that are worth waking other threads for.
constexpr int64_t worth_sharing = 100000;

// Rows are independent; where there are fewer than threads, threads share each (choice.h), which draws the same. The threads are those
// that llama.cpp has just computed with: OpenMP keeps them for the calling thread.
void sample(llama_context *context, Step &step) {
  std::vector<int32_t> rows;
  for (size_t row = 0; row < step.tokens.size(); row++) {
    if (step.outputs[row] != 0) rows.push_back(static_cast<int32_t>(row));
  }
  const auto count = static_cast<int32_t>(rows.size());
  const int64_t logits = static_cast<int64_t>(count) * llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  // All of them, or one: OpenMP ends those that a smaller team leaves out, and makes new ones for the next decode.
  const int32_t team = logits < worth_sharing ? 1 : llama_n_threads(context);
  const int32_t threads = count < team ? 1 : team;
  // Asked for here: the first call after a decode puts the rows in order.
  std::vector<float *> row_logits(rows.size());
  for (int32_t i = 0; i < count; i++) row_logits[i] = llama_get_logits_ith(context, rows[i]);
  std::vector<Outcome> outcomes(rows.size());
  step.sampled.assign(rows.size(), -1);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int32_t i = 0; i < count; i++) {
    const auto &sampler = step.samplers[static_cast<size_t>(i)];
    if (sampler) outcomes[i] = Outcome::of([&] { step.sampled[i] = sampler->sample(context, rows[i], row_logits[i], threads < team ? team : 1); });
  }
  for (int32_t i = 0; i < count; i++) {
    if (outcomes[i].code == nullptr) continue;
    step.sampled[i] = -2;
    step.failures.emplace_back(i, outcomes[i].message);
  }
}

// Whether the tokens just sampled may be evaluated at once, without asking: none failed, none ends a generation.
bool goes_on(const llama_vocab *vocab, const Step &step) {
  if (!step.failures.empty() || step.sampled.size() != step.tokens.size()) return false;
  return std::none_of(step.sampled.begin(), step.sampled.end(),
                      [vocab](int32_t token) { return token < 0 || llama_vocab_is_eog(vocab, token); });
}

// What JS is told of one step.
struct Report {
  std::vector<int32_t> sampled;
  std::vector<std::pair<int32_t, std::string>> failures;
  double decode_ms;
  double sample_ms;

  Napi::Object to_object(Napi::Env env) const {
    auto result = Napi::Object::New(env);
    result.Set("tokens", make_array(env, sampled));
    result.Set("decodeMs", decode_ms);
    result.Set("sampleMs", sample_ms);
    if (!failures.empty()) {
      auto list = Napi::Array::New(env);
      for (const auto &[row, message] : failures) {
        auto failure = Napi::Object::New(env);
        failure.Set("row", row);
        failure.Set("message", message);
        list.Set(list.Length(), failure);
      }
      result.Set("failures", list);
    }
    return result;
  }
};

Report compute(llama_context *context, Step &step) {
  const int64_t start = llama_time_us();
  settle_team(llama_n_threads(context));
  decode(context, step);
  const int64_t decoded = llama_time_us();
  sample(context, step);
  const auto ms = [](int64_t us) { return static_cast<double>(us) / 1000; };
  return {step.sampled, step.failures, ms(decoded - start), ms(llama_time_us() - decoded)};
}

} // namespace

Napi::Value Context::step(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const auto input = info[0].As<Napi::Object>();
  const size_t rows = input.Get("rows").ToNumber().Uint32Value();
  auto step = std::make_shared<Step>();
  step->tokens = copy_array<int32_t>(input.Get("tokens"), rows);
  step->positions = copy_array<int32_t>(input.Get("positions"), rows);
  step->sequences = copy_array<int32_t>(input.Get("sequences"), rows);
  const auto outputs = copy_array<uint8_t>(input.Get("outputs"), rows);
  step->outputs.assign(outputs.begin(), outputs.end());
  const auto samplers = input.Get("samplers").As<Napi::Array>();
  const uint32_t wanted = samplers.Length();
  if (rows == 0 || static_cast<size_t>(std::count(outputs.begin(), outputs.end(), 1)) != wanted) {
    return rejected(env, "invalid_argument", "step() takes at least one row, and one sampler entry per wanted row.");
  }
  step->samplers.reserve(wanted);
  for (uint32_t i = 0; i < wanted; i++) {
    const Napi::Value value = samplers.Get(i);
    step->samplers.push_back(value.IsObject() ? Sampler::Unwrap(value.As<Napi::Object>())->state : nullptr);
  }
  const uint32_t most = std::max(1u, info[1].IsUndefined() ? 1u : info[1].ToNumber().Uint32Value());
  auto each = std::make_shared<Napi::FunctionReference>();
  if (most > 1) *each = Napi::Persistent(info[2].As<Napi::Function>());
  auto last = std::make_shared<Report>();
  core->interrupted = core->paused = false; // an abort() or pause() before this step was for another
  return core->run(
      env, "generation_failed",
      [core = core, step, most, each, last] {
        const llama_vocab *vocab = llama_model_get_vocab(llama_get_model(core->context));
        for (uint32_t done = 1;; done++) {
          *last = compute(core->context, *step);
          if (done >= most || core->paused || !goes_on(vocab, *step)) return;
          core->tell([each, report = *last](Napi::Env env) {
            try {
              each->Call({report.to_object(env)});
            } catch (const Napi::Error &error) {
              napi_fatal_exception(env, error.Value()); // as an exception in an event listener
            }
          });
          step->tokens.swap(step->sampled);
          for (llama_pos &position : step->positions) position++;
        }
      },
      [last, each](Napi::Env env) { return last->to_object(env); });
}

} // namespace recua
