#include "sampling/thoughts.h"

#include "reasoning-budget.h"

#include <algorithm>
#include <climits>
#include <numeric>

namespace recua {

namespace {

// The text of a tag, without spaces around it.
std::string text_of(const llama_vocab *vocab, const llama_tokens &tag) {
  std::string text(64 * tag.size(), '\0');
  const auto count = static_cast<int32_t>(tag.size());
  int32_t bytes = llama_detokenize(vocab, tag.data(), count, text.data(), static_cast<int32_t>(text.size()), false, true);
  if (bytes < 0) {
    text.resize(static_cast<size_t>(-bytes));
    bytes = llama_detokenize(vocab, tag.data(), count, text.data(), static_cast<int32_t>(text.size()), false, true);
  }
  text.resize(static_cast<size_t>(std::max(bytes, 0)));
  return trimmed(text);
}

// The part of a message before a closing tag of its own, which model cards recommend.
std::string before_tag(const std::string &message, const std::string &tag) {
  return tag.empty() ? message : message.substr(0, message.find(tag));
}

} // namespace

Thoughts::Thoughts(const llama_vocab *vocab, const Specials &specials, const std::vector<llama_token> &start,
                   const std::vector<llama_tokens> &ends, const std::vector<llama_token> &begun,
                   const ThoughtsOptions &options) {
  // The message comes from a client, so it must not contain control tokens.
  TokenizeOptions text;
  const std::string message = before_tag(options.message, text_of(vocab, ends.front()));
  text.literal.resize(message.size());
  std::iota(text.literal.begin(), text.literal.end(), 0);
  rest = tokenize(vocab, specials, message, text);
  rest.insert(rest.end(), ends.front().begin(), ends.front().end());
  const int32_t budget = options.budget < 0 ? INT_MAX : options.budget;
  // The part of a block that is in the prompt does not use up the budget, nor the forced end.
  counter.reset(common_reasoning_budget_init(vocab, {start}, ends, rest, INT_MAX));
  for (const llama_token token : begun) llama_sampler_accept(counter.get(), token);
  const auto state = common_reasoning_budget_get_state(counter.get());
  counter.reset(common_reasoning_budget_init(vocab, {start}, ends, rest, budget, state));
}

llama_token Thoughts::forced() {
  if (given_up) return -1;
  if (ends_now && common_reasoning_budget_get_state(counter.get()) != REASONING_BUDGET_IDLE) {
    ends_now = false;
    if (common_reasoning_budget_force(counter.get())) {
      while (at < given) accept(rest[at]);
    }
  }
  const bool forces = common_reasoning_budget_get_state(counter.get()) == REASONING_BUDGET_FORCING;
  return forces && at < rest.size() ? rest[at] : -1;
}

void Thoughts::accept(llama_token token) {
  const bool forces = common_reasoning_budget_get_state(counter.get()) == REASONING_BUDGET_FORCING;
  at = forces ? at + 1 : 0;
  if (!forces) given = 0;
  llama_sampler_accept(counter.get(), token);
}

void Thoughts::resume(const std::vector<llama_token> &tokens) {
  if (common_reasoning_budget_get_state(counter.get()) != REASONING_BUDGET_COUNTING) return;
  const auto ends_with = [&](size_t count) {
    return std::equal(tokens.rbegin(), tokens.rbegin() + static_cast<std::ptrdiff_t>(count),
                      rest.rend() - static_cast<std::ptrdiff_t>(count));
  };
  // Not all of it, because its last token ends the block.
  given = std::min(tokens.size() + 1, rest.size());
  while (given > 0 && !ends_with(--given)) {
  }
}

} // namespace recua
