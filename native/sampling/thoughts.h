// Where in an answer the model thinks, and when that has to end: after a number of tokens, or on
// request. Then the rest of the block is forced: a message and the closing tag. Belongs to one
// sampler; llama.cpp's reasoning-budget keeps the count.
#pragma once

#include "model/tokens.h"

#include "llama.h"
#include "sampling.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace recua {

struct ThoughtsOptions {
  int32_t budget = -1; // tokens of a block; negative: no limit
  std::string message; // inserted at a forced end
  bool control = false; // the end may be requested
  bool wanted() const { return budget >= 0 || control; }
};

class Thoughts {
public:
  // `begun`: the tokens at the start of the answer that the template has put into the prompt.
  Thoughts(const llama_vocab *vocab, const Specials &specials, const std::vector<llama_token> &start,
           const std::vector<llama_tokens> &ends, const std::vector<llama_token> &begun,
           const ThoughtsOptions &options);

  // The token that has to come next; -1 if the model chooses.
  llama_token forced();
  void accept(llama_token token);
  // Stops forcing the rest, because a grammar does not allow it.
  void give_up() { given_up = true; }
  // Any thread. Ends the block with the next token; if no block has begun yet, as soon as one does.
  void end() { ends_now = true; }
  // After tokens that another sampler gave. If they stop within the rest of a block that was ended
  // on request, the same request continues there.
  void resume(const std::vector<llama_token> &tokens);

private:
  struct FreeSampler {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
  };

  std::unique_ptr<llama_sampler, FreeSampler> counter;
  std::vector<llama_token> rest; // the tokens to force at the end
  size_t at = 0;                 // index into it
  size_t given = 0;              // tokens of it that another sampler gave last
  bool given_up = false;
  std::atomic<bool> ends_now{false};
};

} // namespace recua
