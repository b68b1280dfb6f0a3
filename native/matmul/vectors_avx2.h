// The vectors of 8 lanes that the kernels for AVX2 and for AVX2 with VNNI share; included by them,
// in an anonymous namespace.

using F = __m256;
using I = __m256i;
using Half = __m256i;
struct Pair {
  Half first, second;
};
constexpr int32_t lanes = 8;
#define RECUA_PANEL 4
constexpr int32_t panel = RECUA_PANEL;

inline F zero() { return _mm256_setzero_ps(); }
inline F load(const float *from) { return _mm256_loadu_ps(from); }
inline void store(float *to, F v) { _mm256_storeu_ps(to, v); }
inline void store_first(float *to, F v, int32_t count) {
  if (count == lanes) return store(to, v);
  float values[lanes];
  store(values, v);
  for (int32_t i = 0; i < count; i++) to[i] = values[i];
}
inline F all(float x) { return _mm256_set1_ps(x); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F larger(F a, F b) { return _mm256_max_ps(a, b); }
inline F magnitude(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline float largest_of(F a) {
  __m128 v = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  v = _mm_max_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}
inline F from_f16(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))); }
inline F from_i8(const int8_t *from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from))));
}
inline F to_floats(I a) { return _mm256_cvtepi32_ps(a); }
inline float through_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }
inline I all_integers(int32_t x) { return _mm256_set1_epi32(x); }
inline I four_bytes(const int8_t *from) {
  int32_t bits;
  memcpy(&bits, from, sizeof bits);
  return _mm256_set1_epi32(bits);
}
inline I load_bytes(const uint8_t *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }
inline void prefetch(const char *at) { _mm_prefetch(at, _MM_HINT_T1); }

// 32 values, rounded; their sums by halves.
inline void round_block(const float *x, float inverse, int8_t *values, int32_t *sums) {
  for (int32_t half = 0; half < 2; half++) {
    const F by = _mm256_set1_ps(inverse);
    const I a = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + 16 * half), by)), b = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + 16 * half + 8), by));
    const I words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(values + 16 * half), _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    const I both = _mm256_add_epi32(a, b);
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    sums[half] = _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1)));
  }
}

inline Half load_half(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }
inline Half zero_half() { return _mm256_setzero_si256(); }
inline Half low_bits(Half a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
inline Half high_bits(Half a) { return low_bits(_mm256_srli_epi16(a, 4)); }
// Bits of `high` above the four of `low`.
inline Half with_bits(Half low, Half high, int32_t bit, int32_t mask) {
  const Half bits = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(bit)), _mm256_set1_epi8(static_cast<char>(mask)));
  return _mm256_or_si256(low, _mm256_slli_epi16(bits, 4));
}
inline Pair joined(Half first, Half second) { return {first, second}; }
// Adds 128 to signed bytes.
inline Pair flipped(const Pair &a) {
  const Half sign = _mm256_set1_epi8(static_cast<char>(0x80));
  return {_mm256_xor_si256(a.first, sign), _mm256_xor_si256(a.second, sign)};
}

// 8 rows of 8 words → 8 columns of words.
inline void store_square(const Half *v, uint8_t *to) {
  I t[8];
  for (int i = 0; i < 8; i += 4) { // 4 × 4 squares within each half
    const I a = _mm256_unpacklo_epi32(v[i], v[i + 1]), b = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    const I c = _mm256_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm256_unpackhi_epi32(v[i + 2], v[i + 3]);
    t[i] = _mm256_unpacklo_epi64(a, c);
    t[i + 1] = _mm256_unpackhi_epi64(a, c);
    t[i + 2] = _mm256_unpacklo_epi64(b, d);
    t[i + 3] = _mm256_unpackhi_epi64(b, d);
  }
  const auto put = [&](int column, I value) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + column * 32), value); };
  for (int i = 0; i < 4; i++) {
    put(i, _mm256_permute2x128_si256(t[i], t[i + 4], 0x20));
    put(i + 4, _mm256_permute2x128_si256(t[i], t[i + 4], 0x31));
  }
}
inline void store_transposed(const Pair *v, uint8_t *to) {
  Half first[lanes], second[lanes];
  for (int32_t r = 0; r < lanes; r++) {
    first[r] = v[r].first;
    second[r] = v[r].second;
  }
  store_square(first, to);
  store_square(second, to + 8 * 32);
}
