// The attention kernels for AVX2 with FMA and F16C. CMakeLists.txt sets the compiler's flags.
#include "attention/kernel.h"

#if defined(__AVX2__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

namespace recua::attention {

namespace {

using V = __m256;
constexpr int W = 8;
constexpr int tile_vectors = 2;
constexpr int32_t few_rows = 6;

inline V load(const float *from) { return _mm256_loadu_ps(from); }
inline void store(float *to, V v) { _mm256_storeu_ps(to, v); }
inline V zero() { return _mm256_setzero_ps(); }
inline V all(float x) { return _mm256_set1_ps(x); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V add(V a, V b) { return _mm256_add_ps(a, b); }
inline V sub(V a, V b) { return _mm256_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm256_mul_ps(a, b); }
inline V div(V a, V b) { return _mm256_div_ps(a, b); }
inline V most(V a, V b) { return _mm256_max_ps(a, b); }
inline float largest(V v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
inline float sum(V v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
inline V from_f16(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))); }
inline V from_bf16(const uint16_t *from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))), 16));
}
inline V from_i8(const int8_t *from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from))));
}
inline V rounded(V v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline V times_power(V v, V n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return mul(v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
inline V where_less(V a, V b, V x, V y) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }

inline V low(V a, V b) { return _mm256_unpacklo_ps(a, b); }
inline V high(V a, V b) { return _mm256_unpackhi_ps(a, b); }
inline V low_pairs(V a, V b) { return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }
inline V high_pairs(V a, V b) { return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }

inline void transpose(V *v) {
  V t[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) { // 4 × 4 squares within each half
    const V a = low(v[i], v[i + 1]), b = high(v[i], v[i + 1]), c = low(v[i + 2], v[i + 3]), d = high(v[i + 2], v[i + 3]);
    t[i] = low_pairs(a, c);
    t[i + 1] = high_pairs(a, c);
    t[i + 2] = low_pairs(b, d);
    t[i + 3] = high_pairs(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { // then the halves
    v[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}

inline V sums(V *v) {
  V halves[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    V *four = v + 4 * i;
    const V a = add(low(four[0], four[1]), high(four[0], four[1]));
    const V b = add(low(four[2], four[3]), high(four[2], four[3]));
    halves[i] = add(low_pairs(a, b), high_pairs(a, b));
  }
  return add(_mm256_permute2f128_ps(halves[0], halves[1], 0x20), _mm256_permute2f128_ps(halves[0], halves[1], 0x31));
}

#include "attention/kernel_body.h"

const Kernel kernel{"avx2", attend, join};

} // namespace

const Kernel *avx2_kernel() { return &kernel; }

} // namespace recua::attention

#else

namespace recua::attention {
const Kernel *avx2_kernel() { return nullptr; }
} // namespace recua::attention

#endif
