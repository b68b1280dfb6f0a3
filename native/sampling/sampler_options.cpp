// JS options → common_params_sampling → a sampler's parts.
#include "sampling/sampler_options.h"

#include "chat.h"
#include "common.h"

namespace recua {

namespace {

// A template's mark as tokens.
std::vector<llama_token> tokens_of(ModelState &model, const std::string &mark) {
  return tokenize(model.vocab, model.special_tokens(), mark, {false, true});
}

// A trigger word that is one token of this vocabulary becomes a token trigger.
common_grammar_trigger by_token(ModelState &model, common_grammar_trigger trigger) {
  if (trigger.type != COMMON_GRAMMAR_TRIGGER_TYPE_WORD) return trigger;
  const auto ids = tokens_of(model, trigger.value);
  if (ids.size() == 1) {
    trigger.type = COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN;
    trigger.token = ids[0];
  }
  return trigger;
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
  options.number("xtcProbability", params.xtc_probability);
  options.number("xtcThreshold", params.xtc_threshold);
  options.number("mirostat", params.mirostat);
  if (params.mirostat < 0 || params.mirostat > 2) throw CodedError("invalid_argument", "Expected mirostat 0, 1 or 2.");
  options.number("mirostatTau", params.mirostat_tau);
  options.number("mirostatEta", params.mirostat_eta);
  options.number("dynatempRange", params.dynatemp_range);
  options.number("dynatempExponent", params.dynatemp_exponent);
  options.number("adaptiveTarget", params.adaptive_target);
  options.number("adaptiveDecay", params.adaptive_decay);
  options.number("minKeep", params.min_keep);
  options.texts("drySequenceBreakers", params.dry_sequence_breakers);
  options.boolean("ignoreEos", params.ignore_eos);
  params.seed = std::random_device{}();
  options.number("seed", params.seed);
}

// Reads the start and end tags of thinking blocks, as tokens; leaves them empty if the format has
// none.
void read_tags(ModelState &model, const common_chat_params &chat, common_params_sampling &params) {
  if (chat.thinking_start_tag.empty() || chat.thinking_end_tags.empty()) return;
  params.reasoning_budget_start = tokens_of(model, chat.thinking_start_tag);
  params.reasoning_budget_end.clear();
  for (const auto &end : chat.thinking_end_tags) params.reasoning_budget_end.push_back(tokens_of(model, end));
  params.reasoning_budget_forced = params.reasoning_budget_end.front();
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

} // namespace

GrammarSource::GrammarSource(const Options &options) {
  options.text("grammar", source);
  options.text("grammarKind", kind);
  options.text("generationPrompt", generation_prompt);
}

GrammarSource::GrammarSource(const AnswerShape &answer)
    : source(answer.grammar), kind(answer.grammar_kind), generation_prompt(answer.shape->params.generation_prompt), shape(answer.shape) {}

void GrammarSource::apply(ModelState &model, common_params_sampling &params, bool after_thoughts) const {
  if (source.empty()) return;
  if (source.compare(0, 11, "%llguidance") == 0) {
    throw CodedError("invalid_grammar", "Expected a GBNF grammar, got an llguidance one.");
  }
  const auto type = kind == "tools"    ? COMMON_GRAMMAR_TYPE_TOOL_CALLS
                    : kind == "schema" ? COMMON_GRAMMAR_TYPE_OUTPUT_FORMAT
                                       : COMMON_GRAMMAR_TYPE_USER;
  params.grammar = common_grammar(type, source);
  params.generation_prompt = generation_prompt;
  if (!shape) return;
  const auto &chat = shape->params;
  params.preserved_tokens.insert(shape->preserved_ids.begin(), shape->preserved_ids.end());
  params.grammar_lazy = chat.grammar_lazy;
  if (!chat.grammar_lazy && !after_thoughts) return;
  for (const auto &trigger : chat.grammar_triggers) params.grammar_triggers.push_back(by_token(model, trigger));
  if (chat.grammar_lazy && params.grammar_triggers.empty()) throw CodedError("invalid_grammar", "Expected a trigger for the lazy grammar, got none.");
  // A grammar is suspended inside a thinking block; this sampler knows where the block is.
  read_tags(model, chat, params);
}

SamplerRequest::SamplerRequest(const Options &options) : grammar(options) {
  read_numbers(options, params);
  read_logit_bias(options, params);
  options.boolean("chain", by_chain);
  options.boolean("draft", draft);
  const Napi::Value prediction = options.get("prediction");
  if (prediction.IsTypedArray()) predicted = copy_array<int32_t>(prediction);
  const Napi::Value read_before = options.get("prompt");
  if (read_before.IsTypedArray()) prompt = copy_array<int32_t>(read_before);
  options.number("logprobs", logprobs);
  options.boolean("afterSampling", after_sampling);
  options.number("minTokens", least_tokens);
  std::vector<std::string> samplers;
  options.texts("samplers", samplers);
  if (!samplers.empty()) params.samplers = common_sampler_types_from_names(samplers);
  draws_by_chain = !samplers.empty() || params.min_keep > 0 || (logprobs >= 0 && after_sampling);
  options.boolean("afterThoughts", after_thoughts);
  options.number("thinkingBudget", thoughts.budget);
  options.text("thinkingMessage", thoughts.message);
  options.boolean("thinkingControl", thoughts.control);
  const Napi::Value shape = options.get("shape");
  if (!shape.IsExternal()) return;
  const auto answer = *shape.As<HeldShape>().Data();
  if (!answer->shape) throw CodedError("invalid_argument", "The parser of this prompt is already closed.");
  grammar = GrammarSource(*answer);
}

SamplerParts SamplerRequest::make(const std::shared_ptr<ModelState> &model, const std::vector<llama_token> &own_prompt,
                                  const volatile int32_t *cancelled) {
  const std::vector<llama_token> &history = prompt.empty() ? own_prompt : prompt;
  check_tokens(model->vocab, history);
  check_tokens(model->vocab, predicted);
  for (const llama_logit_bias &bias : params.logit_bias) check_tokens(model->vocab, {bias.token});
  if (params.penalty_last_n < 0) params.penalty_last_n = llama_model_n_ctx_train(model->model);
  if (params.dry_penalty_last_n < 0) params.dry_penalty_last_n = llama_model_n_ctx_train(model->model);
  if (params.ignore_eos) {
    for (const llama_token token : model->end_tokens()) params.logit_bias.push_back({token, -INFINITY});
  }
  grammar.apply(*model, params, after_thoughts);
  log::clear_errors();
  SamplerParts made;
  const char *failed = "generation_failed";
  const Outcome outcome = Outcome::of([&] { made = SamplerParts(model, params, history, draws_by_chain, by_chain, cancelled); }, failed);
  if (outcome.code != nullptr && (outcome.code != failed || grammar.source.empty())) throw CodedError(outcome.code, outcome.message);
  if (outcome.code != nullptr) throw CodedError("invalid_grammar", "The grammar cannot be used: " + outcome.message + ".");
  if (draft || !predicted.empty()) made.drafter = std::make_unique<Drafter>(history, predicted);
  if (logprobs >= 0) made.logprobs = std::make_unique<Logprobs>(logprobs, after_sampling, static_cast<size_t>(llama_vocab_n_tokens(model->vocab)));
  if (least_tokens > 0 || (made.constraint && made.constraint->rests())) made.ends = model->end_tokens();
  made.before_end = least_tokens;
  if (thoughts.wanted() && grammar.shape) {
    const auto &chat = grammar.shape->params;
    common_params_sampling tags;
    read_tags(*model, chat, tags);
    if (!tags.reasoning_budget_end.empty()) {
      made.thoughts = std::make_unique<Thoughts>(model->vocab, model->special_tokens(), tags.reasoning_budget_start, tags.reasoning_budget_end,
                                                 begun(model->vocab, model->special_tokens(), chat.generation_prompt, cancelled), thoughts);
    }
  }
  return made;
}

} // namespace recua
