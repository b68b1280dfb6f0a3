// Top-p without top-k, as OpenAI's clients send it, without sorting the row. A sample of the row
// gives an estimate of where the nucleus ends and where the draw falls. Then one pass adds up
// everything above these two places and keeps the few logits around them, among which both are
// found exactly. A wrong estimate is detected, and the pass repeated with more room.
#include "sampling/choice.h"
#include "sampling/row.h"

#include <algorithm>
#include <cmath>

namespace recua {

namespace {

using row::nothing;

// The largest logits, which a sample would miss, and their weight.
struct Head {
  float least = INFINITY; // the smallest of them
  double weight = 0, hot = 0;
};

// Counts the logits of a row by bucket, from an eighth of the row.
class Sketch {
public:
  Sketch(const float *logits, size_t count, float largest) : largest(largest) {
    constexpr size_t run = 32, every = 256;
    float lowest[run];
    std::fill(lowest, lowest + run, largest);
    for (size_t start = 0; start + run <= count; start += every) {
      for (size_t i = 0; i < run; i++) lowest[i] = logits[start + i] < lowest[i] ? logits[start + i] : lowest[i];
    }
    const float range = largest - *std::min_element(lowest, lowest + run);
    scale = static_cast<float>(buckets) / std::max(std::min(range, deepest), 1e-6f);
    // Two tables, because neighbors often fall into one bucket and would wait for each other's
    // count.
    uint32_t other[buckets] = {};
    size_t sampled = 0;
    for (size_t start = 0; start + run <= count; start += every, sampled += run) {
      for (size_t i = start; i < start + run; i += 2) {
        counts[bucket_of(logits[i])]++;
        other[bucket_of(logits[i + 1])]++;
      }
    }
    for (size_t i = 0; i < buckets; i++) counts[i] += other[i];
    share = static_cast<double>(count) / static_cast<double>(std::max<size_t>(1, sampled));
  }

  // The weight of all logits together: e^(logit - largest) each.
  double total() const {
    float each[buckets];
    weigh(each, 1);
    double sum = 0;
    for (size_t i = 0; i < buckets; i++) sum += counts[i] * each[i];
    return sum * share;
  }

  // Ranges around the end of the nucleus and around the place of the draw in it. `width`: room on
  // each side, in standard deviations.
  row::Ranges ranges(double top_p, double place, float hot_scale, const Head &head, float least, double width) const {
    const size_t first = head.least > largest ? 0 : bucket_of(head.least) + 1;
    row::Ranges found{};
    const size_t end = range(1, first, buckets, head.weight, top_p, width, found.cut_low, found.cut_high) + 1;
    if (least >= found.cut_high) found.cut_low = found.cut_high = least; // min-p cuts more than top-p does
    const size_t last = least > largest - deepest ? std::min(end, bucket_of(least) + 1) : end;
    range(hot_scale, std::min(first, last), last, head.hot, place, width, found.draw_low, found.draw_high);
    found.draw_low = std::max(found.draw_low, found.cut_low);
    return found;
  }

private:
  static constexpr size_t buckets = 1024;
  // Logits further below the largest have no share worth counting, however many there are.
  static constexpr float deepest = 32;

  size_t bucket_of(float logit) const {
    const float at = (largest - logit) * scale;
    return at < static_cast<float>(buckets - 1) ? static_cast<size_t>(at) : buckets - 1; // NaN goes into the last one, too
  }
  // The weight of one logit in the middle of each bucket.
  void weigh(float *each, float by) const {
    for (size_t i = 0; i < buckets; i++) each[i] = -(static_cast<float>(i) + 0.5f) / scale;
    row::exponentials(each, each, buckets, 0, by, nothing);
  }
  float top_of(size_t bucket) const { return largest - static_cast<float>(bucket) / scale; }

