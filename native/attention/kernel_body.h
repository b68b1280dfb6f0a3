// The attention kernels, over a vector `V` of `W` floats that the including file defines.
// Everything has internal linkage and uses nothing of the C++ library (kernel.h says why). Each
// kernel_*.cpp includes this file once, within its anonymous namespace.
//
// Keys come in blocks. A block is converted to floats once, for all rows of the unit: the query
// rows of all tokens and heads that share the keys. Logits, softmax and sums of values are floats.
// Sums restart at 0 in each block and are then added up, so errors do not grow with the context.
// The KV heads of a unit take turns block by block, because their keys are neighbors in memory.

// V load(const float *), void store(float *, V), V zero(), V all(float), V fma(a, b, c): a * b + c,
// add, sub, mul, div, most(a, b): b if either is NaN; float largest(V), float sum(V);
// V from_f16(const uint16_t *), V from_bf16(const uint16_t *), V from_i8(const int8_t *);
// V rounded(V), V times_power(V, n): v * 2^n for whole n >= -126;
// V where_less(a, b, x, y): a < b ? x : y;
// void transpose(V *): W of them; V sums(V *): of W vectors one sum each.

constexpr float infinity = HUGE_VALF;
constexpr int32_t block = key_block;

// Rows that are so far ahead are asked for: memory takes as long as a block of keys.
constexpr int32_t ahead = block;

