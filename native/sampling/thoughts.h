// Where in an answer the model thinks, and when that has to end: after so many tokens, or when it
// is told to. Then the rest of the block is given: a message, and what closes it. Belongs to one
// sampler; llama.cpp's reasoning-budget keeps the count.
#pragma once

#include "llama.h"
#include "sampling.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace recua {

struct ThoughtsOptions {
  int32_t budget = -1; // tokens of a block; negative is without end
  std::string message; // said at the end that comes of it
  bool control = false; // it may be told to end
  bool wanted() const { return budget >= 0 || control; }
};

class Thoughts {
public:
  // `begun`: what the template has put into the prompt as the answer's beginning.
  Thoughts(const llama_vocab *vocab, const std::vector<llama_token> &start,
           const std::vector<llama_tokens> &ends, const std::vector<llama_token> &begun,
           const ThoughtsOptions &options);

  // The token that has to come next; -1 where the model has the word.
  llama_token forced();
  void accept(llama_token token);
  // The rest is not forced after all: a grammar has other ideas.
  void give_up() { given_up = true; }
  // Any thread. The block ends with the next token; where none was begun yet, as soon as one is.
  void end() { ends_now = true; }

private:
  struct FreeSampler {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
  };

  std::unique_ptr<llama_sampler, FreeSampler> counter;
  std::vector<llama_token> rest; // what is given at the end
  size_t at = 0;                 // of it
  bool given_up = false;
  std::atomic<bool> ends_now{false};
};

} // namespace recua
