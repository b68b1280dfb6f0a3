// Products with a single input row, for kernel_avx512.cpp, which includes this in its anonymous
// namespace. Weights are read row by row, in the order of memory, and nothing is unpacked to
// memory: such a product should take no longer than reading its weights. Sums of 256 columns are
// exact integers. Q8_0 is left to ggml, whose kernel is bound by memory already.

// 256 columns of the input, rounded to 8 bits: value i is values[i] × scale.
struct RowBlock {
  // In the order in which the weights' bits are: for Q4_K and Q5_K, groups 0 2 1 3 4 6 5 7.
  alignas(64) int8_t values[super_columns];
  alignas(32) int16_t sums[16]; // of 16 columns, or of 32 and then zeros
  float scale;
};
static_assert(sizeof(RowBlock) <= super_columns / block_columns * sizeof(Block), "fits where the blocks of a row would be");

bool takes_row(Format format) { return format != Format::q8_0; }

void pack_row(const Task &task) {
  static constexpr int32_t place[8] = {0, 2, 1, 3, 4, 6, 5, 7};
  const auto *x = reinterpret_cast<const float *>(task.input);
  auto *block = reinterpret_cast<RowBlock *>(task.packed);
  for (int32_t begin = 0; begin < task.columns; begin += super_columns, block++) {
    F most = zero();
    for (int32_t i = 0; i < super_columns; i += lanes) most = larger(most, magnitude(load(x + begin + i)));
    const float largest = largest_of(most);
    const float inverse = largest != 0 ? 127.0f / largest : 0.0f;
    block->scale = largest == 0 ? 0.0f : 1.0f / inverse;
    memset(block->sums, 0, sizeof block->sums);
    for (int32_t group = 0; group < 8; group++) {
      const bool sixteens = task.format == Format::q6_k;
      int32_t sums[2];
      round_block(x + begin + group * block_columns, inverse, block->values + (sixteens ? group : place[group]) * block_columns, sums);
      if (sixteens) {
        block->sums[2 * group] = static_cast<int16_t>(sums[0]);
        block->sums[2 * group + 1] = static_cast<int16_t>(sums[1]);
      } else {
        // In 64 bits: values that are not numbers round to the largest integers.
        block->sums[group] = static_cast<int16_t>(static_cast<int64_t>(sums[0]) + sums[1]);
      }
    }
  }
}

// For each 32-bit lane, the scale of its group in the low 16 bits and 0 in the high ones.
template <int32_t a, int32_t b, int32_t c, int32_t d> inline I scales_of(__m256i scales) {
  const I groups = _mm512_set_epi32(d, d, d, d, c, c, c, c, b, b, b, b, a, a, a, a);
  return _mm512_maskz_permutexvar_epi16(0x55555555, groups, _mm512_castsi256_si512(scales));
}

// Sums of four products, times the scales. The sums fit 16 bits, so one multiplication does.
inline I scaled(I weights, const int8_t *values, I scales) {
  return _mm512_madd_epi16(_mm512_dpbusd_epi32(_mm512_setzero_si512(), weights, _mm512_load_si512(values)), scales);
}
inline I plus(I a, I b) { return _mm512_add_epi32(a, b); }
inline I low_nibbles(I a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
inline I high_nibbles(I a) { return low_nibbles(_mm512_srli_epi16(a, 4)); }

struct RowSums {
  F products;
  __m128 minima;
};

// The six-bit scales and minima as 16-bit integers, as unpack_scales() does it, in registers. Reads
// four bytes behind them.
inline __m256i unpacked_scales(const uint8_t *packed) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i *>(packed));
  const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(words, 0x50), _mm_set_epi32(2, 0, 2, 0));
  const __m128i high = _mm_srlv_epi32(_mm_shuffle_epi32(words, 0xAA), _mm_set_epi32(4, 0, 0, 0));
  const __m128i six = _mm_and_si128(low, _mm_set_epi32(0x30303030, 0x3F3F3F3F, 0x30303030, 0x3F3F3F3F));
  const __m128i four = _mm_and_si128(high, _mm_set_epi32(0x0F0F0F0F, 0, 0x0F0F0F0F, 0));
  return _mm256_cvtepu8_epi16(_mm_or_si128(six, four));
}

// `d` and `dmin` of a block, times the scale of the input.
template <typename Super> inline __m128 factors(const Super &w, const RowBlock &x) {
  int32_t both;
  memcpy(&both, &w.d, sizeof both);
  return _mm_mul_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(both)), _mm_set1_ps(x.scale));
}

inline void add_all(I products, __m256i scales, const RowBlock &x, __m128 factors, RowSums &sums) {
  sums.products = fma(to_floats(products), _mm512_broadcastss_ps(factors), sums.products);
  const __m128i minima = _mm_madd_epi16(_mm256_extracti128_si256(scales, 1), _mm_load_si128(reinterpret_cast<const __m128i *>(x.sums)));
  sums.minima = _mm_fnmadd_ps(_mm_cvtepi32_ps(minima), _mm_permute_ps(factors, 0x55), sums.minima);
}

