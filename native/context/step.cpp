// The hot path: a batch in, tokens out. Each row that wants a token gets one, or more if guesses
// behind it were right. Runs on the compute thread.
#include "addon.h"
#include "machine/team.h"

#include <algorithm>
#include <iterator>

namespace recua {

namespace {

// The rows that one decode evaluates.
struct Rows {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<int32_t> sequences;
  std::vector<int8_t> outputs;

  void clear() {
    tokens.clear();
    positions.clear();
    sequences.clear();
    outputs.clear();
  }
};

// A failure of one row's sampler.
struct Failure {
  int32_t row;
  const char *code;
  std::string message;
};

// The input of one step, copied: JS may reuse its arrays as soon as steps() returns.
struct Step {
  Rows rows;
  std::vector<std::shared_ptr<SamplerState>> samplers; // one per wanted row; null: do not sample
  std::vector<int32_t> rooms;                          // per wanted row: most tokens it may get; empty: one, without guesses
  std::vector<int32_t> known;                          // per wanted row of a prompt: the next token; -1: sample; empty: sample all

  size_t guesses = 0; // per row
  Rows extended;      // the rows with their guesses

  // By wanted row: the tokens it got; more than one if guesses were right.
  std::vector<std::vector<int32_t>> sampled;
  std::vector<Failure> failures;

