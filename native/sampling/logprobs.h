// How likely the tokens of a request were, if it asks: log probabilities from the model's own
// distribution, before biases, penalties and samplers; or probabilities of the candidates left
// after them. For each token, first look at a row, then note the token. JS takes the results while
// the next step computes.
#pragma once

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace recua {

class Logprobs {
public:
  // `top`: how many of the likeliest tokens to report beside each. `after`: report probabilities
  // after sampling.
  Logprobs(int32_t top, bool after, size_t vocabulary);

  // Compute thread. Copies the row, because samplers change it in place. False if it holds no
  // number above -infinity.
  bool look(const float *logits, int32_t threads);
  // The same for the candidates that the samplers left of the row.
  void look_after(const llama_token_data_array &candidates);
  // Compute thread, or the pool thread that decides a token. `token` was chosen from the last row
  // looked at.
  void note(llama_token token);
  // Compute thread. Looks at a row inside the prompt and notes its known next token, which nothing
  // samples: with `after`, too, from the model's own distribution. False as for look().
  bool score(const float *logits, llama_token token, int32_t threads);
  const bool after;

  struct Noted {
    std::vector<int32_t> tokens; // `top` per noted token, the likeliest first; -1: none
    std::vector<float> values;   // 1 + `top` per noted token: its own value, then theirs
  };
  // Any thread. The results since the last call.
  Noted take();

private:
  void note_before(llama_token token);
  void note_after(llama_token token);

  size_t top;
  size_t vocabulary;
  std::vector<float> row; // empty until the first look
  double log_sum = 0;
  std::vector<llama_token> best; // scratch
  std::vector<llama_token_data> left;

  std::mutex mutex; // guards `noted`
  Noted noted;
};

} // namespace recua
