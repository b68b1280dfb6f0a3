// One request's sampler. The common options (penalties, biases, top-k, top-p, min-p, temperature,
// grammars) run in choice.cpp and constraint.cpp; llama.cpp's other samplers run in its own chain.
#include "addon.h"

#include "sampling/sampler_options.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace recua {

namespace {

// Whether the options need samplers that only llama.cpp's chain has.
bool needs_chain(const common_params_sampling &p) {
  if (p.mirostat != 0 || (p.dry_multiplier != 0 && p.dry_penalty_last_n != 0)) return true;
  if (p.dynatemp_range > 0) return true;
  if (p.temp <= 0) return false; // samplers that only trim or reshape the tail cannot change the best token
  return p.xtc_probability > 0 || p.typ_p < 1 || p.top_n_sigma > 0 || p.top_k > ChoiceOptions::largest_top_k;
}

// The error when no token was found. If the logits are not numbers, neither are the weights, and
// the file is at fault; otherwise the request leaves no token.
CodedError no_token(const ModelState &model, const Constraint *constraint, const float *logits, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) return CodedError("generation_failed", model.damaged());
  }
  const std::string said = "No token is allowed here: ";
  if (constraint == nullptr || !constraint->active()) return CodedError("no_token_left", said + "logit_bias, ignore_eos or the model file's list of suppressed tokens excludes them all.");
  if (constraint->may_end()) return CodedError("no_token_left", said + "the answer's grammar is at its end, but ignore_eos or logit_bias excludes the end tokens.");
  return CodedError("no_token_left", said + "logit_bias, ignore_eos or the sampling options exclude every token that the answer's grammar allows, or the grammar names an end token, which comes only at its end.");
}

// Scratch row for the logits that a grammar leaves of another row.
std::vector<float> &own_row(size_t count) {
  static thread_local std::vector<float> row;
  if (row.size() < count) row.resize(count);
  return row;
}

// The token that a chain chose; the likeliest one if that was excluded. The sampler infill ends a
// text with an end token that was no candidate.
llama_token not_invented(llama_token token, const float *logits, size_t count) {
  return logits[token] > -INFINITY ? token : static_cast<llama_token>(largest_of(logits, count));
}

// What one token may cost on the compute thread beyond the passes over its row: some milliseconds.
// Enough to walk the whole vocabulary if the grammar has been there before.
constexpr uint64_t step_work = 500000;
// The same on a pool thread: some tenths of a second, after which the request fails. The worst
// usable grammars take a fifth of it.
constexpr uint64_t apart_work = 25000000;

} // namespace

void Penalties::accept(llama_token token) {
  if (!active()) return;
  if (recent.size() < static_cast<size_t>(last_n)) recent.push_back(token);
  else {
    const auto oldest = counts.find(recent[next]);
    if (--oldest->second == 0) counts.erase(oldest);
    recent[next] = token;
  }
  next = (next + 1) % static_cast<size_t>(last_n);
  counts[token]++;
}

void Penalties::apply(float *logits) const {
  for (const auto &[token, count] : counts) {
    float &logit = logits[token];
    logit = logit <= 0 ? logit * repeat : logit / repeat;
    logit -= static_cast<float>(count) * frequency + presence;
  }
}

llama_token SamplerState::sample(llama_context *context, int32_t row, float *logits, int32_t threads) {
  if (closed || !(parts.chain || parts.choice)) throw CodedError("closed", "The sampler is closed.");
  if (logits == nullptr) throw CodedError("generation_failed", "The model gave no logits for this row.");
  if (parts.choice) draws_before = parts.choice->draws();
  if (parts.logprobs && !parts.logprobs->after) parts.logprobs->look(logits, threads);
  // Thinking is not part of the answer: with a grammar for the whole answer, no end token may come
  // before the answer has begun.
  if (parts.before_end > 0 || (parts.constraint && parts.constraint->rests())) hold_ends(logits);
  llama_token token = force(logits);
  if (token == LLAMA_TOKEN_NULL) token = by_chain() ? sample_by_chain(context, row, logits) : sample_own(logits, threads);
  if (token != undecided) came(token);
  return token;
}

// Records the token that comes next.
void SamplerState::came(llama_token token) {
  if (parts.drafter) parts.drafter->accept(token);
  if (parts.logprobs) parts.logprobs->note(token);
  if (parts.before_end > 0) parts.before_end--;
}

