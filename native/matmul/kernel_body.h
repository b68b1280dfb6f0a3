// The matrix kernels, written over a vector type; included by each kernel_*.cpp, in an anonymous
// namespace, after it has defined
//   F, I           vectors of `lanes` floats and of as many 32-bit integers; lanes is 8 or 16
//   Pair           the bytes of 64 columns
//   panel          input rows that share each load of weights
//   and the functions used below.
//
// Weights are read in tiles of `lanes` rows. A tile is unpacked to 8-bit values, transposed, so
// that each lane belongs to one row of weights and takes four columns at once, and then multiplied
// with all input rows. Integer sums of 16 or 32 columns are exact; their scales are applied as
// floats. A row's result does not depend on how many rows there are.

struct Q8_0 { uint16_t d; int8_t q[32]; };
struct Q4_K { uint16_t d, dmin; uint8_t scales[12], q[128]; };
struct Q5_K { uint16_t d, dmin; uint8_t scales[12], high[32], q[128]; };
struct Q6_K { uint8_t q[128], high[64]; int8_t scales[16]; uint16_t d; };
static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_K) == 144 && sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210, "ggml's layout");

template <Format> struct SuperOf;
template <> struct SuperOf<Format::q4_k> { using type = Q4_K; };
template <> struct SuperOf<Format::q5_k> { using type = Q5_K; };
template <> struct SuperOf<Format::q6_k> { using type = Q6_K; };

constexpr int32_t super_columns = 256; // of K quants
constexpr int32_t pair_columns = 64;   // unpacked at once
constexpr int32_t vector_bytes = 4 * lanes;
constexpr int32_t line = 64;

// What is added to weights to make them positive, and taken off again by Block::offsets.
constexpr int32_t bias_of(Format format) { return format == Format::q8_0 ? (takes_signed ? 0 : 128) : format == Format::q6_k ? 32 : 0; }
inline bool is_super(Format format) { return format != Format::q8_0; }

// Panels share the rows evenly. The first `larger` panels have one row more.
struct Panels {
  int32_t count, least, larger;
};
inline Panels panels_of(int32_t rows) {
  const int32_t count = (rows + panel - 1) / panel;
  return {count, rows / count, rows % count};
}

// Where block `b` of a row is: panel by panel, the blocks of its rows beside each other.
inline int64_t packed_at(const Task &task, int32_t row, int32_t b) {
  const Panels all = panels_of(task.rows);
  const int32_t in_larger = all.larger * (all.least + 1);
  const int32_t size = row < in_larger ? all.least + 1 : all.least;
  const int32_t first = row < in_larger ? row / size * size : in_larger + (row - in_larger) / size * size;
  return static_cast<int64_t>(first) * (task.columns / block_columns) + static_cast<int64_t>(b) * size + (row - first);
}

// --- Input

// Rounds as ggml does: Q8_0 has a scale of 16 bits for 32 columns, K quants one of 32 for 256.
void pack(const Task &task, int32_t row) {
  const auto *x = reinterpret_cast<const float *>(task.input + row * task.input_stride);
  const int32_t group = is_super(task.format) ? super_columns : block_columns;
  const int64_t bias = bias_of(task.format);
  const int64_t stride = task.columns / block_columns > 1 ? packed_at(task, row, 1) - packed_at(task, row, 0) : 0;
  Block *block = reinterpret_cast<Block *>(task.packed) + packed_at(task, row, 0);
  for (int32_t begin = 0; begin < task.columns; begin += group) {
    F most = zero();
    for (int32_t i = 0; i < group; i += lanes) most = larger(most, magnitude(load(x + begin + i)));
    const float largest = largest_of(most);
    const float inverse = largest != 0 ? 127.0f / largest : 0.0f;
    const float scale = largest == 0 ? 0.0f : is_super(task.format) ? 1.0f / inverse : through_f16(largest / 127.0f);
    for (int32_t i = begin; i < begin + group; i += block_columns, block += stride) {
      int32_t sums[2];
      round_block(x + i, inverse, block->values, sums);
      const bool halves = task.format == Format::q6_k;
      // In 64 bits: values that are not numbers round to the largest integers.
      const int64_t first = sums[0], second = sums[1];
      block->offsets[0] = static_cast<int32_t>(-bias * (halves ? first : first + second));
      block->offsets[1] = static_cast<int32_t>(-bias * second);
      block->scale = scale;
      block->sum = scale * static_cast<float>(first + second);
    }
  }
}

// --- Weights

// A tile, unpacked: for each four columns a vector of bytes, for each group of columns a vector of
// scales, and of minima where the format has them.
struct Tile {
  uint8_t *values;
  float *scales, *minima;
};

inline size_t aligned(size_t bytes) { return (bytes + line - 1) / line * line; }
inline size_t value_bytes(int32_t columns) { return aligned(static_cast<size_t>((columns + pair_columns - 1) / pair_columns * pair_columns) * lanes); }
inline size_t scale_bytes(int32_t columns) { return aligned(static_cast<size_t>(columns / 16 + 2) * lanes * sizeof(float)); }

