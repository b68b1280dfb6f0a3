// When a grammar applies, and which tokens it is fed, follows common_sampler of llama.cpp v0.5.0
// (common/sampling.cpp).
#include "sampling/constraint.h"

#include "cancelled.h"

#include "reasoning-budget.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

namespace recua {

namespace {

// Enough for a grammar of some megabytes; less than a second.
constexpr uint64_t compile_steps = 200u << 20;
// For one token or piece of text. Others may be waiting for the same grammar, so a few milliseconds
// at most.
constexpr uint64_t accept_steps = 1u << 20;
// Bytes of a piece of text. So a megabyte takes less than a minute.
constexpr size_t piece_bytes = 256;

// A key that identifies a list of triggers.
std::string key_of(const std::vector<common_grammar_trigger> &triggers) {
  std::string key;
  for (const auto &[type, value, token] : triggers) {
    key += std::to_string(static_cast<int>(type)) + ',' + std::to_string(token) + ',' +
           std::to_string(value.size()) + ':' + value;
  }
  return key;
}

// Looks up `key` in a list with the most recently used entry first.
template <typename T>
std::shared_ptr<T> find_in(std::list<std::pair<std::string, std::shared_ptr<T>>> &list,
                           const std::string &key) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto &entry) { return entry.first == key; });
  if (found == list.end()) return nullptr;
  list.splice(list.begin(), list, found);
  return found->second;
}

} // namespace

std::vector<llama_token> begun(const llama_vocab *vocab, const Specials &specials,
                               const std::string &prompt, const volatile int32_t *cancelled) {
  auto tokens = tokenize(vocab, specials, prompt, {false, true}, cancelled);
  // Some tokenizers put a space before the first special token.
  if (!tokens.empty() && !prompt.empty()) {
    const std::string first = token_bytes(vocab, tokens.front(), true);
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    if (!first.empty() && is_space(first.front()) && !is_space(prompt.front()))
      tokens.erase(tokens.begin());
  }
  return tokens;
}

std::shared_ptr<const PieceTree> GrammarCache::tree(const llama_vocab *vocab) {
  std::call_once(tree_made, [&] { pieces = std::make_shared<PieceTree>(vocab); });
  return pieces;
}

std::shared_ptr<Grammar> GrammarCache::grammar(const llama_vocab *vocab, const Specials &specials,
                                               const std::string &text,
                                               const std::set<llama_token> &markers) {
  std::string key = text;
  for (const llama_token marker : markers) key += '\0' + std::to_string(marker);
  std::shared_ptr<const GrammarRules> rules;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = find_in(grammars, key);
    // Grammars grow while they are used, so check the sizes at each use.
    shrink();
    if (found && !found->is_large()) return found;
    if (found) {
      rules = found->rules();
      grammars.pop_front(); // its users keep it alive
    }
  }
  Effort work(compile_steps);
  if (!rules) {
    const auto token_named = [&](const std::string &name) {
      const auto ids = tokenize(vocab, specials, name, {false, true});
      return ids.size() == 1 ? ids.front() : -1;
    };
    const auto pieces_here = tree(vocab);
    const auto spelled = [&](uint32_t first, uint32_t last, Effort &effort) {
      return pieces_here->spells(first, last, effort);
    };
    rules = parse_gbnf(text, token_named, llama_vocab_n_tokens(vocab), spelled, work);
  }
  auto made = std::make_shared<Grammar>(
      std::move(rules), std::vector<llama_token>(markers.begin(), markers.end()), work);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto other = find_in(grammars, key); // made in the meantime
  if (other) return other;
  grammars.emplace_front(std::move(key), made);
  shrink();
  return made;
}

size_t GrammarCache::size_of(const std::pair<std::string, std::shared_ptr<Grammar>> &entry) {
  return 2 * entry.first.size() + entry.second->size();
}

// Always keeps the first: the current request needs it.
void GrammarCache::shrink() {
  size_t bytes = 0;
  size_t count = 0;
  for (auto entry = grammars.begin(); entry != grammars.end();) {
    bytes += size_of(*entry);
    const bool keep = count == 0 || (bytes <= most_bytes && count < most);
    count++;
    entry = keep ? std::next(entry) : grammars.erase(entry);
  }
}

void GrammarCache::limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  most_bytes = bytes;
  shrink();
}

GrammarCache::Held GrammarCache::held() {
  const std::lock_guard<std::mutex> lock(mutex);
  Held all{grammars.size(), 0};
  for (const auto &entry : grammars) all.bytes += size_of(entry);
  return all;
}

std::shared_ptr<const Triggers> GrammarCache::triggers(
    const std::vector<common_grammar_trigger> &given) {
  const std::string key = key_of(given);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (auto found = find_in(waits, key)) return found;
  }
  const auto made = std::make_shared<const Triggers>(given);
  if (key.size() > most_trigger_bytes) return made;
  const std::lock_guard<std::mutex> lock(mutex);
  waits.emplace_front(key, made);
  if (waits.size() > most) waits.pop_back();
  return made;
}