// If thinking has to end, the next token of its end; otherwise none.
llama_token SamplerState::force(const float *logits) {
  const llama_token token = parts.thoughts ? parts.thoughts->forced() : LLAMA_TOKEN_NULL;
  if (token < 0) return LLAMA_TOKEN_NULL;
  if (parts.logprobs && parts.logprobs->after) {
    llama_token_data only{token, 0, 1};
    parts.logprobs->look_after({&only, 1, 0, true});
  }
  const auto &constraint = parts.constraint;
  if (constraint && constraint->active()) {
    Effort work(step_work);
    try {
      if (!constraint->allows(token, work)) {
        parts.thoughts->give_up();
        return LLAMA_TOKEN_NULL;
      }
    } catch (const TooMuchWork &) {
      held.assign(logits, logits + llama_vocab_n_tokens(model->vocab));
      add_biases(held.data());
      if (parts.penalties.active()) parts.penalties.apply(held.data());
      held_winner = token;
      return undecided;
    }
  }
  return take(token, logits, 0);
}

void SamplerState::score(const float *logits, llama_token token, int32_t threads) {
  if (closed || !parts.logprobs) throw CodedError("closed", "The sampler is closed.");
  if (logits == nullptr) throw CodedError("generation_failed", "The model gave no logits for this row.");
  if (!parts.logprobs->score(logits, token, threads)) throw CodedError("generation_failed", model->damaged());
}

void SamplerState::hold_ends(float *logits) {
  end_logits.clear();
  for (const llama_token end : parts.ends) end_logits.push_back(std::exchange(logits[end], -INFINITY));
}

void SamplerState::add_biases(float *logits) const {
  for (const auto &[token, bias] : parts.biases) logits[token] += bias;
}

// If a grammar leaves nothing else, the answer ends early. False if the end tokens were not held
// back.
bool SamplerState::give_ends_back(float *logits) {
  if (parts.before_end == 0) return false;
  for (size_t i = 0; i < parts.ends.size(); i++) logits[parts.ends[i]] = end_logits[i];
  for (const auto &[token, bias] : parts.biases) {
    if (std::find(parts.ends.begin(), parts.ends.end(), token) != parts.ends.end()) logits[token] += bias;
  }
  return true;
}

llama_token SamplerState::sample_own(float *logits, int32_t threads) {
  const auto count = static_cast<size_t>(llama_vocab_n_tokens(model->vocab));
  add_biases(logits);
  if (parts.penalties.active()) parts.penalties.apply(logits);

  int64_t found;
  try {
    found = find(logits, count, threads);
    if (found < 0 && parts.constraint && give_ends_back(logits)) found = find(logits, count, threads);
  } catch (const TooMuchWork &) {
    held.assign(logits, logits + count);
    return undecided;
  }
  return take(found, logits, count);
}

// Throws TooMuchWork if the grammar needs more work than other sequences should wait for.
int64_t SamplerState::find(float *logits, size_t count, int32_t threads) {
  const int64_t found = pick(logits, count, threads);
  const auto &constraint = parts.constraint;
  if (found < 0 || !constraint || !constraint->active()) return found;
  held_winner = static_cast<llama_token>(found);
  Effort work(step_work);
  return constraint->allows(held_winner, work) ? found : pick_allowed(logits, count, work);
}

llama_token SamplerState::decide() {
  const std::lock_guard<std::mutex> lock(deciding);
  if (closed || held.empty()) throw CodedError("closed", "The sampler is closed.");
  std::vector<float> logits;
  logits.swap(held);
  // On a copy of the grammar: the compute thread may need the shared one.
  Effort work(apart_work, &closed);
  const auto mask = parts.constraint->mask_apart(work);
  const bool wins = mask->allows(held_winner);
  if (!wins && parts.thoughts && parts.thoughts->forced() == held_winner) parts.thoughts->give_up();
  int64_t found = wins ? held_winner : pick_masked(*mask, logits.data(), logits.size());
  if (found < 0 && give_ends_back(logits.data())) found = pick_masked(*mask, logits.data(), logits.size());
  const llama_token token = take(found, logits.data(), logits.size());
  came(token);
  return token;
}

// The draw without the grammar.
int64_t SamplerState::pick(float *logits, size_t count, int32_t threads) {
  if (parts.choice) return parts.choice->pick(logits, count, threads);
  std::vector<llama_token_data> candidates(count);
  for (size_t i = 0; i < count; i++) candidates[i] = {static_cast<llama_token>(i), logits[i], 0};
  llama_token_data_array array{candidates.data(), count, -1, false};
  llama_sampler_apply(common_sampler_get(parts.chain.get()), &array);
  if (parts.logprobs && parts.logprobs->after) parts.logprobs->look_after(array);
  // If every token is refused, the chain still picks one. False for NaN, too.
  if (array.selected < 0 || !(array.data[array.selected].logit > -INFINITY)) return -1;
  return not_invented(array.data[array.selected].id, logits, count);
}

