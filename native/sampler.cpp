// Options → sampler. The chain is llama.cpp's common_sampler; a plain greedy row skips it for one pass over the logits.
#include "addon.h"

#include <cmath>
#include <random>

namespace recua {

namespace {

// llama.cpp recurses once per open parenthesis of a grammar, and once per rule of a chain of rules: bounds keep it
// off the stack's end.
constexpr int max_grammar_depth = 200;
constexpr int max_grammar_rules = 10000;

void check_grammar(const std::string &grammar) {
  if (grammar.compare(0, 11, "%llguidance") == 0) {
    throw CodedError("invalid_grammar", "Expected a GBNF grammar, got an llguidance one.");
  }
  int depth = 0;
  for (const char c : grammar) {
    if (c == '(' && ++depth > max_grammar_depth) {
      throw CodedError("invalid_grammar", "Expected a grammar with at most " + std::to_string(max_grammar_depth) +
                                              " open parentheses at once.");
    }
    if (c == ')') depth--;
  }
  int rules = 0;
  for (size_t at = grammar.find("::="); at != std::string::npos; at = grammar.find("::=", at + 3)) rules++;
  if (rules > max_grammar_rules) {
    throw CodedError("invalid_grammar", "Expected a grammar of at most " + std::to_string(max_grammar_rules) + " rules, got " + std::to_string(rules) + ".");
  }
}

void read_numbers(const Options &options, common_params_sampling &params) {
  // A chain with nothing in it: every absent option is off.
  params.temp = 0;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  options.number("temperature", params.temp);
  options.number("topK", params.top_k);
  options.number("topP", params.top_p);
  options.number("minP", params.min_p);
  options.number("typicalP", params.typ_p);
  options.number("topNSigma", params.top_n_sigma);
  options.number("repeatPenalty", params.penalty_repeat);
  options.number("frequencyPenalty", params.penalty_freq);
  options.number("presencePenalty", params.penalty_present);
  options.number("penaltyLastN", params.penalty_last_n);
  options.number("dryMultiplier", params.dry_multiplier);
  options.number("dryBase", params.dry_base);
  options.number("dryAllowedLength", params.dry_allowed_length);
  options.number("dryPenaltyLastN", params.dry_penalty_last_n);
  options.texts("drySequenceBreakers", params.dry_sequence_breakers);
  options.number("xtcProbability", params.xtc_probability);
  options.number("xtcThreshold", params.xtc_threshold);
  options.number("mirostat", params.mirostat);
  options.number("mirostatTau", params.mirostat_tau);
  options.number("mirostatEta", params.mirostat_eta);
  options.number("dynatempRange", params.dynatemp_range);
  options.number("dynatempExponent", params.dynatemp_exponent);
  options.boolean("ignoreEos", params.ignore_eos);
  params.seed = std::random_device{}();
  options.number("seed", params.seed);
}

void read_logit_bias(const Options &options, common_params_sampling &params) {
  const Napi::Value value = options.get("logitBias");
  if (!value.IsArray()) return;
  const auto list = value.As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); i++) {
    const Options entry(list.Get(i));
    llama_logit_bias bias{};
    entry.number("token", bias.token);
    entry.number("bias", bias.bias);
    params.logit_bias.push_back(bias);
  }
}

// What the compile step needs beside the numbers; read on the JS thread.
struct GrammarOptions {
  std::string source, kind = "user", triggers, thinking_start;
  std::vector<std::string> preserved, thinking_ends;

  explicit GrammarOptions(const Options &options) {
    options.text("grammar", source);
    options.text("grammarKind", kind);
    options.text("grammarTriggers", triggers);
    options.texts("preservedTokens", preserved);
    options.text("thinkingStart", thinking_start);
    options.texts("thinkingEnds", thinking_ends);
  }

  // Pool thread. Fills the grammar part of the parameters.
  void apply(const llama_vocab *vocab, common_params_sampling &params) const {
    if (source.empty()) return;
    check_grammar(source);
    const auto type = kind == "tools"    ? COMMON_GRAMMAR_TYPE_TOOL_CALLS
                      : kind == "schema" ? COMMON_GRAMMAR_TYPE_OUTPUT_FORMAT
                                         : COMMON_GRAMMAR_TYPE_USER;
    params.grammar = common_grammar(type, source);
    for (const auto &text : preserved) {
      const auto ids = common_tokenize(vocab, text, false, true);
      if (ids.size() == 1) params.preserved_tokens.insert(ids[0]);
    }
    if (!params.grammar_lazy) return;
    for (const auto &entry : common_json::parse(triggers)) add_trigger(vocab, entry, params);
    if (params.grammar_triggers.empty()) throw CodedError("invalid_grammar", "A lazy grammar needs a trigger.");
    if (thinking_start.empty() || thinking_ends.empty()) return;
    // Inside a thinking block the grammar rests; this sampler knows where the block is.
    params.reasoning_budget_start = common_tokenize(vocab, thinking_start, false, true);
    for (const auto &end : thinking_ends) params.reasoning_budget_end.push_back(common_tokenize(vocab, end, false, true));
    params.reasoning_budget_forced = params.reasoning_budget_end.front();
  }

private:
  static void add_trigger(const llama_vocab *vocab, const common_json &entry, common_params_sampling &params) {
    common_grammar_trigger trigger;
    trigger.type = static_cast<common_grammar_trigger_type>(entry.at("type").get<int>());
    trigger.value = entry.at("value").get<std::string>();
    if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD) {
      const auto ids = common_tokenize(vocab, trigger.value, false, true);
      if (ids.size() == 1) {
        trigger.type = COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN;
        trigger.token = ids[0];
      }
    } else if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN) {
      trigger.token = entry.at("token").get<int>();
    }
    params.grammar_triggers.push_back(std::move(trigger));
  }
};

