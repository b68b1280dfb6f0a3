// JS options → common_params_sampling.
#include "sampling/sampler_options.h"

#include "chat.h"
#include "common.h"

namespace recua {

namespace {

void add_trigger(const llama_vocab *vocab, const common_json &entry, common_params_sampling &params) {
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

} // namespace

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
  options.number("mirostatTau", params.mirostat_tau);
  options.number("mirostatEta", params.mirostat_eta);
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

GrammarOptions::GrammarOptions(const Options &options) {
  options.text("grammar", source);
  options.text("grammarKind", kind);
  options.text("grammarTriggers", triggers);
  options.texts("preservedTokens", preserved);
  options.text("thinkingStart", thinking_start);
  options.texts("thinkingEnds", thinking_ends);
}

void GrammarOptions::apply(const llama_vocab *vocab, common_params_sampling &params) const {
  if (source.empty()) return;
  if (source.compare(0, 11, "%llguidance") == 0) {
    throw CodedError("invalid_grammar", "Expected a GBNF grammar, got an llguidance one.");
  }
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

} // namespace recua
