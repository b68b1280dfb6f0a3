#include "sampling/logprobs.h"

#include "sampling/row.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace recua {

Logprobs::Logprobs(int32_t top, bool after, size_t vocabulary)
    : after(after), top(std::min<size_t>(static_cast<size_t>(top), vocabulary)), vocabulary(vocabulary) {}

bool Logprobs::look(const float *logits, int32_t threads) {
  row.resize(vocabulary);
  std::transform(logits, logits + vocabulary, row.begin(), [](float x) { return std::isnan(x) ? row::nothing : x; });
  const float largest = row::survey(row.data(), row.size());
  if (!std::isfinite(largest)) return false;
  log_sum = largest + std::log(row::sum_exponentials(row.data(), row.size(), largest, 1, row::nothing, threads));
  return true;
}

void Logprobs::look_after(const llama_token_data_array &candidates) {
  left.assign(candidates.data, candidates.data + candidates.size);
  std::sort(left.begin(), left.end(), [](const auto &a, const auto &b) { return a.p > b.p || (a.p == b.p && a.id < b.id); });
}

bool Logprobs::score(const float *logits, llama_token token, int32_t threads) {
  if (!look(logits, threads)) return false;
  note_before(token);
  return true;
}

void Logprobs::note(llama_token token) {
  if (after) note_after(token);
  else note_before(token);
}

void Logprobs::note_before(llama_token token) {
  best.clear();
  // The front of the heap holds the least of the best so far; most logits fail against it at once.
  // Of equal logits the first counts as likelier.
  const auto above = [&](llama_token a, llama_token b) {
    const float one = row[static_cast<size_t>(a)], other = row[static_cast<size_t>(b)];
    return one > other || (one == other && a < b);
  };
  for (size_t i = 0; top > 0 && i < row.size(); i++) {
    if (best.size() == top) {
      if (!(row[i] > row[static_cast<size_t>(best.front())])) continue;
      std::pop_heap(best.begin(), best.end(), above);
      best.pop_back();
    }
    best.push_back(static_cast<llama_token>(i));
    std::push_heap(best.begin(), best.end(), above);
  }
  std::sort_heap(best.begin(), best.end(), above);
  const auto value = [&](llama_token of) {
    const auto found = static_cast<float>(row[static_cast<size_t>(of)] - log_sum);
    return after ? std::exp(found) : found;
  };
  const std::lock_guard<std::mutex> lock(mutex);
  noted.values.push_back(value(token));
  for (const llama_token one : best) noted.values.push_back(value(one));
  noted.tokens.insert(noted.tokens.end(), best.begin(), best.end());
}

void Logprobs::note_after(llama_token token) {
  const auto found = std::find_if(left.begin(), left.end(), [&](const auto &one) { return one.id == token; });
  const std::lock_guard<std::mutex> lock(mutex);
  noted.values.push_back(found == left.end() ? 0 : found->p);
  for (size_t i = 0; i < top; i++) {
    const bool is_there = i < left.size() && left[i].p > 0;
    noted.tokens.push_back(is_there ? left[i].id : -1);
    noted.values.push_back(is_there ? left[i].p : 0);
  }
}

Logprobs::Noted Logprobs::take() {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(noted, {});
}

} // namespace recua