std::unique_ptr<Constraint> Constraint::make(const llama_vocab *vocab, const Specials &specials,
                                             GrammarCache &cache,
                                             const common_params_sampling &params,
                                             const volatile int32_t *cancelled) {
  std::unique_ptr<Constraint> made(new Constraint());
  made->grammar = cache.grammar(vocab, specials, common_grammar_value(params.grammar),
                                params.preserved_tokens);
  made->tree = cache.tree(vocab);
  made->position = made->grammar->start();
  if (params.ignore_eos && !params.grammar_lazy && !is_endless(*made->grammar->rules()))
    throw std::runtime_error("all of its texts come to an end, which ignore_eos excludes");
  const std::string &prompt = params.generation_prompt;
  if (!params.reasoning_budget_start.empty() && !params.reasoning_budget_end.empty()) {
    made->budget.reset(common_reasoning_budget_init(vocab, {params.reasoning_budget_start},
                                                    params.reasoning_budget_end,
                                                    params.reasoning_budget_forced, INT_MAX));
    for (const llama_token token : begun(vocab, specials, prompt, cancelled))
      llama_sampler_accept(made->budget.get(), token);
  }
  if (params.grammar_lazy) {
    made->lazy = true;
    made->waiting = std::make_unique<Trigger>(cache.triggers(params.grammar_triggers));
    return made;
  }
  // The grammar covers the whole answer, from the end of the block that the prompt has begun.
  if (made->budget && !made->thinking()) made->budget.reset();
  if (!made->budget && common_grammar_needs_prefill(params.grammar))
    made->prefill(vocab, specials, prompt, cancelled);
  return made;
}

// Feeds the prompt's text, or its tokens if the grammar names tokens: vocabularies may put a space
// before the first token, or merge one into it.
void Constraint::prefill(const llama_vocab *vocab, const Specials &specials,
                         const std::string &prompt, const volatile int32_t *cancelled) {
  const auto take = [&](llama_token token, const std::string &bytes) {
    throw_if_cancelled(cancelled);
    if (!move(token, bytes))
      throw CodedError("chat_unsupported", "The grammar does not allow how the chat template begins "
                                           "the answer: \"" + prompt.substr(0, 100) + "\".");
  };
  if (grammar->rules()->names_tokens) {
    for (const llama_token token : begun(vocab, specials, prompt, cancelled))
      take(token, tree->piece(token));
    return;
  }
  for (size_t at = 0; at < prompt.size(); at += piece_bytes)
    take(-1, prompt.substr(at, piece_bytes));
}

bool Constraint::thinking() const {
  if (!budget) return false;
  const auto state = common_reasoning_budget_get_state(budget.get());
  return state != REASONING_BUDGET_IDLE && state != REASONING_BUDGET_DONE;
}

bool Constraint::may_end() const { return active() && grammar->may_end(position); }

bool Constraint::active() const { return !waiting && !thinking(); }

bool Constraint::allows(llama_token token, Effort &work) const {
  return grammar->allows(position, *tree, token, work);
}

std::shared_ptr<const Grammar::Mask> Constraint::mask(Effort &work) {
  if (laborious > 0 && !has_mask()) {
    laborious--;
    throw TooMuchWork();
  }
  try {
    return grammar->mask(position, *tree, work);
  } catch (const TooMuchWork &) {
    laborious = 8;
    throw;
  }
}

std::shared_ptr<const Grammar::Mask> Constraint::mask_apart(Effort &work) {
  Effort copying(accept_steps);
  Grammar::Position moved = position;
  const auto apart = grammar->begin_anew(moved, copying);
  const auto mask = apart->mask(moved, *tree, work);
  grammar->remember(position, mask);
  return mask;
}

// False if the grammar refuses it.
bool Constraint::move(llama_token token, const std::string &bytes) {
  Effort work(accept_steps);
  if (grammar->is_crowded())
    grammar = grammar->begin_anew(position, work); // others may continue with the old one
  if (token >= 0 && tree->is_end(token)) return grammar->may_end(position);
  return grammar->accept(position, token, bytes.data(), bytes.size(), work);
}

void Constraint::feed_piece(llama_token token, const std::string &bytes) {
  if (!move(token, bytes))
    throw std::runtime_error("the grammar does not continue with \"" + bytes + '"' +
                             (token < 0 ? "" : ", token " + std::to_string(token)));
}

void Constraint::feed(llama_token token) {
  const std::string &piece = tree->piece(token);
  if (!waiting) return feed_piece(token, piece);
  std::vector<Trigger::Piece> pieces;
  if (!waiting->accept(token, piece, pieces)) return;
  waiting.reset();
  for (const auto &[one, bytes] : pieces) feed_piece(one, bytes);
}

void Constraint::accept(llama_token token) {
  const bool rested = thinking();
  if (budget) {
    llama_sampler_accept(budget.get(), token);
    if (rested && common_reasoning_budget_get_state(budget.get()) == REASONING_BUDGET_DONE) {
      if (!lazy) return budget.reset(); // there is no other block
      // The end of the block may contain the trigger.
      const llama_tokens *end = common_reasoning_budget_get_end_match(budget.get());
      if (end != nullptr) {
        for (const llama_token one : *end) feed(one);
      }
    }
  }
  if (!rested) feed(token);
}

} // namespace recua
