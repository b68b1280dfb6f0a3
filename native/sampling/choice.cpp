// Top-k, min-p, temperature, and the parts that all draws share. Top-p alone is in nucleus.cpp,
// passes over a row are in row.cpp.
#include "sampling/choice.h"
#include "sampling/row.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace recua {

using row::nothing;

int64_t largest_of(const float *logits, size_t count) {
  const float top = row::survey(logits, count);
  if (!std::isfinite(top)) return -1;
  const auto &maxima = row::scratch().maxima;
  const auto first = static_cast<size_t>(std::find(maxima.begin(), maxima.end(), top) - maxima.begin()) * row::block;
  return std::find(logits + first, logits + count, top) - logits;
}

int64_t Choice::pick(const float *logits, size_t count, int32_t threads) {
  if (options.temperature <= 0) return largest_of(logits, count);
  const float largest = row::survey(logits, count);
  if (!std::isfinite(largest)) return -1;
  if (options.top_k > 0) {
    select_best(logits, count, static_cast<size_t>(options.top_k));
    return cut_and_draw(largest);
  }
  if (options.top_p < 1) return pick_of_nucleus(logits, count, largest, threads);
  return pick_above(logits, count, largest, options.min_p > 0 ? largest + std::log(options.min_p) : nothing, threads);
}

// Fills `best` with the `wanted` largest logits in falling order. The row must be surveyed: only
// blocks whose maximum reaches the `wanted`th largest maximum can hold them, so no other block is
// read.
void Choice::select_best(const float *logits, size_t count, size_t wanted) {
  const auto above = [](const Entry &a, const Entry &b) { return a.logit > b.logit; };
  auto &[maxima, sorted, sums, cut, drawn] = row::scratch();
  best.clear();
  wanted = std::min(wanted, count);
  float threshold = nothing; // take all logits above it
  if (wanted <= maxima.size()) {
    sorted = maxima;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, sorted.end(), std::greater<>());
    threshold = std::nextafter(sorted[wanted - 1], nothing);
  }
  const size_t room = 2 * wanted + 4 * row::block;
  for (size_t i = 0; i < maxima.size(); i++) {
    if (!(maxima[i] > threshold)) continue;
    const size_t end = std::min(count, (i + 1) * row::block);
    for (size_t at = i * row::block; at < end; at++) {
      if (logits[at] > threshold) best.push_back({logits[at], static_cast<uint32_t>(at), 0});
    }
    if (best.size() < room) continue;
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, best.end(), above);
    best.resize(wanted);
    threshold = best.back().logit;
  }
  wanted = std::min(wanted, best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(wanted), best.end(), above);
  best.resize(wanted);
}

// Applies top-p and min-p to `best`, and draws.
int64_t Choice::cut_and_draw(float largest) {
  size_t kept = best.size();
  if (options.top_p < 1) {
    float sum = 0;
    for (Entry &entry : best) sum += entry.weight = std::exp(entry.logit - largest);
    float reached = 0;
    for (size_t i = 0; i < kept; i++) {
      reached += best[i].weight / sum;
      if (reached >= options.top_p) kept = i + 1;
    }
  }
  if (options.min_p > 0) {
    const float least = largest + std::log(options.min_p);
    for (size_t i = 1; i < kept; i++) {
      if (best[i].logit < least) kept = i;
    }
  }
  return draw(kept);
}

// Draws from the first `count` entries of `best`, in their order.
int64_t Choice::draw(size_t count) {
  if (count == 0) return -1;
  if (count == 1) {
    next();
    return best[0].index;
  }
  float largest = nothing;
  for (size_t i = 0; i < count; i++) {
    best[i].weight = best[i].logit / options.temperature;
    largest = std::max(largest, best[i].weight);
  }
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += best[i].weight = std::exp(best[i].weight - largest);
  const double target = sum * next();
  double reached = 0;
  for (size_t i = 0; i < count; i++) {
    reached += best[i].weight;
    if (reached >= target) return best[i].index;
  }
  return best[count - 1].index;
}

// Draws from all logits >= `least`, in the row's order.
int64_t Choice::pick_above(const float *logits, size_t count, float largest, float least, int32_t threads) {
  const float scale = 1 / options.temperature;
  const double sum = row::sum_exponentials(logits, count, largest, scale, least, threads);
  const double target = sum * next();
  double reached = 0;
  size_t start = 0;
  for (const double part : row::scratch().sums) {
    if (reached + part >= target || start + row::stretch >= count) break;
    reached += part;
    start += row::stretch;
  }
  int64_t last = -1;
  weights.resize(row::stretch);
  for (; start < count; start += row::stretch) {
    const size_t length = std::min(row::stretch, count - start);
    row::exponentials(logits + start, weights.data(), length, largest, scale, least);
    for (size_t i = 0; i < length; i++) {
      if (weights[i] <= 0) continue;
      reached += weights[i];
      last = static_cast<int64_t>(start + i);
      if (reached >= target) return last;
    }
  }
  return last >= 0 ? last : largest_of(logits, count); // rounding may leave the last share unclaimed
}

} // namespace recua