// The grammar refused the unconstrained winner: draws again among the tokens that it allows.
int64_t SamplerState::pick_allowed(float *logits, size_t count, Effort &work) {
  Constraint &constraint = *parts.constraint;
  // If the grammar allows nearly everything, it allows enough of the best tokens; masks for such
  // places would be large, and different at every character of a text.
  if (parts.choice && !constraint.has_mask()) {
    const auto found = parts.choice->pick_of_allowed(logits, count, [&](uint32_t token) { return constraint.allows(static_cast<llama_token>(token), work); });
    if (found >= 0) return found;
  }
  return pick_masked(*constraint.mask(work), logits, count);
}

int64_t SamplerState::pick_masked(const Grammar::Mask &mask, const float *logits, size_t count) {
  std::vector<float> &row = own_row(count);
  if (mask.few && parts.choice) {
    for (size_t i = 0; i < mask.tokens.size(); i++) row[i] = logits[mask.tokens[i]];
    const auto found = pick(row.data(), mask.tokens.size(), 1);
    return found < 0 ? found : mask.tokens[static_cast<size_t>(found)];
  }
  if (mask.few) {
    std::fill_n(row.begin(), count, -INFINITY);
    for (const llama_token token : mask.tokens) row[static_cast<size_t>(token)] = logits[token];
  } else {
    for (size_t i = 0; i < count; i++) row[i] = mask.allowed[i] != 0 ? logits[i] : -INFINITY;
  }
  return pick(row.data(), count, 1);
}

llama_token SamplerState::take(int64_t found, const float *logits, size_t count) {
  if (found < 0) throw no_token(*model, parts.constraint.get(), logits, count);
  const auto token = static_cast<llama_token>(found);
  accept(token);
  return token;
}

void SamplerState::accept(llama_token token) {
  if (parts.chain) common_sampler_accept(parts.chain.get(), token, true);
  parts.penalties.accept(token);
  if (parts.constraint) parts.constraint->accept(token);
  if (parts.thoughts) parts.thoughts->accept(token);
}

void SamplerState::resume(const std::vector<llama_token> &tokens, int32_t draws) {
  const std::lock_guard<std::mutex> lock(deciding);
  if (closed) return;
  if (!parts.choice || draws < 0) throw CodedError("invalid_argument", "Expected a sampler that does not use llama.cpp's chain, whose random state cannot be read.");
  check_tokens(model->vocab, tokens);
  for (const llama_token token : tokens) {
    if (closed) return;
    accept(token);
    if (parts.drafter) parts.drafter->accept(token);
    if (parts.before_end > 0) parts.before_end--;
  }
  if (parts.thoughts) parts.thoughts->resume(tokens);
  parts.choice->skip(static_cast<uint32_t>(draws));
}

llama_token SamplerState::sample_by_chain(llama_context *context, int32_t row, float *logits) {
  add_biases(logits); // the chain reads the same row
  const auto count = static_cast<size_t>(llama_vocab_n_tokens(model->vocab));
  llama_token token = common_sampler_sample(parts.chain.get(), context, row);
  // If every token is refused, the chain still picks one, and accepting it could abort the process.
  // False for NaN, too.
  const llama_token_data_array *candidates = common_sampler_get_candidates(parts.chain.get(), false);
  if (candidates->selected < 0 || !(candidates->data[candidates->selected].logit > -INFINITY)) {
    throw no_token(*model, parts.constraint.get(), logits, count);
  }
  token = not_invented(token, logits, count);
  if (parts.logprobs && parts.logprobs->after) parts.logprobs->look_after(*candidates);
  common_sampler_accept(parts.chain.get(), token, true);
  if (parts.thoughts) parts.thoughts->accept(token);
  return token;
}

bool SamplerState::end_thinking() const {
  if (closed || !parts.thoughts) return false;
  parts.thoughts->end();
  return true;
}

SamplerParts::SamplerParts(const std::shared_ptr<ModelState> &of, common_params_sampling &params,
                           const std::vector<llama_token> &history, bool draws_by_chain, bool by_chain, const volatile int32_t *cancelled) {
  const llama_vocab *vocab = of->vocab;
  if (!by_chain && !params.grammar.empty()) {
    constraint = Constraint::make(vocab, of->special_tokens(), of->grammars, params, cancelled);
    // The chain draws; the grammar stays outside of it.
    params.grammar = {};
    params.grammar_lazy = false;
  }
  if (by_chain || draws_by_chain || needs_chain(params)) {
    // Recua adds the biases itself, so that a row shows which tokens are excluded.
    if (!by_chain) biases = std::exchange(params.logit_bias, {});
    chain.reset(common_sampler_init(of->model, params));
    for (const llama_token token : history) common_sampler_accept(chain.get(), token, false);
    return;
  }
  choice = std::make_unique<Choice>(ChoiceOptions{params.temp, params.top_k, params.top_p, params.min_p}, params.seed);
  biases = params.logit_bias;
  int32_t count = 0;
  const llama_token *suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
  for (int32_t i = 0; i < count; i++) biases.push_back({suppressed[i], -INFINITY});
  penalties.last_n = params.penalty_last_n;
  penalties.repeat = params.penalty_repeat;
  penalties.frequency = params.penalty_freq;
  penalties.presence = params.penalty_present;
  for (const llama_token token : history) penalties.accept(token);
}