  // Finds where the given part of the weight of the head and the buckets [first, last) is reached,
  // with room around it; returns that bucket.
  size_t range(float by, size_t first, size_t last, double head, double part, double width, float &low, float &high) const {
    float each[buckets];
    weigh(each, by);
    double weights[buckets];
    double total = head;
    for (size_t i = first; i < last; i++) total += weights[i] = counts[i] * each[i] * share;
    const double wanted = part * total;
    double reached = head;
    double above = 0, below = 0; // sums of squares
    size_t at = first;
    for (; at < last && reached + weights[at] < wanted; at++) {
      reached += weights[at];
      above += weights[at] * each[at];
    }
    for (size_t i = at; i < last; i++) below += weights[i] * each[i];
    const double room = width * std::sqrt(share * ((1 - part) * (1 - part) * above + part * part * below));
    double gone = reached;
    size_t from = at;
    while (from > first && gone > wanted - room) gone -= weights[--from];
    size_t to = at;
    for (double sum = reached; to < last && sum < wanted + room; to++) sum += weights[to];
    high = from <= first && gone > wanted - room ? INFINITY : top_of(from > 0 ? from - 1 : 0);
    if (from == 0) high = INFINITY;
    low = to >= last ? nothing : top_of(to + 1);
    return std::min(at, buckets - 1);
  }

