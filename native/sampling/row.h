// Passes over a row of logits. A row is looked at in parts of a fixed size, which several threads
// may share: what is added up in a part stays in it, and parts are put together in their order, so
// that a result does not depend on the number of threads.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace recua::row {

constexpr float nothing = -INFINITY;
constexpr size_t block = 128;    // logits with one maximum
constexpr size_t stretch = 1024; // logits with one sum
constexpr size_t part = 8192;    // logits that a thread takes at a time

// Scratch of the thread, as large as the largest vocabulary it met.
struct Scratch {
  std::vector<float> maxima, sorted;
  std::vector<double> sums;
  std::vector<uint32_t> cut, drawn; // indices, from each part's beginning on
};
Scratch &scratch();

// Calls work(first, last) for each part. The threads are those that llama.cpp has just computed
// with: OpenMP keeps them for the calling thread, if they are as many.
template <typename Work>
void each_part(size_t count, int32_t threads, Work &&work) {
  const auto parts = static_cast<int32_t>((count + part - 1) / part);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && parts > 1)
  for (int32_t i = 0; i < parts; i++) {
    const size_t first = static_cast<size_t>(i) * part;
    work(first, first + part < count ? first + part : count);
  }
}

// The largest of each block, into the thread's scratch; returns the largest of all, -infinity if
// none is a number above that.
float survey(const float *logits, size_t count);

// e^((logit - largest) · scale), 0 for -infinity and logits below `least`. Relative error below
// 2e-7 near the largest, up to 5e-6 at e^-87, which is the least.
void exponentials(const float *logits, float *weights, size_t count, float largest, float scale, float least);

// The sums of these by stretches, into the thread's scratch; returns all of it.
double sum_exponentials(const float *logits, size_t count, float largest, float scale, float least, int32_t threads);

// What is above, in and below two ranges of logits.
struct Ranges {
  float cut_low, cut_high, draw_low, draw_high; // from low, below high
};
struct Split {
  double total = 0, above_cut = 0;         // e^(logit - largest): of all, of those from cut_high on
  double hot_above_cut = 0, hot_drawn = 0; // e^((logit - largest) · scale): of those from cut_high, from draw_high on
  size_t cut_count = 0, draw_count = 0;    // in the ranges
};
// For one part; the indices of what is in the ranges go into the lists, counted from `first`.
Split split(const float *logits, size_t first, size_t last, float largest, float scale, const Ranges &ranges, uint32_t *cut, uint32_t *drawn);

} // namespace recua::row