size_t scratch_bytes(int32_t columns) { return value_bytes(columns) + 2 * scale_bytes(columns); }

Tile tile_in(char *scratch, int32_t columns) {
  char *scales = scratch + value_bytes(columns);
  return {reinterpret_cast<uint8_t *>(scratch), reinterpret_cast<float *>(scales), reinterpret_cast<float *>(scales + scale_bytes(columns))};
}

// The six-bit scales and minima of Q4_K and Q5_K: eight bytes of scales, then eight of minima.
inline void unpack_scales(const uint8_t *from, uint8_t *to) {
  uint32_t words[3];
  memcpy(words, from, sizeof words);
  const uint32_t all[4] = {words[0] & 0x3F3F3F3F, (words[2] & 0x0F0F0F0F) | (words[0] >> 2 & 0x30303030),
                           words[1] & 0x3F3F3F3F, (words[2] >> 4 & 0x0F0F0F0F) | (words[1] >> 2 & 0x30303030)};
  memcpy(to, all, sizeof all);
}

// Prefetches the memory of the next tile while this one is unpacked, a part with each call: to
// processors a tile's rows are many streams that are read at once, which they do not foresee.
struct Ahead {
  const char *next, *end;
  int64_t step;
  inline void fetch() {
    for (const char *until = next + step; next < until && next < end; next += line) prefetch(next);
  }
};

// 64 columns of a tile: `rows[r]` is memory of row r, `pair` says which columns.
inline Pair q8_0_pair(const char *row, int32_t pair, int32_t columns) {
  const auto *blocks = reinterpret_cast<const Q8_0 *>(row) + 2 * pair;
  const bool both = (2 * pair + 1) * block_columns < columns;
  const Pair values = joined(load_half(blocks[0].q), both ? load_half(blocks[1].q) : zero_half());
  return takes_signed ? values : flipped(values);
}
inline Pair q4_k_pair(const char *row, int32_t pair) {
  const auto &block = reinterpret_cast<const Q4_K *>(row)[pair / 4];
  const Half q = load_half(block.q + pair % 4 * 32);
  return joined(low_bits(q), high_bits(q));
}
inline Pair q5_k_pair(const char *row, int32_t pair) {
  const auto &block = reinterpret_cast<const Q5_K *>(row)[pair / 4];
  const Half q = load_half(block.q + pair % 4 * 32), high = load_half(block.high);
  const int32_t bit = 2 * (pair % 4);
  return joined(with_bits(low_bits(q), high, bit, 1), with_bits(high_bits(q), high, bit + 1, 1));
}
inline Pair q6_k_pair(const char *row, int32_t pair) {
  const auto &block = reinterpret_cast<const Q6_K *>(row)[pair / 4];
  const int32_t half = pair % 4 / 2, upper = pair % 2;
  const Half a = load_half(block.q + half * 64), b = load_half(block.q + half * 64 + 32), high = load_half(block.high + half * 32);
  return joined(with_bits(upper ? high_bits(a) : low_bits(a), high, 4 * upper, 3), with_bits(upper ? high_bits(b) : low_bits(b), high, 4 * upper + 2, 3));
}

// `rows` of the tile exist; the others repeat the last.
template <Format format> void unpack(const Task &task, const char *weights, int32_t rows, const Tile &tile, Ahead ahead) {
  const char *row[lanes];
  for (int32_t r = 0; r < lanes; r++) row[r] = weights + (r < rows ? r : rows - 1) * task.weight_stride;
  const int32_t pairs = (task.columns + pair_columns - 1) / pair_columns;
  for (int32_t pair = 0; pair < pairs; pair++) {
    Pair values[lanes];
    for (int32_t r = 0; r < lanes; r++) {
      if constexpr (format == Format::q8_0) values[r] = q8_0_pair(row[r], pair, task.columns);
      if constexpr (format == Format::q4_k) values[r] = q4_k_pair(row[r], pair);
      if constexpr (format == Format::q5_k) values[r] = q5_k_pair(row[r], pair);
      if constexpr (format == Format::q6_k) values[r] = q6_k_pair(row[r], pair);
    }
    store_transposed(values, tile.values + pair * pair_columns * lanes);
    ahead.fetch();
  }
  alignas(64) uint16_t halves[lanes], mins[lanes];
  if constexpr (format == Format::q8_0) {
    for (int32_t b = 0; b < task.columns / block_columns; b++) {
      for (int32_t r = 0; r < lanes; r++) halves[r] = reinterpret_cast<const Q8_0 *>(row[r])[b].d;
      store(tile.scales + b * lanes, from_f16(halves));
    }
  } else {
    using Super = typename SuperOf<format>::type;
    constexpr int32_t groups = format == Format::q6_k ? 16 : 8;
    for (int32_t s = 0; s < task.columns / super_columns; s++) {
      alignas(64) uint8_t scales[groups][lanes], minima[groups][lanes];
      for (int32_t r = 0; r < lanes; r++) {
        const Super &super = reinterpret_cast<const Super *>(row[r])[s];
        halves[r] = super.d;
        if constexpr (format == Format::q6_k) {
          for (int32_t g = 0; g < groups; g++) scales[g][r] = static_cast<uint8_t>(super.scales[g]);
        } else {
          mins[r] = super.dmin;
          uint8_t both[16];
          unpack_scales(super.scales, both);
          for (int32_t g = 0; g < groups; g++) {
            scales[g][r] = both[g];
            minima[g][r] = both[8 + g];
          }
        }
      }
      const F d = from_f16(halves);
      for (int32_t g = 0; g < groups; g++) {
        // Q6_K has signed scales; those of the others are below 64.
        store(tile.scales + (s * groups + g) * lanes, mul(d, from_i8(reinterpret_cast<const int8_t *>(scales[g]))));
        if constexpr (format != Format::q6_k) {
          const F m = from_f16(mins);
          store(tile.minima + (s * groups + g) * lanes, mul(m, from_i8(reinterpret_cast<const int8_t *>(minima[g]))));
        }
      }
    }
  }
}