// True where nothing can change which logit is the largest.
bool is_plain_greedy(const common_params_sampling &p, const llama_vocab *vocab) {
  int32_t suppressed = 0;
  llama_vocab_get_suppress_tokens(vocab, &suppressed);
  return p.temp <= 0 && p.dynatemp_range == 0 && p.mirostat == 0 && p.grammar.empty() && p.logit_bias.empty() &&
         p.penalty_repeat == 1 && p.penalty_freq == 0 && p.penalty_present == 0 && p.dry_multiplier == 0 &&
         p.xtc_probability == 0 && p.typ_p >= 1 && suppressed == 0;
}

// Index of the largest logit, the first of equals; -1 if none is a number. Sixteen running maxima let the
// compiler use vector registers without relaxing float rules.
llama_token argmax(const float *logits, int32_t count) {
  constexpr int32_t lanes = 16;
  float best[lanes];
  std::fill(best, best + lanes, -INFINITY);
  int32_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int32_t lane = 0; lane < lanes; lane++) {
      best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
    }
  }
  float top = *std::max_element(best, best + lanes);
  for (; i < count; i++) top = std::max(top, logits[i] > top ? logits[i] : top);
  for (int32_t token = 0; token < count; token++) {
    if (logits[token] == top) return token;
  }
  return -1;
}

} // namespace

llama_token SamplerState::sample(llama_context *context, int32_t row) {
  if (closed || !sampler) throw CodedError("closed", "The sampler is closed.");
  llama_token token;
  if (plain_greedy) {
    const float *logits = llama_get_logits_ith(context, row);
    if (logits == nullptr) throw CodedError("generation_failed", "The model gave no logits for this row.");
    token = argmax(logits, llama_vocab_n_tokens(model->vocab));
    if (token < 0) throw CodedError("generation_failed", "The model's logits are not numbers (NaN).");
    return token; // a plain greedy chain keeps no state that accept() would change
  }
  token = common_sampler_sample(sampler.get(), context, row);
  // Where every token is refused the chain still picks one, and accepting it could abort the process. False for NaN too.
  const llama_token_data_array *candidates = common_sampler_get_candidates(sampler.get(), false);
  if (candidates->selected < 0 || !(candidates->data[candidates->selected].logit > -INFINITY)) {
    throw CodedError("generation_failed", "No token is allowed here: the grammar or the bans leave none, or the logits are not numbers.");
  }
  common_sampler_accept(sampler.get(), token, true);
  return token;
}

void SamplerState::release() {
  closed = true;
  sampler.reset();
  model.reset();
}

Napi::Promise Sampler::create(Napi::Env env, const std::shared_ptr<ModelState> &model, const Options &options,
                              std::vector<llama_token> history, const std::shared_ptr<SamplerState> &state) {
  auto params = std::make_shared<common_params_sampling>();
  read_numbers(options, *params);
  read_logit_bias(options, *params);
  options.boolean("grammarLazy", params->grammar_lazy);
  options.text("generationPrompt", params->generation_prompt);
  auto grammar = std::make_shared<GrammarOptions>(options);
  return Task<common_sampler_ptr>::run(
      env, "generation_failed",
      [=, history = std::move(history)](common_sampler_ptr &sampler) {
        if (params->penalty_last_n < 0) params->penalty_last_n = llama_model_n_ctx_train(model->model);
        if (params->dry_penalty_last_n < 0) params->dry_penalty_last_n = llama_model_n_ctx_train(model->model);
        if (params->ignore_eos) {
          for (llama_token token = 0; token < llama_vocab_n_tokens(model->vocab); token++) {
            if (llama_vocab_is_eog(model->vocab, token)) params->logit_bias.push_back({token, -INFINITY});
          }
        }
        grammar->apply(model->vocab, *params);
        state->plain_greedy = is_plain_greedy(*params, model->vocab);
        log::clear_errors();
        const Outcome outcome =
            Outcome::of([&] { sampler.reset(common_sampler_init(model->model, *params)); }, "generation_failed");
        if (outcome.code != nullptr) {
          if (grammar->source.empty()) throw CodedError("generation_failed", outcome.message);
          throw CodedError("invalid_grammar", "The grammar does not compile: " + outcome.message + ".");
        }
        for (const llama_token token : history) common_sampler_accept(sampler.get(), token, false);
      },
      [=](Napi::Env env, common_sampler_ptr &sampler) -> Napi::Value {
        if (!state->model) throw make_error(env, "closed", "The model was closed while a sampler was made.");
        state->sampler = std::move(sampler);
        state->seed = params->seed;
        return AddonData::wrap(env, env.GetInstanceData<AddonData>()->sampler, state);
      });
}

Napi::Function Sampler::define(Napi::Env env) {
  return DefineClass(env, "Sampler", {InstanceMethod("close", &Sampler::close)});
}

Sampler::Sampler(const Napi::CallbackInfo &info)
    : Napi::ObjectWrap<Sampler>(info), state(*info[0].As<Napi::External<std::shared_ptr<SamplerState>>>().Data()) {
  info.This().As<Napi::Object>().Set("seed", state->seed);
}

Napi::Value Sampler::close(const Napi::CallbackInfo &info) {
  // A step in flight may still use it: the memory goes with the last holder.
  state->closed = true;
  state = std::make_shared<SamplerState>();
  state->closed = true;
  return info.Env().Undefined();
}

} // namespace recua