void SamplerState::release() {
  closed = true; // interrupts decide()
  const std::lock_guard<std::mutex> lock(deciding);
  parts = {};
  model.reset();
}

Napi::Object Sampler::wrap(Napi::Env env, const std::shared_ptr<SamplerState> &state, SamplerParts parts, uint32_t seed) {
  if (!state->model) throw make_error(env, "closed", "The model was closed while a sampler was made.");
  state->parts = std::move(parts);
  state->seed = seed;
  return AddonData::wrap(env, env.GetInstanceData<AddonData>()->sampler, state);
}

Napi::Value Model::create_sampler(const Napi::CallbackInfo &info) {
  return promised(info.Env(), [&]() -> Napi::Value {
    const auto sampler = new_sampler(info.Env());
    const auto model = sampler->model; // reading the options may run JS that closes the model
    auto request = std::make_shared<SamplerRequest>(Options(info[0]));
    return Task<SamplerParts>::run(
        info.Env(), "generation_failed",
        [=, history = copy_array<int32_t>(info[1])](SamplerParts &made) { made = request->make(model, history); },
        [=](Napi::Env env, SamplerParts &made) -> Napi::Value { return Sampler::wrap(env, sampler, std::move(made), request->params.seed); });
  });
}

Napi::Value Model::limit_grammars(const Napi::CallbackInfo &info) {
  GrammarCache &cache = open(info.Env())->grammars;
  if (info[0].IsNumber()) cache.limit(static_cast<size_t>(info[0].As<Napi::Number>().DoubleValue()));
  const GrammarCache::Held held = cache.held();
  auto result = Napi::Object::New(info.Env());
  result.Set("count", static_cast<double>(held.count));
  result.Set("bytes", static_cast<double>(held.bytes));
  return result;
}

Napi::Function Sampler::define(Napi::Env env) {
  return DefineClass(env, "Sampler", {InstanceMethod("close", &Sampler::close), InstanceMethod("decide", &Sampler::decide),
                                   InstanceMethod("logprobs", &Sampler::logprobs), InstanceMethod("endThinking", &Sampler::end_thinking),
                                   InstanceMethod("draws", &Sampler::draws), InstanceMethod("resume", &Sampler::resume)});
}

Sampler::Sampler(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Sampler>(info), state(*info[0].As<Napi::External<std::shared_ptr<SamplerState>>>().Data()) {
  info.This().As<Napi::Object>().Set("seed", state->seed);
  info.This().As<Napi::Object>().Set("grammarBytes", static_cast<double>(state->parts.constraint ? state->parts.constraint->bytes() : 0));
}

Napi::Value Sampler::decide(const Napi::CallbackInfo &info) {
  return Task<llama_token>::run(
      info.Env(), "generation_failed", [held = state](llama_token &token) { token = held->decide(); },
      [](Napi::Env env, llama_token &token) { return Napi::Number::New(env, token); });
}

Napi::Value Sampler::logprobs(const Napi::CallbackInfo &info) {
  const auto noted = state->parts.logprobs ? state->parts.logprobs->take() : Logprobs::Noted();
  auto result = Napi::Object::New(info.Env());
  result.Set("tokens", make_array(info.Env(), noted.tokens));
  result.Set("values", make_array(info.Env(), noted.values));
  return result;
}

Napi::Value Sampler::end_thinking(const Napi::CallbackInfo &info) {
  return Napi::Boolean::New(info.Env(), state->end_thinking());
}

Napi::Value Sampler::draws(const Napi::CallbackInfo &info) {
  return Napi::Number::New(info.Env(), state->draws());
}

Napi::Value Sampler::resume(const Napi::CallbackInfo &info) {
  return Task<bool>::run(
      info.Env(), "generation_failed",
      [held = state, tokens = copy_array<int32_t>(info[0]), draws = info[1].ToNumber().Int32Value()](bool &) { held->resume(tokens, draws); },
      [](Napi::Env env, bool &) { return env.Undefined(); });
}

Napi::Value Sampler::close(const Napi::CallbackInfo &info) {
  // A step in flight may still use it; the last holder frees it.
  state->closed = true;
  state = std::make_shared<SamplerState>();
  state->closed = true;
  return info.Env().Undefined();
}

} // namespace recua