inline void add_block(const Q4_K &w, const RowBlock &x, RowSums &sums) {
  const __m256i scales = unpacked_scales(w.scales);
  const I first = load_bytes(w.q), second = load_bytes(w.q + 64);
  const I sum = plus(
      plus(scaled(low_nibbles(first), x.values, scales_of<0, 0, 2, 2>(scales)),
           scaled(high_nibbles(first), x.values + 64, scales_of<1, 1, 3, 3>(scales))),
      plus(scaled(low_nibbles(second), x.values + 128, scales_of<4, 4, 6, 6>(scales)),
           scaled(high_nibbles(second), x.values + 192, scales_of<5, 5, 7, 7>(scales))));
  add_all(sum, scales, x, factors(w, x), sums);
}

// Adds 16 where a bit of `high` is set: bit `a` for the first 32 bytes, bit `b` for the others.
template <int32_t a, int32_t b> inline I with_fifth(I low, I high) {
  const I bits = _mm512_inserti64x4(_mm512_set1_epi8(static_cast<char>(1 << a)), _mm256_set1_epi8(static_cast<char>(1 << b)), 1);
  return _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(high, bits), low, _mm512_set1_epi8(16));
}

inline void add_block(const Q5_K &w, const RowBlock &x, RowSums &sums) {
  const __m256i scales = unpacked_scales(w.scales);
  const I high = _mm512_broadcast_i64x4(load_half(w.high));
  const I first = load_bytes(w.q), second = load_bytes(w.q + 64);
  const I sum = plus(
      plus(scaled(with_fifth<0, 2>(low_nibbles(first), high), x.values, scales_of<0, 0, 2, 2>(scales)),
           scaled(with_fifth<1, 3>(high_nibbles(first), high), x.values + 64, scales_of<1, 1, 3, 3>(scales))),
      plus(scaled(with_fifth<4, 6>(low_nibbles(second), high), x.values + 128, scales_of<4, 4, 6, 6>(scales)),
           scaled(with_fifth<5, 7>(high_nibbles(second), high), x.values + 192, scales_of<5, 5, 7, 7>(scales))));
  add_all(sum, scales, x, factors(w, x), sums);
}

// Bits 4 and 5 of weights, from a byte that has those of four: bits 0 and 1 belong to the first 32
// low nibbles, 2 and 3 to the others, 4 and 5 to the first 32 high nibbles, 6 and 7 to the others.
inline I only_sixth(I a) { return _mm512_and_si512(a, _mm512_set1_epi8(0x30)); }
inline I sixth_of_low(I high) {
  return only_sixth(_mm512_sllv_epi16(high, _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1)));
}
inline I sixth_of_high(I high) {
  return only_sixth(_mm512_srlv_epi16(high, _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1)));
}

inline void add_block(const Q6_K &w, const RowBlock &x, RowSums &sums) {
  const __m256i scales = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(w.scales)));
  const I high_first = _mm512_broadcast_i64x4(load_half(w.high)), high_second = _mm512_broadcast_i64x4(load_half(w.high + 32));
  const I first = load_bytes(w.q), second = load_bytes(w.q + 64);
  const auto or_ = [](I a, I b) { return _mm512_or_si512(a, b); };
  I sum = plus(
      plus(scaled(or_(low_nibbles(first), sixth_of_low(high_first)), x.values, scales_of<0, 1, 2, 3>(scales)),
           scaled(or_(high_nibbles(first), sixth_of_high(high_first)), x.values + 64, scales_of<4, 5, 6, 7>(scales))),
      plus(scaled(or_(low_nibbles(second), sixth_of_low(high_second)), x.values + 128, scales_of<8, 9, 10, 11>(scales)),
           scaled(or_(high_nibbles(second), sixth_of_high(high_second)), x.values + 192, scales_of<12, 13, 14, 15>(scales))));
  // Weights are stored with 32 added.
  const __m256i added = _mm256_slli_epi32(_mm256_madd_epi16(scales, _mm256_load_si256(reinterpret_cast<const __m256i *>(x.sums))), 5);
  sum = _mm512_sub_epi32(sum, _mm512_zextsi256_si512(added));
  sums.products = fma(to_floats(sum), all(_cvtsh_ss(w.d) * x.scale), sums.products);
}

template <typename Super> void multiply_row_of(const Task &task, int32_t begin, int32_t end) {
  const auto *blocks = reinterpret_cast<const RowBlock *>(task.packed);
  const int32_t count = task.columns / super_columns;
  for (int32_t output = begin; output < end; output++) {
    const auto *weights = reinterpret_cast<const Super *>(task.weights + output * task.weight_stride);
    RowSums sums{zero(), _mm_setzero_ps()};
    for (int32_t i = 0; i < count; i++) add_block(weights[i], blocks[i], sums);
    const F minima = _mm512_zextps128_ps512(sums.minima);
    task.out[output] = _mm512_reduce_add_ps(_mm512_add_ps(sums.products, minima));
  }
}

void multiply_row(const Task &task, int32_t begin, int32_t end) {
  switch (task.format) {
    case Format::q8_0: return;
    case Format::q4_k: return multiply_row_of<Q4_K>(task, begin, end);
    case Format::q5_k: return multiply_row_of<Q5_K>(task, begin, end);
    case Format::q6_k: return multiply_row_of<Q6_K>(task, begin, end);
  }
}
