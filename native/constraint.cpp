// Follows common_sampler of llama.cpp v0.5.0 (common/sampling.cpp) in when a grammar applies and what it is fed.
#include "constraint.h"

#include "reasoning-budget.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

namespace recua {

std::shared_ptr<const PieceTree> GrammarCache::tree(const llama_vocab *vocab) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!pieces) pieces = std::make_shared<PieceTree>(vocab);
  return pieces;
}

std::shared_ptr<Grammar> GrammarCache::grammar(const llama_vocab *vocab, const std::string &text) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = std::find_if(grammars.begin(), grammars.end(), [&](const auto &entry) { return entry.first == text; });
  if (found != grammars.end() && found->second && found->second->is_large()) {
    grammars.erase(found); // who uses it keeps it
  } else if (found != grammars.end()) {
    grammars.splice(grammars.begin(), grammars, found);
    return found->second;
  }
  auto made = Grammar::parse(vocab, text);
  grammars.emplace_front(text, made);
  if (grammars.size() > most) grammars.pop_back();
  return made;
}

std::shared_ptr<const llama_grammar> GrammarCache::waiting(const std::string &text, const std::string &triggers, const std::function<llama_grammar *()> &parse) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = std::find_if(prototypes.begin(), prototypes.end(), [&](const auto &entry) { return entry.text == text && entry.triggers == triggers; });
  if (found != prototypes.end()) {
    prototypes.splice(prototypes.begin(), prototypes, found);
    return found->grammar;
  }
  const std::shared_ptr<const llama_grammar> made(parse(), FreeGrammar());
  if (!made) throw std::runtime_error("failed to parse grammar");
  prototypes.push_front({text, triggers, made});
  if (prototypes.size() > most) prototypes.pop_back();
  return made;
}

namespace {

// Tells triggers apart.
std::string key_of(const std::vector<common_grammar_trigger> &triggers) {
  std::string key;
  for (const auto &[type, value, token] : triggers) {
    key += std::to_string(static_cast<int>(type)) + ',' + std::to_string(token) + ',' + std::to_string(value.size()) + ':' + value;
  }
  return key;
}

llama_grammar *parse_lazy(const llama_vocab *vocab, const std::string &text, const std::vector<common_grammar_trigger> &triggers) {
  std::vector<std::string> patterns;
  std::vector<llama_token> tokens;
  for (const auto &trigger : triggers) {
    switch (trigger.type) {
      case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: tokens.push_back(trigger.token); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: patterns.push_back(regex_escape(trigger.value)); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN: patterns.push_back(trigger.value); break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL: {
        const std::string &value = trigger.value;
        const bool begun = !value.empty() && value.front() == '^';
        const bool ended = !value.empty() && value.back() == '$';
        patterns.push_back((begun ? "" : "^") + value + (ended ? "" : "$"));
        break;
      }
    }
  }
  std::vector<const char *> texts;
  for (const auto &pattern : patterns) texts.push_back(pattern.c_str());
  return llama_grammar_init_impl(vocab, text.c_str(), "root", true, texts.data(), texts.size(), tokens.data(), tokens.size());
}

// The tokens that the template has put into the prompt already as the answer's beginning.
std::vector<llama_token> begun(const llama_vocab *vocab, const std::string &prompt) {
  auto tokens = common_tokenize(vocab, prompt, false, true);
  // Some tokenizers put a space before the first special token.
  if (!tokens.empty() && !prompt.empty()) {
    const std::string first = token_bytes(vocab, tokens.front(), true);
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    if (!first.empty() && is_space(first.front()) && !is_space(prompt.front())) tokens.erase(tokens.begin());
  }
  return tokens;
}

} // namespace

std::unique_ptr<Constraint> Constraint::make(const llama_vocab *vocab, GrammarCache &cache, const common_params_sampling &params) {
  const std::string &text = common_grammar_value(params.grammar);
  std::unique_ptr<Constraint> made(new Constraint());
  made->grammar = cache.grammar(vocab, text);
  if (!made->grammar) return nullptr;
  made->tree = cache.tree(vocab);
  made->position = made->grammar->start();
  const auto prefill = begun(vocab, params.generation_prompt);
  if (params.grammar_lazy) {
    const auto prototype = cache.waiting(text, key_of(params.grammar_triggers), [&] { return parse_lazy(vocab, text, params.grammar_triggers); });
    made->waiting.reset(llama_grammar_clone_impl(*prototype));
    if (!params.reasoning_budget_start.empty() && !params.reasoning_budget_end.empty()) {
      made->budget.reset(common_reasoning_budget_init(vocab, {params.reasoning_budget_start}, params.reasoning_budget_end,
                                                      params.reasoning_budget_forced, INT_MAX));
      for (const llama_token token : prefill) llama_sampler_accept(made->budget.get(), token);
    }
  } else if (common_grammar_needs_prefill(params.grammar)) {
    for (const llama_token token : prefill) made->feed(token);
  }
  return made;
}

bool Constraint::thinking() const {
  if (!budget) return false;
  const auto state = common_reasoning_budget_get_state(budget.get());
  return state != REASONING_BUDGET_IDLE && state != REASONING_BUDGET_DONE;
}

bool Constraint::active() const { return !waiting && !thinking(); }

bool Constraint::allows(llama_token token) const {
  if (tree->is_end(token)) return grammar->may_end(position);
  Grammar::Position moved = position;
  return grammar->accept(moved, tree->piece(token));
}

void Constraint::feed(llama_token token) {
  if (waiting) {
    llama_grammar_accept_impl(*waiting, token);
    if (waiting->awaiting_trigger) return;
    position = grammar->locate(*waiting);
    waiting.reset();
    return;
  }
  if (grammar->is_crowded()) grammar = grammar->begin_anew(position); // others may go on with the old one
  const bool fits = tree->is_end(token) ? grammar->may_end(position) : grammar->accept(position, tree->piece(token));
  if (!fits) throw std::runtime_error("the grammar does not go on with token " + std::to_string(token));
}

void Constraint::accept(llama_token token) {
  const bool rested = thinking();
  if (budget) {
    llama_sampler_accept(budget.get(), token);
    if (rested && common_reasoning_budget_get_state(budget.get()) == REASONING_BUDGET_DONE) {
      // What ends the block may hold the trigger.
      const llama_tokens *end = common_reasoning_budget_get_end_match(budget.get());
      if (end != nullptr) {
        for (const llama_token one : *end) feed(one);
      }
    }
  }
  if (!rested) feed(token);
}

} // namespace recua
