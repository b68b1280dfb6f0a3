#include "sampling/thoughts.h"

#include "reasoning-budget.h"

#include <climits>
#include <numeric>

namespace recua {

Thoughts::Thoughts(const llama_vocab *vocab, const Specials &specials, const std::vector<llama_token> &start,
                   const std::vector<llama_tokens> &ends, const std::vector<llama_token> &begun,
                   const ThoughtsOptions &options) {
  // The message comes from a client, so it must not contain control tokens.
  TokenizeOptions text;
  text.literal.resize(options.message.size());
  std::iota(text.literal.begin(), text.literal.end(), 0);
  rest = tokenize(vocab, specials, options.message, text);
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
    common_reasoning_budget_force(counter.get());
  }
  const bool forces = common_reasoning_budget_get_state(counter.get()) == REASONING_BUDGET_FORCING;
  return forces && at < rest.size() ? rest[at] : -1;
}

void Thoughts::accept(llama_token token) {
  const bool forces = common_reasoning_budget_get_state(counter.get()) == REASONING_BUDGET_FORCING;
  at = forces ? at + 1 : 0;
  llama_sampler_accept(counter.get(), token);
}

} // namespace recua