  // True if every row wants a token, so that the same kind of step can follow.
  bool decodes() const { return rows.tokens.size() == samplers.size(); }
  Rows &evaluated() { return guesses > 0 ? extended : rows; }
};

std::string decode_failure(int32_t code) {
  switch (code) {
    case 1: return "no free cells in the KV memory for this batch";
    case -1: return "invalid batch";
    default: return "decode failed with code " + std::to_string(code);
  }
}

void decode(ContextCore &core, Rows &rows, bool all_asking) {
  const size_t count = rows.tokens.size();
  std::vector<int32_t> sequence_counts(count, 1);
  std::vector<llama_seq_id *> sequence_ids(count);
  for (size_t i = 0; i < count; i++) sequence_ids[i] = &rows.sequences[i];
  llama_batch batch{};
  batch.n_tokens = static_cast<int32_t>(count);
  batch.token = rows.tokens.data();
  batch.pos = rows.positions.data();
  batch.n_seq_id = sequence_counts.data();
  batch.seq_id = sequence_ids.data();
  batch.logits = rows.outputs.data();
  // In place, rows stay in llama.cpp's order; only when copying does it restore the caller's. So
  // the rows' sequences must be in order.
  core.logits.expect(all_asking && std::is_sorted(rows.sequences.begin(), rows.sequences.end()) ? count : 0);
  const int32_t code = core.decode(batch);
  if (code == 2) throw CodedError("cancelled", "The step was aborted.");
  if (code != 0) throw CodedError("generation_failed", "Step of " + std::to_string(count) + " tokens: " + decode_failure(code) + ".");
  llama_synchronize(core.context);
}

// Adds guesses behind the rows if that pays. Every row gets the same number, because llama.cpp
// computes rows of several sequences in one pass only if each has equally many.
void draft(const ContextCore &core, Step &step) {
  step.guesses = 0;
  if (!core.draft_costs || step.rooms.empty() || !step.known.empty() || !step.decodes()) return;
  const size_t sequences = step.samplers.size();
  // The limits of one pass and of the output memory.
  const size_t room = std::min<size_t>({llama_n_batch(core.context), llama_n_ubatch(core.context), core.most_outputs}) / sequences;
  size_t most = room > 0 ? room - 1 : 0;
  std::vector<const Drafter *> drafters;
  for (size_t i = 0; i < sequences && most > 0; i++) {
    const Drafter *drafter = step.samplers[i] ? step.samplers[i]->drafter() : nullptr;
    if (drafter == nullptr || !drafter->has_guess()) return;
    drafters.push_back(drafter);
    most = std::min(most, static_cast<size_t>(std::max(step.rooms[i], 1) - 1));
  }
  step.guesses = most == 0 ? 0 : core.draft_costs->best(drafters, most);
  if (step.guesses == 0) return;
  step.extended.clear();
  for (size_t i = 0; i < sequences; i++) {
    const size_t at = step.extended.tokens.size();
    step.extended.tokens.resize(at + 1 + step.guesses);
    step.extended.tokens[at] = step.rows.tokens[i];
    drafters[i]->guess(step.guesses, &step.extended.tokens[at + 1]);
    for (size_t j = 0; j <= step.guesses; j++) {
      step.extended.positions.push_back(step.rows.positions[i] + static_cast<llama_pos>(j));
      step.extended.sequences.push_back(step.rows.sequences[i]);
      step.extended.outputs.push_back(1);
    }
  }
}

// The result for a prompt row whose next token is known: its probability is recorded, nothing is
// sampled.
constexpr int32_t scored = -4;

// One after the other, because a sampler records in the order of its rows.
std::vector<Outcome> score(const Step &step, const std::vector<float *> &row_logits, int32_t threads) {
  std::vector<Outcome> outcomes(step.samplers.size());
  for (size_t i = 0; i < step.known.size(); i++) {
    if (step.known[i] < 0 || !step.samplers[i]) continue;
    outcomes[i] = Outcome::of([&] { step.samplers[i]->score(row_logits[i], step.known[i], threads); });
  }
  return outcomes;
}

// The number of logits from which it pays to call other threads, and to wake them.
constexpr int64_t worth_sharing = 100000;
constexpr int64_t worth_waking = 1000000;

// Sequences are independent. A row behind another is sampled only if the other row gave the token
// that was guessed. If there are fewer sequences than threads, threads share each row (choice.h);
// the draw is the same. The threads are those that llama.cpp has just computed with: OpenMP keeps
// them for the calling thread. Where GPUs compute, they sleep.
void sample(ContextCore &core, Step &step) {
  llama_context *context = core.context;
  const Rows &evaluated = step.evaluated();
  std::vector<int32_t> rows;
  for (size_t row = 0; row < evaluated.tokens.size(); row++) {
    if (evaluated.outputs[row] != 0) rows.push_back(static_cast<int32_t>(row));
  }
  const size_t each = step.guesses + 1;
  const auto count = static_cast<int32_t>(step.samplers.size());
  const llama_vocab *vocab = llama_model_get_vocab(llama_get_model(context));
  const int64_t logits = static_cast<int64_t>(rows.size()) * llama_vocab_n_tokens(vocab);
  // The whole team or one thread: OpenMP ends the threads that a smaller team leaves out, and
  // creates new ones for the next decode.
  const int32_t team = core.on_devices ? (logits < worth_waking ? 1 : core.threads) : logits < worth_sharing ? 1 : llama_n_threads(context);
  const int32_t threads = count < team ? 1 : team;
  if (std::any_of(step.samplers.begin(), step.samplers.end(), [](const auto &sampler) { return sampler && sampler->by_chain(); })) core.logits.copy();
  // Requested on this thread: llama.cpp's first call after a decode reorders the rows.
  std::vector<float *> row_logits(rows.size());
  for (size_t i = 0; i < rows.size(); i++) row_logits[i] = core.logits.row(context, rows[i]);
  std::vector<Outcome> outcomes = score(step, row_logits, team);
  step.sampled.resize(step.samplers.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int32_t i = 0; i < count; i++) {
    const auto &sampler = step.samplers[static_cast<size_t>(i)];
    std::vector<int32_t> &given = step.sampled[static_cast<size_t>(i)];
    given.clear();
    if (!sampler) {
      given.push_back(-1);
      continue;
    }
    if (!step.known.empty() && step.known[static_cast<size_t>(i)] >= 0) {
      given.push_back(scored);
      continue;
    }
    outcomes[static_cast<size_t>(i)] = Outcome::of([&] {
      for (size_t at = static_cast<size_t>(i) * each;; at++) {
        const llama_token token = sampler->sample(context, rows[at], row_logits[at], threads < team ? team : 1);
        given.push_back(token);
        if (given.size() == each || llama_vocab_is_eog(vocab, token) || token != evaluated.tokens[static_cast<size_t>(rows[at]) + 1]) return;
      }
    });
  }
  step.failures.clear();
  for (int32_t i = 0; i < count; i++) {
    const Outcome &outcome = outcomes[static_cast<size_t>(i)];
    if (outcome.code == nullptr) continue;
    if (step.sampled[static_cast<size_t>(i)] == std::vector<int32_t>{scored}) step.sampled[static_cast<size_t>(i)].clear();
    step.sampled[static_cast<size_t>(i)].push_back(-2);
    step.failures.push_back({i, outcome.code, outcome.message});
  }
}

// Removes tokens evaluated behind a wrong guess from the KV.
void remove_wrong(llama_context *context, const Step &step) {
  if (step.guesses == 0) return;
  for (size_t i = 0; i < step.sampled.size(); i++) {
    const size_t right = step.sampled[i].size(); // the row, and the right guesses less one
    if (right > step.guesses) continue;
    const llama_pos from = step.rows.positions[i] + static_cast<llama_pos>(right);
    if (llama_memory_seq_rm(llama_get_memory(context), step.rows.sequences[i], from, -1)) continue;
    throw CodedError("generation_failed", "This model's memory cannot remove tokens that were guessed wrong.");
  }
}

// Makes the sampled tokens the next rows. False if the next step needs JS: a row failed, a token
// ends a generation, or a row has no room left.
bool go_on(const llama_vocab *vocab, Step &step) {
  if (!step.failures.empty() || !step.decodes()) return false;
  for (const std::vector<int32_t> &given : step.sampled) {
    if (given.back() < 0 || llama_vocab_is_eog(vocab, given.back())) return false;
  }
  bool room = true;
  for (size_t i = 0; i < step.rooms.size(); i++) room = (step.rooms[i] -= static_cast<int32_t>(step.sampled[i].size())) > 0 && room;
  for (size_t i = 0; i < step.sampled.size(); i++) {
    step.rows.tokens[i] = step.sampled[i].back();
    step.rows.positions[i] += static_cast<llama_pos>(step.sampled[i].size());
  }
  return room;
}

// The report of one step to JS.
struct Report {
  std::vector<int32_t> sampled; // of all wanted rows, in order
  std::vector<int32_t> counts;  // per wanted row; empty: one each
  std::vector<int32_t> draws;   // per wanted row: draws of its sampler so far; empty: none
  size_t guesses = 0;
  std::vector<Failure> failures;
  double decode_ms = 0;
  double sample_ms = 0;

