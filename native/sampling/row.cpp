// Plain loops over blocks, which compilers vectorize. Where the compiler supports a choice at run
// time, they are compiled for newer instruction sets beside the baseline. Sixteen lanes everywhere,
// so that sums do not depend on the vector width.
#include "sampling/row.h"

#include <algorithm>
#include <cstring>
#include <limits>

// The choice is made while the library is loaded, when ThreadSanitizer's runtime cannot be called
// yet.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#define RECUA_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RECUA_VECTORS
#endif

namespace recua::row {

namespace {

constexpr size_t lanes = 16;

// The sum of a stretch, whose values it overwrites; rounding errors stay within the stretch. Adds
// halves to each other, so that no addition waits for another.
inline double fold(float *values) {
  for (size_t half = stretch / 2; half >= lanes; half /= 2) {
    for (size_t i = 0; i < half; i++) values[i] += values[i + half];
  }
  double sum = 0;
  for (size_t lane = 0; lane < lanes; lane++) sum += values[lane];
  return sum;
}

// NaN counts as smaller than everything else.
inline float larger(float a, float b) {
  const float known = b == b ? b : nothing;
  return a > known ? a : known;
}

// e^x for x <= 0 as 2^(x · log2 e): 2^n · 2^f with a polynomial for f in [-½, ½]. Below -87 it is
// negligible, but not 0.
inline float fast_exp(float x) {
  constexpr float to_powers_of_two = 1.44269504f;
  constexpr float rounder = 12582912.0f; // 1.5 · 2^23: adding it rounds a small number to a whole one, in the lowest bits
  const float clamped = x > -87.0f ? x : -87.0f;
  const float shifted = clamped * to_powers_of_two + rounder;
  const float f = clamped * to_powers_of_two - (shifted - rounder);
  float p = 1.327647012e-3f;
  p = p * f + 9.675541320e-3f;
  p = p * f + 5.550713279e-2f;
  p = p * f + 2.402211972e-1f;
  p = p * f + 6.931469671e-1f;
  p = p * f + 1.000000072f;
  uint32_t bits, exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

// The lower bound; without it -infinity would get a weight.
constexpr float smallest_logit = std::numeric_limits<float>::lowest();

inline float weight_of(float logit, float largest, float scale, float least) {
  const float weight = fast_exp((logit - largest) * scale);
  return logit >= least ? weight : 0.0f;
}

// The larger of each half's values, then of half of those, and so on down to one.
RECUA_VECTORS void block_maxima(const float *logits, size_t count, float *maxima) {
  float top[block / 2];
  for (; count >= block; count -= block, logits += block) {
    for (size_t i = 0; i < block / 2; i++) top[i] = larger(logits[i], logits[i + block / 2]);
    for (size_t i = 0; i < block / 4; i++) top[i] = larger(top[i], top[i + block / 4]);
    for (size_t i = 0; i < block / 8; i++) top[i] = larger(top[i], top[i + block / 8]);
    for (size_t i = 0; i < block / 16; i++) top[i] = larger(top[i], top[i + block / 16]);
    for (size_t i = 0; i < block / 32; i++) top[i] = larger(top[i], top[i + block / 32]);
    *maxima++ = larger(larger(top[0], top[1]), larger(top[2], top[3]));
  }
  if (count == 0) return;
  *maxima = nothing;
  for (size_t i = 0; i < count; i++) *maxima = larger(logits[i], *maxima);
}

// The weights of a stretch go through a buffer in the nearest cache: compilers do not vectorize
// loops that also add up.
RECUA_VECTORS void stretch_sums(const float *logits, size_t count, float largest, float scale, float least, double *sums) {
  alignas(64) float weights[stretch];
  least = std::max(least, smallest_logit);
  for (size_t start = 0; start < count; start += stretch) {
    const size_t length = std::min(stretch, count - start);
    const float *from = logits + start;
    for (size_t i = 0; i < length; i++) weights[i] = weight_of(from[i], largest, scale, least);
    std::fill(weights + length, weights + stretch, 0.0f);
    *sums++ = fold(weights);
  }
}

// 1 for logits in the first range, 2 for the second, 3 for both.
RECUA_VECTORS void mark(const float *logits, size_t count, const Ranges &ranges, uint8_t *marks) {
  const Ranges r = ranges;
  for (size_t i = 0; i < count; i++) {
    const float x = logits[i];
    marks[i] = static_cast<uint8_t>(((x >= r.cut_low) & (x < r.cut_high)) | (((x >= r.draw_low) & (x < r.draw_high)) << 1));
  }
}

RECUA_VECTORS void add_stretch(const float *logits, size_t count, float largest, float scale, float cut, float draw, Split &split) {
  alignas(64) float weights[stretch];
  alignas(64) float above[stretch];
  for (size_t i = 0; i < count; i++) {
    const float weight = fast_exp(logits[i] - largest);
    weights[i] = weight;
    above[i] = logits[i] >= cut ? weight : 0.0f;
  }
  std::fill(weights + count, weights + stretch, 0.0f);
  std::fill(above + count, above + stretch, 0.0f);
  split.total += fold(weights);
  split.above_cut += fold(above);
  for (size_t i = 0; i < count; i++) {
    const float weight = fast_exp((logits[i] - largest) * scale);
    weights[i] = logits[i] >= cut ? weight : 0.0f;
    above[i] = logits[i] >= draw ? weight : 0.0f;
  }
  std::fill(weights + count, weights + stretch, 0.0f);
  std::fill(above + count, above + stretch, 0.0f);
  split.hot_above_cut += fold(weights);
  split.hot_drawn += fold(above);
}

} // namespace

Scratch &scratch() {
  static thread_local Scratch own;
  return own;
}

float survey(const float *logits, size_t count) {
  auto &maxima = scratch().maxima;
  maxima.resize((count + block - 1) / block);
  block_maxima(logits, count, maxima.data());
  float largest = nothing;
  for (const float one : maxima) largest = one > largest ? one : largest;
  return largest;
}

RECUA_VECTORS void exponentials(const float *logits, float *weights, size_t count, float largest, float scale, float least) {
  least = std::max(least, smallest_logit);
  for (size_t i = 0; i < count; i++) weights[i] = weight_of(logits[i], largest, scale, least);
}

double sum_exponentials(const float *logits, size_t count, float largest, float scale, float least, int32_t threads) {
  auto &sums = scratch().sums; // this thread's, whichever thread fills it
  sums.resize((count + stretch - 1) / stretch);
  each_part(count, threads, [&, to = sums.data()](size_t first, size_t last) {
    stretch_sums(logits + first, last - first, largest, scale, least, to + first / stretch);
  });
  double sum = 0;
  for (const double one : sums) sum += one;
  return sum;
}

Split split(const float *logits, size_t first, size_t last, float largest, float scale, const Ranges &ranges, uint32_t *cut, uint32_t *drawn) {
  Split split;
  alignas(64) uint8_t marks[stretch];
  for (size_t start = first; start < last; start += stretch) {
    const size_t count = std::min(stretch, last - start);
    add_stretch(logits + start, count, largest, scale, ranges.cut_high, ranges.draw_high, split);
    mark(logits + start, count, ranges, marks);
    std::memset(marks + count, 0, stretch - count);
    // Few are marked, so look at eight at once.
    for (size_t word = 0; word < count; word += sizeof(uint64_t)) {
      uint64_t any;
      std::memcpy(&any, marks + word, sizeof any);
      if (any == 0) continue;
      for (size_t i = word; i < word + sizeof any; i++) {
        if (marks[i] == 0) continue;
        cut[split.cut_count] = drawn[split.draw_count] = static_cast<uint32_t>(start + i);
        split.cut_count += marks[i] & 1;
        split.draw_count += marks[i] >> 1;
      }
    }
  }
  return split;
}

} // namespace recua::row