// --- The product

// A tile times `rows` input rows. `width`: how many of the tile's outputs exist.
template <Format format, int32_t rows> void multiply_panel(const Tile &tile, const Block *block, int32_t blocks, float *out, int64_t out_stride, int32_t width) {
  F sums[rows];
  for (int32_t j = 0; j < rows; j++) sums[j] = zero();
  for (int32_t b = 0; b < blocks; b++, block += rows) {
    I weights[8];
    for (int32_t k = 0; k < 8; k++) weights[k] = load_bytes(tile.values + (8 * b + k) * vector_bytes);
    if constexpr (format == Format::q6_k) {
      const F first = load(tile.scales + 2 * b * lanes), second = load(tile.scales + (2 * b + 1) * lanes);
      for (int32_t j = 0; j < rows; j++) {
        I low = all_integers(block[j].offsets[0]), high = all_integers(block[j].offsets[1]);
        low = add_products<format, 4>(low, weights, block[j].values);
        high = add_products<format, 4>(high, weights + 4, block[j].values + 16);
        sums[j] = fma(fma(to_floats(low), first, mul(to_floats(high), second)), all(block[j].scale), sums[j]);
      }
    } else {
      const F scale = load(tile.scales + b * lanes);
      for (int32_t j = 0; j < rows; j++) {
        const I sum = add_products<format, 8>(all_integers(block[j].offsets[0]), weights, block[j].values);
        sums[j] = fma(to_floats(sum), mul(scale, all(block[j].scale)), sums[j]);
        if constexpr (format != Format::q8_0) sums[j] = fnma(load(tile.minima + b * lanes), all(block[j].sum), sums[j]);
      }
    }
  }
  for (int32_t j = 0; j < rows; j++) store_first(out + j * out_stride, sums[j], width);
}

using Multiply = void (*)(const Tile &, const Block *, int32_t, float *, int64_t, int32_t);

template <Format format> void multiply_all(const Task &task, int32_t begin, int32_t end, char *scratch) {
  static constexpr Multiply by_rows[] = {
      nullptr, multiply_panel<format, 1>, multiply_panel<format, 2>, multiply_panel<format, 3>, multiply_panel<format, 4>,
#if RECUA_PANEL > 4
      multiply_panel<format, 5>, multiply_panel<format, 6>, multiply_panel<format, 7>, multiply_panel<format, 8>,
      multiply_panel<format, 9>, multiply_panel<format, 10>, multiply_panel<format, 11>, multiply_panel<format, 12>,
#endif
  };
  const Tile tile = tile_in(scratch, task.columns);
  const Panels panels = panels_of(task.rows);
  const int32_t blocks = task.columns / block_columns, pairs = (task.columns + pair_columns - 1) / pair_columns;
  const char *all_end = task.weights + task.outputs * task.weight_stride;
  for (int32_t t = begin; t < end; t++) {
    const int32_t first = t * lanes, width = first + lanes <= task.outputs ? lanes : task.outputs - first;
    const char *weights = task.weights + first * task.weight_stride, *next = weights + lanes * task.weight_stride;
    const char *next_end = next + lanes * task.weight_stride;
    const int64_t step = (lanes * task.weight_stride / pairs + line - 1) / line * line;
    unpack<format>(task, weights, width, tile, Ahead{next < all_end ? next : all_end, next_end < all_end ? next_end : all_end, step});
    int32_t row = 0;
    for (int32_t p = 0; p < panels.count; p++) {
      const int32_t size = p < panels.larger ? panels.least + 1 : panels.least;
      by_rows[size](tile, reinterpret_cast<const Block *>(task.packed) + static_cast<int64_t>(row) * blocks, blocks, task.out + row * task.out_stride + first, task.out_stride, width);
      row += size;
    }
  }
}

void multiply(const Task &task, int32_t begin, int32_t end, char *scratch) {
  switch (task.format) {
    case Format::q8_0: return multiply_all<Format::q8_0>(task, begin, end, scratch);
    case Format::q4_k: return multiply_all<Format::q4_k>(task, begin, end, scratch);
    case Format::q5_k: return multiply_all<Format::q5_k>(task, begin, end, scratch);
    case Format::q6_k: return multiply_all<Format::q6_k>(task, begin, end, scratch);
  }
}