  Napi::Object to_object(Napi::Env env) const {
    auto result = Napi::Object::New(env);
    result.Set("tokens", make_array(env, sampled));
    if (!counts.empty()) {
      result.Set("counts", make_array(env, counts));
      result.Set("guesses", static_cast<double>(guesses));
    }
    if (!draws.empty()) result.Set("draws", make_array(env, draws));
    result.Set("decodeMs", decode_ms);
    result.Set("sampleMs", sample_ms);
    if (!failures.empty()) {
      auto list = Napi::Array::New(env);
      for (const auto &[row, code, message] : failures) {
        auto failure = Napi::Object::New(env);
        failure.Set("row", row);
        failure.Set("code", code);
        failure.Set("message", message);
        list.Set(list.Length(), failure);
      }
      result.Set("failures", list);
    }
    return result;
  }
};

Report compute_step(ContextCore &core, Step &step) {
  const int64_t start = llama_time_us();
  draft(core, step);
  const size_t rows = step.evaluated().tokens.size();
  const llama_model *model = llama_get_model(core.context);
  // Beside GPUs, the processor only looks up embeddings: more threads would spin in vain.
  const int32_t threads = core.on_devices ? 1 : team_for(model, rows, core.threads);
  llama_set_n_threads(core.context, threads, core.on_devices ? 1 : team_for(model, rows, core.threads_batch));
  settle_team(threads);
  decode(core, step.evaluated(), step.decodes());
  const int64_t decoded = llama_time_us();
  sample(core, step);
  remove_wrong(core.context, step);
  const auto ms = [](int64_t us) { return static_cast<double>(us) / 1000; };
  if (core.draft_costs && step.decodes()) core.draft_costs->measured(step.samplers.size(), step.guesses, ms(decoded - start));
  Report report{{}, {}, {}, step.guesses, {}, ms(decoded - start), ms(llama_time_us() - decoded)};
  report.failures = step.failures;
  for (const std::vector<int32_t> &given : step.sampled) {
    report.sampled.insert(report.sampled.end(), given.begin(), given.end());
    if (step.guesses > 0) report.counts.push_back(static_cast<int32_t>(given.size()));
  }
  for (const auto &sampler : step.samplers) report.draws.push_back(sampler ? sampler->draws() : 0);
  if (std::all_of(report.draws.begin(), report.draws.end(), [](int32_t draws) { return draws == 0; })) report.draws.clear();
  return report;
}

// A sampler of the context's own model. Throws CodedError.
std::shared_ptr<SamplerState> read_sampler(const Napi::Value &value, const ContextCore &core) {
  const auto &type = value.Env().GetInstanceData<AddonData>()->sampler;
  if (!value.As<Napi::Object>().InstanceOf(type.Value())) throw CodedError("invalid_argument", "Expected a sampler or null for each wanted row.");
  auto sampler = Sampler::Unwrap(value.As<Napi::Object>())->state;
  if (!sampler->closed && sampler->model != core.model) throw CodedError("invalid_argument", "Expected samplers of the context's model.");
  return sampler;
}

// Copies JS's arrays into a Step. Throws CodedError. llama_decode() checks tokens, positions and
// sequences.
std::shared_ptr<Step> read_step(const Napi::Object &input, const ContextCore &core) {
  if (core.closed || !core.model) throw CodedError("closed", "The context is closed.");
  const size_t rows = input.Get("rows").ToNumber().Uint32Value();
  auto step = std::make_shared<Step>();
  step->rows.tokens = copy_array<int32_t>(input.Get("tokens"), rows);
  step->rows.positions = copy_array<int32_t>(input.Get("positions"), rows);
  step->rows.sequences = copy_array<int32_t>(input.Get("sequences"), rows);
  const auto outputs = copy_array<uint8_t>(input.Get("outputs"), rows);
  step->rows.outputs.assign(outputs.begin(), outputs.end());
  for (const size_t count : {step->rows.tokens.size(), step->rows.positions.size(), step->rows.sequences.size(), outputs.size()}) {
    if (count != rows) throw CodedError("invalid_argument", "A step takes a token, a position, a sequence and an output per row.");
  }
  const auto samplers = input.Get("samplers").As<Napi::Array>();
  const uint32_t wanted = samplers.Length();
  if (rows == 0 || static_cast<size_t>(std::count(outputs.begin(), outputs.end(), 1)) != wanted) {
    throw CodedError("invalid_argument", "A step takes at least one row, and one sampler entry per wanted row.");
  }
  if (rows > llama_n_batch(core.context) || wanted > core.most_outputs) {
    throw CodedError("invalid_argument", "A step of this context takes at most " + std::to_string(llama_n_batch(core.context)) + " rows, " +
                                             std::to_string(core.most_outputs) + " of them wanted.");
  }
  step->samplers.reserve(wanted);
  for (uint32_t i = 0; i < wanted; i++) {
    const Napi::Value value = samplers.Get(i);
    step->samplers.push_back(value.IsObject() ? read_sampler(value, core) : nullptr);
  }
  const Napi::Value rooms = input.Get("rooms");
  if (rooms.IsTypedArray()) step->rooms = copy_array<int32_t>(rooms, wanted);
  if (!step->rooms.empty() && step->rooms.size() != wanted) throw CodedError("invalid_argument", "A step takes one room per wanted row.");
  const Napi::Value known = input.Get("known");
  if (known.IsTypedArray()) step->known = copy_array<int32_t>(known, wanted);
  if (!step->known.empty() && step->known.size() != wanted) throw CodedError("invalid_argument", "A step takes one known token per wanted row.");
  std::vector<llama_token> given;
  std::copy_if(step->known.begin(), step->known.end(), std::back_inserter(given), [](int32_t token) { return token >= 0; });
  check_tokens(core.model->vocab, given);
  return step;
}

Napi::Value to_array(Napi::Env env, const std::vector<Report> &reports) {
  auto list = Napi::Array::New(env, reports.size());
  for (size_t i = 0; i < reports.size(); i++) list.Set(static_cast<uint32_t>(i), reports[i].to_object(env));
  return list;
}

// JS hears of consecutive steps once they have computed for this long: one frame of a client's
// screen. Each report wakes three processes on its way to the client, with caches that the model's
// weights have swept, on cores that compute (docs/design/threads.md).
constexpr int64_t told_after_us = 16000;
// And no later than this, even if they wait for other processes in between.
constexpr int64_t told_within_us = 48000;

// Consecutive steps, and the reports that JS has not received yet. Compute thread.
struct Run {
  std::shared_ptr<ContextCore> core;
  std::shared_ptr<Step> step;
  std::shared_ptr<Napi::FunctionReference> each;
  uint32_t left; // steps still to compute
  std::vector<Report> untold = {};
  int64_t told_us = 0;     // time of the last report to JS
  int64_t computed_us = 0; // since then

