// The matrix kernels for AVX-512 with VNNI. CMakeLists.txt sets the compiler's flags.
#include "matmul/kernel.h"

#if defined(__AVX512F__) && defined(__AVX512VNNI__) && defined(__GNUC__)

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // vectors that GCC's own header starts from
#endif
#include <immintrin.h>
#include <string.h>

namespace recua::matmul {

namespace {

using F = __m512;
using I = __m512i;
using Half = __m256i;
using Pair = __m512i;
constexpr int32_t lanes = 16;
#define RECUA_PANEL 12
constexpr int32_t panel = RECUA_PANEL;
// Q8_0 weights are made positive by adding 128.
constexpr bool takes_signed = false;

inline F zero() { return _mm512_setzero_ps(); }
inline F load(const float *from) { return _mm512_loadu_ps(from); }
inline void store(float *to, F v) { _mm512_storeu_ps(to, v); }
inline void store_first(float *to, F v, int32_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), v);
}
inline F all(float x) { return _mm512_set1_ps(x); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F larger(F a, F b) { return _mm512_max_ps(a, b); }
inline F magnitude(F a) { return _mm512_abs_ps(a); }
inline float largest_of(F a) { return _mm512_reduce_max_ps(a); }
inline F from_f16(const uint16_t *from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))); }
inline F from_i8(const int8_t *from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}
inline F to_floats(I a) { return _mm512_cvtepi32_ps(a); }
inline float through_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }
inline I all_integers(int32_t x) { return _mm512_set1_epi32(x); }
inline I load_bytes(const uint8_t *from) { return _mm512_loadu_si512(from); }
inline I four_bytes(const int8_t *from) {
  int32_t bits;
  memcpy(&bits, from, sizeof bits);
  return _mm512_set1_epi32(bits);
}
// Four columns for each of `count` vectors of weights.
template <Format, int32_t count> inline I add_products(I sum, const I *weights, const int8_t *values) {
  for (int32_t k = 0; k < count; k++) sum = _mm512_dpbusd_epi32(sum, weights[k], four_bytes(values + 4 * k));
  return sum;
}
inline void prefetch(const char *at) { _mm_prefetch(at, _MM_HINT_T1); }

// 32 values, rounded; their sums by halves.
inline void round_block(const float *x, float inverse, int8_t *values, int32_t *sums) {
  for (int32_t half = 0; half < 2; half++) {
    const I rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * half), _mm512_set1_ps(inverse)));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(values + 16 * half), _mm512_cvtsepi32_epi8(rounded));
    sums[half] = _mm512_reduce_add_epi32(rounded);
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
inline Pair joined(Half first, Half second) { return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1); }
// Adds 128 to signed bytes.
inline Pair flipped(Pair a) { return _mm512_xor_si512(a, _mm512_set1_epi8(static_cast<char>(0x80))); }

// 16 rows of 16 words → 16 columns of words.
inline void store_transposed(const Pair *v, uint8_t *to) {
  I t[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) { // 4 × 4 squares within each quarter
    const I a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const I c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  const auto put = [&](int column, I value) { _mm512_storeu_si512(to + column * 64, value); };
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { // then the quarters
    const I a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xDD);
    const I c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xDD);
    put(i, _mm512_shuffle_i32x4(a, c, 0x88));
    put(i + 8, _mm512_shuffle_i32x4(a, c, 0xDD));
    put(i + 4, _mm512_shuffle_i32x4(b, d, 0x88));
    put(i + 12, _mm512_shuffle_i32x4(b, d, 0xDD));
  }
}

#include "matmul/kernel_body.h"
#include "matmul/row_avx512.h"

const Kernel kernel{"avx512", lanes, pack, multiply, scratch_bytes, takes_row, pack_row, multiply_row};

} // namespace

const Kernel *avx512_kernel() { return &kernel; }

} // namespace recua::matmul

#else

namespace recua::matmul {
const Kernel *avx512_kernel() { return nullptr; }
} // namespace recua::matmul

#endif
