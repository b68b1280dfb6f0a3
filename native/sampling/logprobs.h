// How likely the tokens of a request were that asks for it: log probabilities of the distribution
// as the model gave it, before biases, penalties and samplers; or probabilities of what these left.
// One row is looked at, then the token of that row is noted. JS takes what was noted while the next
// step computes.
#pragma once

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace recua {

class Logprobs {
public:
  // `top`: how many of the likeliest tokens are told beside each. `after`: probabilities after
  // sampling.
  Logprobs(int32_t top, bool after, size_t vocabulary);

  // Compute thread. Copies the row, which samplers change in place. False where it holds no number
  // above -infinity.
  bool look(const float *logits, int32_t threads);
  // The same, instead: what the samplers left of the row.
  void look_after(const llama_token_data_array &candidates);
  // Compute thread, or the pool thread that decides a token. `token` came of the row looked at.
  void note(llama_token token);
  const bool after;

  struct Noted {
    std::vector<int32_t> tokens; // `top` for each that was noted, the likeliest first; -1 is none
    std::vector<float> values;   // 1 + `top` for each: the token's own, then those
  };
  // Any thread. What was noted since the last call.
  Noted take();

private:
  void note_after(llama_token token);

  size_t top;
  std::vector<float> row;
  double log_sum = 0;
  std::vector<llama_token> best; // scratch
  std::vector<llama_token_data> left;

  std::mutex mutex; // guards `noted`
  Noted noted;
};

} // namespace recua
