// Picks a token from a row of logits: the same samplers in the same order as llama.cpp's chain
// (top-k, top-p, min-p, temperature, a draw), but without a candidate array of the whole vocabulary
// and without sorting more than the draw needs. Used on the compute thread.
#pragma once

#include "sampling/row.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace recua {

struct ChoiceOptions {
  float temperature = 0; // 0: take the largest
  int32_t top_k = 0;     // 0: off
  float top_p = 1;
  float min_p = 0;
  // Above this, the chain sorts nearly everything anyway, so llama.cpp's own chain is used.
  static constexpr int32_t largest_top_k = 1024;
};

class Choice {
public:
  Choice(const ChoiceOptions &options, uint32_t seed) : options(options), random(seed) {}

  // Index of the chosen one of `count` logits; -1 if none is a number above -infinity. Draws one
  // random number. Source: llama.cpp v0.5.0, src/llama-sampler.cpp; the draws are equal up to
  // rounding at the edges of intervals. `threads`: how many of llama.cpp's threads may share the
  // row; the draw is the same for any number.
  int64_t pick(const float *logits, size_t count, int32_t threads = 1);

  // Like pick(), but only among the tokens that `allows` accepts, and looking only at some of the
  // best ones. Returns -1, without a draw, if these do not suffice or if the options need more than
  // the best.
  template <typename Allows>
  int64_t pick_of_allowed(const float *logits, size_t count, Allows &&allows) {
    const bool greedy = options.temperature <= 0;
    if (!greedy && options.top_k <= 0) return -1;
    const size_t wanted = greedy ? 1 : std::min<size_t>(options.top_k, count);
    row::survey(logits, count);
    select_best(logits, count, 2 * wanted + spare);
    size_t kept = 0;
    for (size_t i = 0; i < best.size() && kept < wanted; i++) {
      if (best[i].logit > -std::numeric_limits<float>::infinity() && allows(best[i].index)) best[kept++] = best[i];
    }
    if (kept < wanted) return -1;
    best.resize(wanted);
    return greedy ? static_cast<int64_t>(best[0].index) : cut_and_draw(best[0].logit);
  }

  // Random numbers drawn so far. skip() draws and discards up to a count, so that a sampler with
  // the same seed can continue where another one stopped.
  uint32_t draws() const { return drawn; }
  void skip(uint32_t count) {
    while (drawn < count) next();
  }

  struct Entry {
    float logit;
    uint32_t index;
    float weight;
  };

private:
  static constexpr size_t spare = 32;

  // In [0, 1).
  double next() {
    drawn++;
    return std::uniform_real_distribution<double>(0.0, 1.0)(random);
  }
  int64_t cut_and_draw(float largest);
  int64_t pick_above(const float *logits, size_t count, float largest, float least, int32_t threads);
  int64_t pick_of_nucleus(const float *logits, size_t count, float largest, int32_t threads); // nucleus.cpp
  int64_t pick_between(const float *logits, size_t count, float largest, float least, double place, const row::Ranges &ranges, int32_t threads);
  void collect(const float *logits, const std::vector<uint32_t> &lists, size_t row::Split::*listed);
  double weigh(float largest, float scale, float least);
  void select_best(const float *logits, size_t count, size_t wanted);
  int64_t draw(size_t count);

  ChoiceOptions options;
  std::mt19937 random;
  uint32_t drawn = 0;
  // scratch
  std::vector<Entry> best;
  std::vector<float> weights;
  std::vector<row::Split> splits;
};

// Index of the largest logit, the first one if several are equal; -1 if none is a number.
int64_t largest_of(const float *logits, size_t count);

} // namespace recua
