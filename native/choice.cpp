// The passes over a whole row are plain loops over blocks, which compilers turn into vector instructions, compiled for newer
// instruction sets beside the baseline where the compiler can choose at run time.
#include "choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define RECUA_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RECUA_VECTORS
#endif

namespace recua {

namespace {

constexpr size_t block = 64;
constexpr float nothing = -INFINITY;

RECUA_VECTORS float maximum(const float *values, size_t count) {
  constexpr size_t lanes = 16;
  float top[lanes];
  for (float &lane : top) lane = nothing;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (size_t lane = 0; lane < lanes; lane++) top[lane] = values[i + lane] > top[lane] ? values[i + lane] : top[lane];
  }
  float largest = nothing;
  for (const float lane : top) largest = std::max(largest, lane);
  for (; i < count; i++) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

// e^x for x <= 0 by 2^i · 2^f with a polynomial for f in [-½, ½]; relative error below 2e-7. 0 below -87.
inline float fast_exp(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float scaled = clamped * 1.44269504f;
  const float rounded = (scaled + 12582912.0f) - 12582912.0f;
  const float f = (clamped - rounded * 0.693359375f) + rounded * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = (p * f) * f + f + 1.0f;
  const int32_t exponent = (static_cast<int32_t>(rounded) + 127) << 23;
  float power;
  std::memcpy(&power, &exponent, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

// The sum of a stretch; its rounding errors stay within the stretch.
inline double sum_of(const float *values, size_t count) {
  constexpr size_t lanes = 16;
  float parts[lanes] = {};
  double sum = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (size_t lane = 0; lane < lanes; lane++) parts[lane] += values[i + lane];
  }
  for (const float part : parts) sum += part;
  for (; i < count; i++) sum += values[i];
  return sum;
}

constexpr size_t stretch = 1024;

// weights[i] = e^((logit - largest) · scale), 0 for logits below `least`. `sums` gets one sum per stretch; returns all of it.
RECUA_VECTORS double exponentials(const float *logits, float *weights, size_t count, float largest, float scale, float least, std::vector<double> &sums) {
  sums.clear();
  double sum = 0;
  for (size_t start = 0; start < count; start += stretch) {
    const size_t end = std::min(count, start + stretch);
    for (size_t i = start; i < end; i++) {
      const float weight = fast_exp((logits[i] - largest) * scale);
      weights[i] = logits[i] >= least ? weight : 0.0f;
    }
    sums.push_back(sum_of(weights + start, end - start));
    sum += sums.back();
  }
  return sum;
}

// Scratch of the thread, as large as the largest vocabulary it met.
struct Scratch {
  std::vector<float> weights;
  std::vector<uint16_t> numbers;
  std::vector<double> sums;
};

Scratch &scratch(size_t count) {
  static thread_local Scratch own;
  if (own.weights.size() < count) {
    own.weights.resize(count);
    own.numbers.resize(count);
  }
  return own;
}

} // namespace

int64_t largest_of(const float *logits, size_t count) {
  const float top = maximum(logits, count);
  for (size_t i = 0; i < count; i++) {
    if (logits[i] == top) return top > nothing ? static_cast<int64_t>(i) : -1;
  }
  return -1;
}

int64_t Choice::pick(const float *logits, size_t count) {
  if (options.temperature <= 0) return largest_of(logits, count);
  const float largest = maximum(logits, count);
  if (!(largest > nothing)) return -1;
  if (options.top_k > 0) {
    select_best(logits, count, static_cast<size_t>(options.top_k));
    return cut_and_draw(largest);
  }
  if (options.top_p < 1) return pick_of_nucleus(logits, count, largest);
  return pick_above(logits, count, largest, options.min_p > 0 ? largest + std::log(options.min_p) : nothing);
}

// `best` becomes the `wanted` largest in falling order. A threshold rises while the row is read, so that few entries are kept.
void Choice::select_best(const float *logits, size_t count, size_t wanted) {
  const auto above = [](const Entry &a, const Entry &b) { return a.logit > b.logit; };
  best.clear();
  wanted = std::min(wanted, count);
  const size_t room = 2 * wanted + 4 * block;
  float threshold = nothing;
  for (size_t start = 0; start < count; start += block) {
    const size_t end = std::min(count, start + block);
    if (maximum(logits + start, end - start) <= threshold) continue;
    for (size_t i = start; i < end; i++) {
      if (logits[i] > threshold) best.push_back({logits[i], static_cast<uint32_t>(i), 0});
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

// Top-p, min-p and the draw among `best`.
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
  std::uniform_real_distribution<double> distribution(0.0, 1.0);
  if (count == 0) return -1;
  if (count == 1) {
    distribution(random);
    return best[0].index;
  }
  float largest = nothing;
  for (size_t i = 0; i < count; i++) {
    best[i].weight = best[i].logit / options.temperature;
    largest = std::max(largest, best[i].weight);
  }
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += best[i].weight = std::exp(best[i].weight - largest);
  const double target = sum * distribution(random);
  double reached = 0;
  for (size_t i = 0; i < count; i++) {
    reached += best[i].weight;
    if (reached >= target) return best[i].index;
  }
  return best[count - 1].index;
}

// Of all at least `least`, in the row's order.
int64_t Choice::pick_above(const float *logits, size_t count, float largest, float least) {
  auto &[weights, numbers, sums] = scratch(count);
  const double sum = exponentials(logits, weights.data(), count, largest, 1 / options.temperature, least, sums);
  std::uniform_real_distribution<double> distribution(0.0, 1.0);
  const double target = sum * distribution(random);
  double reached = 0;
  size_t start = 0;
  for (const double part : sums) {
    if (reached + part >= target || start + stretch >= count) break;
    reached += part;
    start += stretch;
  }
  int64_t last = -1;
  for (size_t i = start; i < count; i++) {
    if (weights[i] <= 0) continue;
    reached += weights[i];
    last = static_cast<int64_t>(i);
    if (reached >= target) return last;
  }
  return last >= 0 ? last : largest_of(logits, count); // rounding may leave the last share to nobody
}

// Top-p without top-k. Mostly the nucleus is small; then its head is all that is sorted.
int64_t Choice::pick_of_nucleus(const float *logits, size_t count, float largest) {
  constexpr size_t head = 256;
  auto &[weights, numbers, sums] = scratch(count);
  const double sum = exponentials(logits, weights.data(), count, largest, 1, nothing, sums);
  const double wanted = options.top_p * sum;
  if (count > 4 * head && static_cast<double>(head) < wanted) return pick_of_buckets(logits, count, largest, wanted);
  select_best(logits, count, count > 4 * head ? head : count);
  size_t kept = best.size();
  double reached = 0;
  for (size_t i = 0; i < kept; i++) {
    reached += weights[best[i].index];
    if (reached >= wanted) kept = i + 1;
  }
  if (reached < wanted && best.size() < count) return pick_of_buckets(logits, count, largest, wanted);
  if (options.min_p > 0) {
    const float least = largest + std::log(options.min_p);
    for (size_t i = 1; i < kept; i++) {
      if (best[i].logit < least) kept = i;
    }
  }
  return draw(kept);
}

namespace {

// The row by how far a logit is below the largest: within a bucket the order is open until it is needed.
constexpr size_t buckets = 2048;
// What is further below the largest has no share worth counting, however many they are.
constexpr float deepest = 32;

RECUA_VECTORS void bucket_numbers(const float *logits, uint16_t *numbers, size_t count, float largest) {
  constexpr auto last = static_cast<float>(buckets - 1);
  constexpr size_t lanes = 16;
  float lowest[lanes];
  for (float &lane : lowest) lane = largest;
  for (size_t i = 0; i + lanes <= count; i += lanes) {
    for (size_t lane = 0; lane < lanes; lane++) lowest[lane] = logits[i + lane] < lowest[lane] ? logits[i + lane] : lowest[lane];
  }
  const float range = largest - *std::min_element(lowest, lowest + lanes);
  const float scale = last / std::max(std::min(range, deepest), 1e-6f);
  for (size_t i = 0; i < count; i++) {
    const float at = (largest - logits[i]) * scale;
    numbers[i] = static_cast<uint16_t>(static_cast<int32_t>(at < last ? at : last));
  }
}

RECUA_VECTORS bool any_equal(const uint16_t *numbers, size_t count, uint16_t wanted) {
  uint16_t found = 0;
  for (size_t i = 0; i < count; i++) found |= static_cast<uint16_t>(numbers[i] == wanted);
  return found != 0;
}

// Four tables side by side: neighbours often fall into one bucket, and would wait for each other's sum.
void add_masses(const float *weights, const uint16_t *numbers, size_t count, double *masses) {
  static thread_local double parts[4][buckets];
  std::fill(&parts[0][0], &parts[0][0] + 4 * buckets, 0.0);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < 4; lane++) parts[lane][numbers[i + lane]] += weights[i + lane];
  }
  for (; i < count; i++) parts[0][numbers[i]] += weights[i];
  for (size_t bucket = 0; bucket < buckets; bucket++) masses[bucket] = parts[0][bucket] + parts[1][bucket] + parts[2][bucket] + parts[3][bucket];
}

} // namespace

// `best` becomes a bucket's entries, in falling order.
void Choice::gather(const float *logits, size_t count, size_t bucket, float least) {
  const auto &[weights, numbers, sums] = scratch(count);
  best.clear();
  for (size_t start = 0; start < count; start += block) {
    const size_t end = std::min(count, start + block);
    if (!any_equal(numbers.data() + start, end - start, static_cast<uint16_t>(bucket))) continue;
    for (size_t i = start; i < end; i++) {
      if (numbers[i] == bucket && logits[i] >= least) best.push_back({logits[i], static_cast<uint32_t>(i), weights[i]});
    }
  }
  std::sort(best.begin(), best.end(), [](const Entry &a, const Entry &b) { return a.logit > b.logit; });
}

// A nucleus of many: by masses of buckets of logits first where it ends, then where the draw falls. Only these two buckets are sorted.
// The scratch holds the weights at temperature 1.
int64_t Choice::pick_of_buckets(const float *logits, size_t count, float largest, double wanted) {
  auto &[weights, numbers, sums] = scratch(count);
  bucket_numbers(logits, numbers.data(), count, largest);
  double masses[buckets];
  add_masses(weights.data(), numbers.data(), count, masses);
  double reached = 0;
  size_t last = 0;
  while (last + 1 < buckets && reached + masses[last] < wanted) reached += masses[last++];
  gather(logits, count, last, nothing);
  float least = nothing;
  for (const Entry &entry : best) {
    least = entry.logit;
    reached += entry.weight;
    if (reached >= wanted) break;
  }
  if (options.min_p > 0) least = std::max(least, largest + std::log(options.min_p));

  const double sum = exponentials(logits, weights.data(), count, largest, 1 / options.temperature, least, sums);
  add_masses(weights.data(), numbers.data(), count, masses);
  std::uniform_real_distribution<double> distribution(0.0, 1.0);
  const double target = sum * distribution(random);
  reached = 0;
  size_t chosen = 0;
  while (chosen < last && reached + masses[chosen] < target) reached += masses[chosen++];
  gather(logits, count, chosen, least);
  for (const Entry &entry : best) {
    reached += entry.weight;
    if (reached >= target) return entry.index;
  }
  return best.empty() ? largest_of(logits, count) : static_cast<int64_t>(best.back().index); // rounding
}

} // namespace recua