  void tell() {
    told_us = llama_time_us();
    computed_us = 0;
    if (untold.empty()) return;
    core->tell([each = each, reports = std::exchange(untold, {})](Napi::Env env) {
      try {
        each->Call({to_array(env, reports)});
      } catch (const Napi::Error &error) {
        napi_fatal_exception(env, error.Value()); // as an exception in an event listener
      }
    });
  }

  // Computes one step. True if another should follow.
  bool compute() {
    const llama_vocab *vocab = llama_model_get_vocab(llama_get_model(core->context));
    const int64_t start = llama_time_us();
    if (told_us == 0) told_us = start;
    try {
      untold.push_back(compute_step(*core, *step));
      if (--left == 0 || core->paused || !go_on(vocab, *step)) return false;
      const int64_t now = llama_time_us();
      computed_us += now - start;
      if (computed_us >= told_after_us || now - told_us >= told_within_us) tell();
      return true;
    } catch (...) {
      tell(); // the samplers have already accepted these tokens
      throw;
    }
  }
};

} // namespace

Napi::Value Context::steps(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const uint32_t most = info[1].ToNumber().Uint32Value();
  auto each = std::make_shared<Napi::FunctionReference>(Napi::Persistent(info[2].As<Napi::Function>()));
  core->interrupted = core->paused = false; // earlier abort() and pause() calls were meant for earlier steps
  try {
    auto run = std::make_shared<Run>(Run{core, read_step(info[0].As<Napi::Object>(), *core), each, most});
    return core->run_slices(
        env, "generation_failed", [run] { return run->compute(); }, [run](Napi::Env env) { return to_array(env, run->untold); });
  } catch (const CodedError &error) {
    return rejected(env, error.code, error.what());
  }
}

} // namespace recua
