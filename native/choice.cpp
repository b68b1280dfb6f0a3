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

// weights[i] = e^((logit - largest) · scale); returns their sum.
RECUA_VECTORS double exponentials(const float *logits, float *weights, size_t count, float largest, float scale) {
  constexpr size_t lanes = 16;
  double sum = 0;
  for (size_t start = 0; start < count; start += 1024) {
    const size_t end = std::min(count, start + 1024);
    for (size_t i = start; i < end; i++) weights[i] = fast_exp((logits[i] - largest) * scale);
    float parts[lanes] = {};
    size_t i = start;
    for (; i + lanes <= end; i += lanes) {
      for (size_t lane = 0; lane < lanes; lane++) parts[lane] += weights[i + lane];
    }
    for (const float part : parts) sum += part;
    for (; i < end; i++) sum += weights[i];
  }
  return sum;
}

// Scratch of the thread, as large as the largest vocabulary it met.
std::vector<float> &scratch(size_t count) {
  static thread_local std::vector<float> weights;
  if (weights.size() < count) weights.resize(count);
  return weights;
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
  if (options.top_k > 0) return pick_of_best(logits, count, largest);
  if (options.top_p < 1) return pick_of_nucleus(logits, count, largest);
  if (options.min_p > 0) return pick_above(logits, count, largest, largest + std::log(options.min_p));
  return pick_of_all(logits, count, largest);
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

int64_t Choice::pick_of_best(const float *logits, size_t count, float largest) {
  select_best(logits, count, static_cast<size_t>(options.top_k));
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

// All at least `least`, in the row's order.
int64_t Choice::pick_above(const float *logits, size_t count, float largest, float least) {
  (void)largest;
  best.clear();
  for (size_t start = 0; start < count; start += block) {
    const size_t end = std::min(count, start + block);
    if (maximum(logits + start, end - start) < least) continue;
    for (size_t i = start; i < end; i++) {
      if (logits[i] >= least) best.push_back({logits[i], static_cast<uint32_t>(i), 0});
    }
  }
  return draw(best.size());
}

int64_t Choice::pick_of_all(const float *logits, size_t count, float largest) {
  std::vector<float> &weights = scratch(count);
  const double sum = exponentials(logits, weights.data(), count, largest, 1 / options.temperature);
  std::uniform_real_distribution<double> distribution(0.0, 1.0);
  const double target = sum * distribution(random);
  double reached = 0;
  int64_t last = -1;
  for (size_t i = 0; i < count; i++) {
    if (weights[i] <= 0) continue;
    reached += weights[i];
    last = static_cast<int64_t>(i);
    if (reached >= target) return last;
  }
  return last;
}

// Top-p without top-k. Mostly the nucleus is small; then its head is all that is sorted.
int64_t Choice::pick_of_nucleus(const float *logits, size_t count, float largest) {
  constexpr size_t head = 256;
  std::vector<float> &weights = scratch(count);
  const double sum = exponentials(logits, weights.data(), count, largest, 1);
  const double wanted = options.top_p * sum;
  if (count > 4 * head && static_cast<double>(head) < wanted) return pick_of_buckets(logits, weights.data(), count, largest, wanted);
  select_best(logits, count, count > 4 * head ? head : count);
  size_t kept = best.size();
  double reached = 0;
  for (size_t i = 0; i < kept; i++) {
    reached += weights[best[i].index];
    if (reached >= wanted) kept = i + 1;
  }
  if (reached < wanted && best.size() < count) return pick_of_buckets(logits, weights.data(), count, largest, wanted);
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
constexpr float bucket_scale = 64;

RECUA_VECTORS void bucket_numbers(const float *logits, uint16_t *numbers, size_t count, float largest) {
  constexpr auto last = static_cast<float>(buckets - 1);
  for (size_t i = 0; i < count; i++) {
    const float at = (largest - logits[i]) * bucket_scale;
    numbers[i] = static_cast<uint16_t>(static_cast<int32_t>(at < last ? at : last));
  }
}

} // namespace

int64_t Choice::pick_of_buckets(const float *logits, const float *weights, size_t count, float largest, double wanted) {
  static thread_local std::vector<uint16_t> numbers;
  if (numbers.size() < count) numbers.resize(count);
  bucket_numbers(logits, numbers.data(), count, largest);
  const auto gather = [&](size_t bucket, float least) {
    best.clear();
    for (size_t i = 0; i < count; i++) {
      if (numbers[i] == bucket && logits[i] >= least) best.push_back({logits[i], static_cast<uint32_t>(i), weights[i]});
    }
    std::sort(best.begin(), best.end(), [](const Entry &a, const Entry &b) { return a.logit > b.logit; });
  };

  // Where the nucleus ends: the bucket, then the entry in it.
  double masses[buckets] = {};
  for (size_t i = 0; i < count; i++) masses[numbers[i]] += weights[i];
  double reached = 0;
  size_t last = 0;
  while (last + 1 < buckets && reached + masses[last] < wanted) reached += masses[last++];
  gather(last, nothing);
  float least = nothing;
  for (const Entry &entry : best) {
    least = entry.logit;
    reached += entry.weight;
    if (reached >= wanted) break;
  }
  if (options.min_p > 0) least = std::max(least, largest + std::log(options.min_p));

  // The draw, with the temperature on.
  const float scale = 1 / options.temperature;
  const auto weight_of = [&](size_t i) { return logits[i] >= least ? fast_exp((logits[i] - largest) * scale) : 0.0f; };
  double sum = 0;
  std::fill(std::begin(masses), std::end(masses), 0.0);
  for (size_t i = 0; i < count; i++) {
    if (numbers[i] > last) continue;
    masses[numbers[i]] += weight_of(i);
  }
  for (const double mass : masses) sum += mass;
  std::uniform_real_distribution<double> distribution(0.0, 1.0);
  const double target = sum * distribution(random);
  reached = 0;
  size_t chosen = 0;
  while (chosen < last && reached + masses[chosen] < target) reached += masses[chosen++];
  gather(chosen, least);
  int64_t found = -1;
  for (const Entry &entry : best) {
    found = entry.index;
    reached += weight_of(entry.index);
    if (reached >= target) break;
  }
  // Rounding may leave the last bucket's share to nobody.
  return found >= 0 ? found : largest_of(logits, count);
}

} // namespace recua