// Asks for a row of `bytes`, into the L2 cache.
inline void prefetch(const char *row, int32_t bytes) {
#if defined(__GNUC__)
  for (int32_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
#else
  (void)row;
  (void)bytes;
#endif
}

inline int32_t row_bytes(int32_t values, Format format) {
  return format == Format::f32 ? 4 * values : format == Format::q8_0 ? values / 32 * 34 : 2 * values;
}

// e^x for x <= 0; 0 below -87; NaN stays NaN.
inline V exponential(V x) {
  const V lowest = all(-87.0f);
  const V bounded = most(lowest, x);
  const V n = rounded(mul(bounded, all(1.44269504088896341f)));
  V r = fma(n, all(-0.693359375f), bounded);
  r = fma(n, all(2.12194440e-4f), r);
  V p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  p = fma(mul(r, r), p, r);
  p = times_power(add(p, all(1.0f)), n);
  return where_less(x, lowest, zero(), p);
}

inline V hyperbolic_tangent(V x) {
  const V size = most(x, sub(zero(), x));
  const V square = mul(x, x);
  V p = all(-5.70498872745e-3f);
  p = fma(p, square, all(2.06390887954e-2f));
  p = fma(p, square, all(-5.37397155531e-2f));
  p = fma(p, square, all(1.33314422036e-1f));
  p = fma(p, square, all(-3.33332819422e-1f));
  const V small = fma(mul(p, square), x, x);
  const V e = exponential(mul(size, all(-2.0f)));
  const V large = sub(all(1.0f), div(add(e, e), add(all(1.0f), e)));
  return where_less(size, all(0.625f), small, where_less(x, zero(), sub(zero(), large), large));
}

inline float exponential(float x) { return expf(x); }

// Converts one row of `count` values (a multiple of 16) to floats.
inline void unpack(float *to, const char *from, int32_t count, Format format) {
  switch (format) {
    case Format::f32:
      memcpy(to, from, sizeof(float) * static_cast<size_t>(count));
      break;
    case Format::f16:
      for (int32_t i = 0; i < count; i += W) store(to + i, from_f16(reinterpret_cast<const uint16_t *>(from) + i));
      break;
    case Format::bf16:
      for (int32_t i = 0; i < count; i += W) store(to + i, from_bf16(reinterpret_cast<const uint16_t *>(from) + i));
      break;
    case Format::q8_0:
      for (int32_t i = 0; i < count; i += 32, from += 34) {
        uint16_t half[W] = {};
        memcpy(half, from, sizeof(uint16_t));
        float scale[W];
        store(scale, from_f16(half));
        const V factor = all(scale[0]);
        for (int32_t j = 0; j < 32; j += W) store(to + i + j, mul(factor, from_i8(reinterpret_cast<const int8_t *>(from) + 2 + j)));
      }
      break;
  }
}

#include "attention/kernel_product.h"

// The parts of a unit's scratch memory.
struct Scratch {
  float *q, *out, *largest, *sum, *factors, *logits, *keys, *values, *mask, *live;

  // `rows`: of each of `heads` KV heads.
  Scratch(float *at, const Task &task, int32_t rows, int32_t heads, int32_t tokens) {
    const auto take = [&at](int64_t count) {
      float *here = at;
      at += (count + 15) / 16 * 16;
      return here;
    };
    q = take(static_cast<int64_t>(rows) * heads * task.dk);
    out = take(static_cast<int64_t>(rows) * heads * task.dv);
    largest = take(rows * heads);
    sum = take(rows * heads);
    factors = take(rows);
    logits = take(static_cast<int64_t>(rows) * block);
    keys = take(static_cast<int64_t>(block) * task.dk);
    values = take(static_cast<int64_t>(block) * task.dv);
    mask = take(static_cast<int64_t>(tokens) * block);
    live = take(block);
  }

  // The parts of KV head `head`, counted from the unit's first.
  Scratch of(int32_t head, const Task &task, int32_t rows) const {
    Scratch own = *this;
    own.q += static_cast<int64_t>(head) * rows * task.dk;
    own.out += static_cast<int64_t>(head) * rows * task.dv;
    own.largest += head * rows;
    own.sum += head * rows;
    return own;
  }
};

const char *at(const Rows &rows, int64_t row, int64_t head, int64_t stream) {
  return rows.data + row * rows.row + head * rows.head + stream * rows.stream;
}

// Logits of few rows: each key's row times each query's, W keys at a time.
void few_logits(const Task &task, const Unit &unit, int32_t kv_head, const Scratch &s, int32_t rows, int32_t key, int32_t count) {
  for (int32_t first = 0; first < count; first += W) {
    for (int32_t j = 0; j < W; j++) {
      const int32_t column = first + j < count ? first + j : count - 1; // columns past the end are masked
      const char *row = at(task.k, key + column, kv_head, unit.stream);
      prefetch(row + ahead * task.k.row, row_bytes(task.dk, task.k.format));
      unpack(s.keys + static_cast<int64_t>(j) * task.dk, row, task.dk, task.k.format);
    }
    for (int32_t r = 0; r < rows; r++) {
      V products[W];
      const float *q = s.q + static_cast<int64_t>(r) * task.dk;
#pragma GCC unroll 16
      for (int j = 0; j < W; j++) products[j] = zero();
      for (int32_t d = 0; d < task.dk; d += W) {
        const V part = load(q + d);
#pragma GCC unroll 16
        for (int j = 0; j < W; j++) products[j] = fma(part, load(s.keys + static_cast<int64_t>(j) * task.dk + d), products[j]);
      }
      store(s.logits + static_cast<int64_t>(r) * block + first, sums(products));
    }
  }
}

constexpr int32_t depth_part = 16;

// Logits of many rows: the block of keys is transposed once.
void many_logits(const Task &task, const Unit &unit, int32_t kv_head, const Scratch &s, int32_t from, int32_t to, int32_t key, int32_t count) {
  float line[W][most_dimension];
  for (int32_t first = 0; first < count; first += W) {
    for (int32_t j = 0; j < W; j++) {
      const int32_t column = first + j < count ? first + j : count - 1;
      const char *row = at(task.k, key + column, kv_head, unit.stream);
      prefetch(row + ahead * task.k.row, row_bytes(task.dk, task.k.format));
      unpack(line[j], row, task.dk, task.k.format);
    }
    for (int32_t d = 0; d < task.dk; d += W) {
      V square[W];
#pragma GCC unroll 16
      for (int j = 0; j < W; j++) square[j] = load(line[j] + d);
      transpose(square);
#pragma GCC unroll 16
      for (int j = 0; j < W; j++) store(s.keys + static_cast<int64_t>(d + j) * block + first, square[j]);
    }
  }
  float *logits = s.logits + static_cast<int64_t>(from) * block;
  const float *q = s.q + static_cast<int64_t>(from) * task.dk;
  const int32_t width = (count + W - 1) / W * W;
  // In parts whose sums are added: one long sum would lose its last digits.
  product<false>(logits, block, q, task.dk, s.keys, block, to - from, width, depth_part, nullptr);
  for (int32_t d = depth_part; d < task.dk; d += depth_part) {
    product<true>(logits, block, q + d, task.dk, s.keys + static_cast<int64_t>(d) * block, block, to - from, width, depth_part, nullptr);
  }
}

// Which tokens of a unit see keys of a block.
struct Seen {
  int32_t from, to; // tokens; empty if none does
  bool plainly;     // all tokens see all keys, without a bias
};

// Fills the masks of the block, −infinity past its end, and `live`: the largest mask of each key.
Seen read_mask(const Task &task, const Unit &unit, const Scratch &s, int32_t key, int32_t count) {
  const int32_t width = (count + W - 1) / W * W;
  if (task.mask.data == nullptr) {
    for (int32_t j = 0; j < width; j++) s.live[j] = j < count ? 0 : -infinity;
    for (int32_t t = 0; t < unit.tokens; t++) memcpy(s.mask + static_cast<int64_t>(t) * block, s.live, sizeof(float) * static_cast<size_t>(width));
    return {0, unit.tokens, count == width};
  }
  Seen seen{unit.tokens, 0, count == width};
  for (int32_t j = 0; j < width; j += W) store(s.live + j, all(-infinity));
  const int32_t whole = count / W * W;
  for (int32_t t = 0; t < unit.tokens; t++) {
    const auto *from = reinterpret_cast<const uint16_t *>(at(task.mask, unit.token + t, 0, unit.stream % task.mask_streams)) + key;
    float *to = s.mask + static_cast<int64_t>(t) * block;
    uint16_t end[W];
    V highest = all(-infinity), lowest = zero();
    for (int32_t j = 0; j < width; j += W) {
      if (j >= whole) {
        for (int32_t i = 0; i < W; i++) end[i] = j + i < count ? from[j + i] : 0xFC00;
      }
      const V values = from_f16(j < whole ? from + j : end);
      store(to + j, values);
      store(s.live + j, most(load(s.live + j), values));
      highest = most(highest, values);
      lowest = most(lowest, sub(zero(), values));
    }
    const float high = largest(highest);
    if (high == -infinity) {
      seen.plainly = false;
      continue;
    }
    if (high != 0 || largest(lowest) != 0) seen.plainly = false;
    if (t < seen.from) seen.from = t;
    seen.to = t + 1;
  }
  return seen;
}

// Turns logits into exponentials relative to the row's new largest; `factors` rescales earlier
// sums.
void soften(const Task &task, const Scratch &s, int32_t row, float slope, const float *mask, int32_t width) {
  float *logits = s.logits + static_cast<int64_t>(row) * block;
  const V scale = all(task.scale);
  const V inclination = all(slope);
  const V nothing = all(-infinity);
  V high = nothing;
  for (int32_t j = 0; j < width; j += W) {
    V x = mul(load(logits + j), scale);
    if (task.softcap != 0) x = mul(hyperbolic_tangent(x), all(task.softcap));
    if (mask != nullptr) {
      const V bias = load(mask + j);
      // Not just the sum: the logit of a masked key may be NaN.
      x = where_less(nothing, bias, fma(bias, inclination, x), nothing);
    }
    store(logits + j, x);
    high = most(high, x);
  }
  const float before = s.largest[row];
  float now = largest(high);
  if (now < before) now = before;
  if (now == -infinity) {
    // `high` may have lost a logit that is not a number.
    bool broken = false;
    for (int32_t j = 0; j < width; j++) broken = broken || logits[j] != logits[j];
    for (int32_t j = 0; j < width; j += W) store(logits + j, all(broken ? NAN : 0));
    s.factors[row] = 1;
    if (broken) s.sum[row] = NAN;
    return;
  }
  const V shift = all(now);
  V sum_ = zero();
  for (int32_t j = 0; j < width; j += W) {
    const V share = exponential(sub(load(logits + j), shift));
    store(logits + j, share);
    sum_ = add(sum_, share);
  }
  const float factor = now == before ? 1 : exponential(before - now);
  s.factors[row] = factor;
  s.sum[row] = s.sum[row] * factor + sum(sum_);
  s.largest[row] = now;
}

// Divides a row's sums of values by its sum of exponentials and writes it. `row`: counted from the
// unit's first KV head on.
void finish(const Task &task, const Unit &unit, int32_t row, float largest_, float sum_, const float *values) {
  const int32_t rows = unit.tokens * task.group;
  const int32_t token = unit.token + row % rows / task.group;
  const int32_t head = (unit.kv_head + row / rows) * task.group + row % task.group;
  float factor = 1;
  if (task.sinks != nullptr) {
    const float sink = task.sinks[head];
    const float now = sink > largest_ ? sink : largest_;
    factor = largest_ == now ? 1 : exponential(largest_ - now);
    sum_ = sum_ * factor + exponential(sink - now);
  }
  float *to = task.out + ((static_cast<int64_t>(unit.stream) * task.tokens + token) * task.heads + head) * task.dv;
  const V by = all(sum_ == 0 ? 1 : sum_);
  for (int32_t d = 0; d < task.dv; d += W) store(to + d, div(mul(load(values + d), all(factor)), by));
}

// One block of keys and values of one KV head.
void attend_block(const Task &task, const Unit &unit, int32_t kv_head, const Scratch &s, const Seen &seen, int32_t key, int32_t count) {
  const int32_t group = task.group, rows = unit.tokens * group;
  const int32_t width = (count + W - 1) / W * W;
  const int32_t from = seen.from * group, to = seen.to * group;
  if (rows <= few_rows) few_logits(task, unit, kv_head, s, rows, key, count);
  else many_logits(task, unit, kv_head, s, from, to, key, count);
  for (int32_t r = from; r < to; r++) {
    const float slope = task.slopes == nullptr ? 1 : task.slopes[kv_head * group + r % group];
    soften(task, s, r, slope, seen.plainly ? nullptr : s.mask + static_cast<int64_t>(r / group) * block, width);
  }
  for (int32_t j = 0; j < count; j++) {
    float *row = s.values + static_cast<int64_t>(j) * task.dv;
    const char *source = at(task.v, key + j, kv_head, unit.stream);
    prefetch(source + ahead * task.v.row, row_bytes(task.dv, task.v.format));
    if (s.live[j] == -infinity) memset(row, 0, sizeof(float) * static_cast<size_t>(task.dv)); // as for masked keys
    else unpack(row, source, task.dv, task.v.format);
  }
  product<true>(s.out + static_cast<int64_t>(from) * task.dv, task.dv, s.logits + static_cast<int64_t>(from) * block, block, s.values,
                task.dv, to - from, task.dv, count, s.factors + from);
}

void attend(const Task &task, const Unit &unit, float *memory, float *partial) {
  const int32_t group = task.group;
  const int32_t rows = unit.tokens * group; // of each KV head
  const int32_t all_rows = rows * unit.kv_heads;
  const Scratch s(memory, task, rows, unit.kv_heads, unit.tokens);
  for (int32_t r = 0; r < all_rows; r++) {
    const int32_t head = (unit.kv_head + r / rows) * group + r % group;
    memcpy(s.q + static_cast<int64_t>(r) * task.dk, at(task.q, unit.token + r % rows / group, head, unit.stream), sizeof(float) * static_cast<size_t>(task.dk));
    s.largest[r] = -infinity;
    s.sum[r] = 0;
  }
  memset(s.out, 0, sizeof(float) * static_cast<size_t>(all_rows) * static_cast<size_t>(task.dv));

  for (int32_t key = unit.key; key < unit.key_end; key += block) {
    const int32_t count = unit.key_end - key < block ? unit.key_end - key : block;
    const Seen seen = read_mask(task, unit, s, key, count);
    if (seen.from >= seen.to) continue;
    for (int32_t head = 0; head < unit.kv_heads; head++) attend_block(task, unit, unit.kv_head + head, s.of(head, task, rows), seen, key, count);
  }

  for (int32_t r = 0; r < all_rows; r++) {
    const float *values = s.out + static_cast<int64_t>(r) * task.dv;
    if (partial == nullptr) {
      finish(task, unit, r, s.largest[r], s.sum[r], values);
      continue;
    }
    float *to = partial + static_cast<int64_t>(r) * (partial_head + task.dv);
    to[0] = s.largest[r];
    to[1] = s.sum[r];
    memcpy(to + partial_head, values, sizeof(float) * static_cast<size_t>(task.dv));
  }
}

void join(const Task &task, const Unit &unit, float *parts, int64_t stride, int32_t count) {
  for (int32_t r = 0; r < unit.tokens * task.group * unit.kv_heads; r++) {
    float *first = parts + static_cast<int64_t>(r) * (partial_head + task.dv);
    float now = -infinity;
    for (int32_t i = 0; i < count; i++) {
      if (first[i * stride] > now) now = first[i * stride];
    }
    float total = 0;
    for (int32_t i = 0; i < count; i++) {
      const float *part = first + i * stride;
      const float factor = part[0] == -infinity ? 0 : exponential(part[0] - now);
      total += part[1] * factor;
      for (int32_t d = 0; d < task.dv; d += W) {
        float *to = first + partial_head + d;
        const V own = mul(load(part + partial_head + d), all(factor));
        store(to, i == 0 ? own : add(load(to), own));
      }
    }
    finish(task, unit, r, now, total, first + partial_head);
  }
}
