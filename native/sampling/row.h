// Passes over a row of logits. A row is processed in parts of a fixed size, which several threads
// may share. Sums stay within a part, and parts are combined in order, so a result does not depend
// on the number of threads.
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

// Per-thread scratch memory, as large as the largest vocabulary seen.
struct Scratch {
  std::vector<float> maxima, sorted;
  std::vector<double> sums;
  std::vector<uint32_t> cut, drawn; // indices, relative to the start of each part
};
Scratch &scratch();

// Calls work(first, last) for each part. The threads are those that llama.cpp has just computed
// with: OpenMP keeps them for the calling thread if the count is the same.
template <typename Work>
void each_part(size_t count, int32_t threads, Work &&work) {
  const auto parts = static_cast<int32_t>((count + part - 1) / part);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && parts > 1)
  for (int32_t i = 0; i < parts; i++) {
    const size_t first = static_cast<size_t>(i) * part;
    work(first, first + part < count ? first + part : count);
  }
}

// Writes the largest logit of each block into the thread's scratch. Returns the largest of all,
// -infinity if no logit is a number above that.
float survey(const float *logits, size_t count);

// e^((logit - largest) · scale); 0 for -infinity and for logits below `least`. The relative error
// is below 2e-7 near the largest and up to 5e-6 at e^-87, the smallest value.
void exponentials(const float *logits, float *weights, size_t count, float largest, float scale, float least);

// Writes the sums of these by stretch into the thread's scratch; returns the total.
double sum_exponentials(const float *logits, size_t count, float largest, float scale, float least, int32_t threads);

// Two ranges of logits. Each includes its low end and excludes its high end.
struct Ranges {
  float cut_low, cut_high, draw_low, draw_high;
};
struct Split {
  double total = 0, above_cut = 0;         // e^(logit - largest): of all; of those from cut_high on
  double hot_above_cut = 0, hot_drawn = 0; // e^((logit - largest) · scale): from cut_high on; from draw_high on
  size_t cut_count = 0, draw_count = 0;    // in the ranges
};
// Processes one part. The lists get the indices of logits in the ranges, relative to `first`.
Split split(const float *logits, size_t first, size_t last, float largest, float scale, const Ranges &ranges, uint32_t *cut, uint32_t *drawn);

} // namespace recua::row