  float largest, scale = 1;
  double share = 1;
  uint32_t counts[buckets] = {};
};

// The entry where the weights, added up in falling order of the logits, reach `wanted`; null if
// they do not. Sorts only the logits around that place.
const Choice::Entry *reach(std::vector<Choice::Entry> &entries, double wanted) {
  constexpr size_t buckets = 256;
  if (entries.empty()) return nullptr;
  float low = INFINITY, high = nothing;
  for (const auto &entry : entries) {
    low = entry.logit < low ? entry.logit : low;
    high = entry.logit > high ? entry.logit : high;
  }
  const float scale = static_cast<float>(buckets - 1) / std::max(std::min(high - low, 64.0f), 1e-30f);
  const auto bucket_of = [&](float logit) {
    const float at = (high - logit) * scale;
    return at < static_cast<float>(buckets - 1) ? static_cast<size_t>(at) : buckets - 1;
  };
  double weights[buckets] = {};
  for (const auto &entry : entries) weights[bucket_of(entry.logit)] += entry.weight;
  double reached = 0;
  size_t at = 0;
  for (; at < buckets && reached + weights[at] < wanted; at++) reached += weights[at];
  if (at == buckets) return nullptr;
  const auto end = std::partition(entries.begin(), entries.end(), [&](const auto &entry) { return bucket_of(entry.logit) == at; });
  std::sort(entries.begin(), end, [](const auto &a, const auto &b) { return a.logit > b.logit || (a.logit == b.logit && a.index < b.index); });
  auto entry = entries.begin();
  for (; entry + 1 != end; entry++) {
    reached += entry->weight;
    if (reached >= wanted) break;
  }
  return &*entry;
}

} // namespace

// Fills `best` with the entries in the lists of the splits, and `weights` with their logits.
void Choice::collect(const float *logits, const std::vector<uint32_t> &lists, size_t row::Split::*listed) {
  size_t count = 0;
  for (const auto &part : splits) count += part.*listed;
  best.resize(count);
  weights.resize(count);
  size_t at = 0;
  for (size_t part = 0; part < splits.size(); part++) {
    const uint32_t *list = lists.data() + part * row::part;
    for (size_t i = 0; i < splits[part].*listed; i++, at++) best[at] = {weights[at] = logits[list[i]], list[i], 0};
  }
}

// Computes the weights of `best`, whose logits are in `weights` in the same order; logits below
// `least` get none. Returns the sum.
double Choice::weigh(float largest, float scale, float least) {
  double sum = 0;
  row::exponentials(weights.data(), weights.data(), weights.size(), largest, scale, least);
  for (size_t i = 0; i < best.size(); i++) sum += best[i].weight = weights[i];
  return sum;
}

int64_t Choice::pick_between(const float *logits, size_t count, float largest, float least, double place, const row::Ranges &ranges, int32_t threads) {
  const float scale = 1 / options.temperature;
  auto &[maxima, sorted, sums, cut_lists, draw_lists] = row::scratch();
  if (cut_lists.size() < count) {
    cut_lists.resize(count);
    draw_lists.resize(count);
  }
  splits.assign((count + row::part - 1) / row::part, {});
  row::each_part(count, threads, [&, cuts = cut_lists.data(), draws = draw_lists.data()](size_t first, size_t last) {
    splits[first / row::part] = row::split(logits, first, last, largest, scale, ranges, cuts + first, draws + first);
  });
  row::Split all;
  for (const auto &part : splits) {
    all.total += part.total;
    all.above_cut += part.above_cut;
    all.hot_above_cut += part.hot_above_cut;
    all.hot_drawn += part.hot_drawn;
  }
  const double wanted = options.top_p * all.total;
  if (std::isfinite(ranges.cut_high) && all.above_cut >= wanted) return -1;

  float cut = least;
  double hot = all.hot_above_cut;
  if (ranges.cut_high > least) {
    collect(logits, cut_lists, &row::Split::cut_count);
    weigh(largest, 1, nothing);
    const Entry *end = reach(best, wanted - all.above_cut);
    if (end == nullptr && ranges.cut_low > nothing) return -1;
    cut = end == nullptr ? least : std::max(least, end->logit);
    collect(logits, cut_lists, &row::Split::cut_count);
    hot += weigh(largest, scale, cut);
  }

  const double target = hot * place;
  if (std::isfinite(ranges.draw_high) && all.hot_drawn >= target) return -1;
  collect(logits, draw_lists, &row::Split::draw_count);
  weigh(largest, scale, cut);
  const Entry *drawn = reach(best, target - all.hot_drawn);
  if (drawn != nullptr) return drawn->index;
  if (ranges.draw_low > cut) return -1;
  // Rounding may leave the last share unclaimed.
  for (const Entry &entry : best) {
    if (entry.weight > 0 && (drawn == nullptr || entry.logit < drawn->logit)) drawn = &entry;
  }
  return drawn != nullptr ? static_cast<int64_t>(drawn->index) : largest_of(logits, count);
}

int64_t Choice::pick_of_nucleus(const float *logits, size_t count, float largest, int32_t threads) {
  constexpr size_t most = 256;
  const float least = options.min_p > 0 ? largest + std::log(options.min_p) : nothing;
  const bool small = count <= 4 * most;
  const Sketch sketch(logits, count, largest);
  Head head;
  // The nucleus is usually small; then it is enough to sort its head.
  if (small || options.top_p * sketch.total() < most) {
    const double wanted = options.top_p * row::sum_exponentials(logits, count, largest, 1, nothing, threads);
    select_best(logits, count, small ? count : most);
    weights.clear();
    for (const Entry &entry : best) weights.push_back(entry.logit);
    row::exponentials(weights.data(), weights.data(), weights.size(), largest, 1, nothing);
    size_t kept = best.size();
    for (size_t i = 0; i < kept; i++) {
      head.weight += weights[i];
      if (head.weight >= wanted) kept = i + 1;
    }
    if (head.weight >= wanted || small) {
      for (size_t i = 1; i < kept; i++) {
        if (best[i].logit < least) kept = i;
      }
      return draw(kept);
    }
    head.least = best.back().logit;
    for (const Entry &entry : best) head.hot += std::exp((entry.logit - largest) / options.temperature);
  }
  const double place = next();
  for (double width = 2.5; width < 50; width *= 4) {
    const auto ranges = sketch.ranges(options.top_p, place, 1 / options.temperature, head, least, width);
    const auto found = pick_between(logits, count, largest, least, place, ranges, threads);
    if (found >= 0) return found;
  }
  return pick_between(logits, count, largest, least, place, {nothing, INFINITY, nothing, INFINITY}, threads);
}

} // namespace recua
